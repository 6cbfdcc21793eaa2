"""Turns token ids into vectors, with a table that has one row for each entry of the vocabulary."""

import numpy as np
from numpy.typing import DTypeLike

from glassformer import _checks as checks
from glassformer.scratch.layer import Layer, Saved, normal, save_for_backward
from glassformer.shapes import Float, Integer


class TokenEmbedding(Layer):
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
        generator: np.random.Generator | None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        checks.whole("vocab_size", vocab_size)
        checks.whole("d_model", d_model)
        self.vocab_size, self.d_model = vocab_size, d_model
        self.weight = normal(generator, 0.02, (vocab_size, d_model), dtype)

    def forward(
        self, ids: Integer[np.ndarray, "*B T"], saved: Saved | None = None
    ) -> Float[np.ndarray, "*B T D"]:
        """Maps ids (..., T) to vectors (..., T, D)."""
        checks.indices("ids", ids, "vocab_size", self.vocab_size)
        save_for_backward(saved, ids)
        return self.weight[ids]

    def backward(self, grad: Float[np.ndarray, "*B T D"], saved: Saved) -> None:
        """Maps the gradient of the vectors to that of the table; ids have no gradient."""
        (ids,) = saved.pop()
        self.accumulate(weight=add_at(self.weight.shape, ids, grad))


def add_at(
    shape: tuple[int, ...],
    rows: Integer[np.ndarray, "*B"],
    values: Float[np.ndarray, "*B D"],
) -> Float[np.ndarray, "V D"]:
    """Adds each of `values` to its row in an array of zeros: the backward pass of a lookup.

    A row that was looked up twice gets both values; with `table[rows] += values`
    it would get only one.
    """
    table = np.zeros(shape, values.dtype)
    np.add.at(table, rows.reshape(-1), values.reshape(-1, shape[-1]))
    return table
