"""A soft cap: no score, and no logit, grows beyond a limit."""

import numpy as np

from glassformer import _checks as checks
from glassformer.scratch.layer import Layer, Saved, save_for_backward
from glassformer.shapes import Float


class SoftCap(Layer):
    """cap · tanh(x / cap): almost x itself where x is small, and never beyond ±cap.

    Source: Gemma Team 2024, "Gemma 2", section 2, "Logit soft-capping"; Bello et
    al. 2016, "Neural Combinatorial Optimization with Reinforcement Learning".

    Raises:
        ValueError: `cap` is not positive and finite.
    """

    def __init__(self, cap: float) -> None:
        checks.positive("cap", cap)
        self.cap = cap

    def forward(
        self,
        x: Float[np.ndarray, "*B"],
        position_ids: object = None,
        saved: Saved | None = None,
    ) -> Float[np.ndarray, "*B"]:
        """Maps scores or logits of any shape to the same shape."""
        bent = np.tanh(x / self.cap)
        save_for_backward(saved, bent)
        return bent * self.cap

    def backward(
        self, grad: Float[np.ndarray, "*B"], saved: Saved
    ) -> Float[np.ndarray, "*B"]:
        """Maps the gradient of the output to that of x: the slope is 1 − tanh²(x / cap)."""
        (bent,) = saved.pop()
        return grad * (1 - bent * bent)
