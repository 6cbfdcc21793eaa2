"""Turns token ids into vectors, with a table that has one row for each entry of the vocabulary."""

import torch
from jaxtyping import Float, Integer
from torch import Tensor, nn

from glassformer import _checks as checks
from glassformer.nn.linear import normal


class TokenEmbedding(nn.Module):
    """Looks up one learned vector for each token id.

    `weight` (V, D) is initialized from a normal distribution with standard
    deviation 0.02, as in GPT.

    Source: Radford et al. 2018, "Improving Language Understanding by Generative
    Pre-Training". Derived in chapter 02, its gradient in 09.

    Raises:
        ValueError: `vocab_size` or `d_model` is below 1; an id is outside 0..V-1
            (the message names the first).
        TypeError: the ids are not integers.
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        *,
        generator: torch.Generator | None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        checks.whole("vocab_size", vocab_size)
        checks.whole("d_model", d_model)
        self.vocab_size, self.d_model = vocab_size, d_model
        self.weight = normal(generator, 0.02, (vocab_size, d_model), dtype)

    def forward(self, ids: Integer[Tensor, "*B T"]) -> Float[Tensor, "*B T D"]:
        """Maps ids (..., T) to vectors (..., T, D)."""
        # Checking values would split a compiled program in two
        if not torch.compiler.is_compiling():
            checks.indices("ids", ids, "vocab_size", self.vocab_size)
        # Convert to long, because torch treats uint8 indices as a mask
        return self.weight[ids.long()]
