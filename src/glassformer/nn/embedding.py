"""Turns token ids into vectors, with a table that has one row for each entry of the vocabulary."""

import torch
from jaxtyping import Float, Integer
from torch import Tensor, nn

from glassformer import _checks as checks
from glassformer.nn.linear import normal


class TokenEmbedding(nn.Module):
    """As `scratch.TokenEmbedding`, in PyTorch; ids are not checked while torch compiles."""

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
