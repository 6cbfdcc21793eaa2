"""Queries that are scaled by their position, so that attention stays sharp over long texts."""

import numpy as np

from glassformer import _checks as checks
from glassformer.scratch.layer import Layer, Saved, save_for_backward
from glassformer.shapes import Float, Integer


class PositionScale(Layer):
    """Multiplies all scores of a query by 1 + β · ln(1 + ⌊position / original_context⌋).

    Nothing changes within the context of the first training; each further one
    counts logarithmically.

    Source: Nakanishi 2025, "Scalable-Softmax Is Superior for Attention"; in this
    form in Llama 4 and Ministral 3 (`llama_4_scaling_beta`).

    Raises:
        ValueError: `beta` is not positive and finite, or `original_context` is
            below 1.
    """

    def __init__(self, beta: float, original_context: int) -> None:
        checks.positive("beta", beta)
        checks.whole("original_context", original_context)
        self.beta, self.original_context = beta, original_context

    def forward(
        self,
        x: Float[np.ndarray, "*B H T S"],
        position_ids: Integer[np.ndarray, "..."],
        saved: Saved | None = None,
    ) -> Float[np.ndarray, "*B H T S"]:
        """Maps scores (..., H, T, S) to the same shape; `position_ids`, (T,) or (B, T), are the queries'."""
        contexts = np.floor_divide(position_ids, self.original_context)
        factor = (1 + self.beta * np.log1p(contexts)).astype(x.dtype)
        # (T, 1), or with a batch (B, 1, T, 1): the same for all heads and keys
        factor = (
            factor[..., None, :, None] if factor.ndim > 1 else factor[:, None]
        )
        save_for_backward(saved, factor)
        return x * factor

    def backward(
        self, grad: Float[np.ndarray, "*B H T S"], saved: Saved
    ) -> Float[np.ndarray, "*B H T S"]:
        """Maps the gradient of the output to that of x."""
        (factor,) = saved.pop()
        return grad * factor
