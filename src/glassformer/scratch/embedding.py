"""Token ids become vectors: a table with one row for each entry of the vocabulary."""

import numpy as np
from jaxtyping import Float, Integer
from numpy.typing import DTypeLike

from glassformer import _checks as checks


class TokenEmbedding:
    """Looks up one learned vector for each token id.

    `weight` (V, D) starts out normal with standard deviation 0.02, as GPT's does.

    Source: Radford et al. 2018, "Improving Language Understanding by Generative Pre-Training". Derived in
    chapter 02.

    Raises:
        ValueError: `vocab_size` or `d_model` is below 1; an id is outside 0..V-1 (the message names the
            first).
        TypeError: the ids are not integers.
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        *,
        generator: np.random.Generator,
        dtype: DTypeLike = np.float32,
    ) -> None:
        checks.whole("vocab_size", vocab_size)
        checks.whole("d_model", d_model)
        self.vocab_size, self.d_model = vocab_size, d_model
        self.weight = generator.normal(0, 0.02, (vocab_size, d_model)).astype(dtype)

    def __call__(self, ids: Integer[np.ndarray, "*B T"]) -> Float[np.ndarray, "*B T D"]:
        """Maps ids (..., T) to vectors (..., T, D)."""
        checks.indices("ids", ids, "vocab_size", self.vocab_size)
        return self.weight[ids]
