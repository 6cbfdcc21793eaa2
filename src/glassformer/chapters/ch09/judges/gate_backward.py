"""Judges "A sigmoid gate" (chapter 09): the backward pass of x · sigmoid(x @ W).

Axes: T positions, D d_model.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.shapes import Float

from .slopes import drawn, slopes_case


def gate_backward(
    grad: Float[np.ndarray, "T D"], x: Float[np.ndarray, "T D"], W: Float[np.ndarray, "D D"]
) -> tuple[Float[np.ndarray, "T D"], Float[np.ndarray, "D D"]]:
    """Maps the gradient of x · sigmoid(x @ W) to those of x and of W."""
    gate = 1 / (1 + np.exp(-(x @ W)))
    grad_scores = grad * x * gate * (1 - gate)
    return grad * gate + grad_scores @ W.T, x.T @ grad_scores


gate_back = exercise("back.gate_backward", gate_backward, parts=("grad_x", "grad_W"), axes=("T D", "D D"))


def _gated(x, W):
    """The gate, also of complex numbers."""
    return x / (1 + np.exp(-(x @ W)))


gate_back.case(
    "a half-open gate, worked by hand", np.array([[8.0]]), np.array([[3.0]]), np.array([[0.0]]),
    want=([[4.0]], [[18.0]]),
)  # fmt: skip
slopes_case(gate_back, "one position", _gated, drawn(1, 3, seed=220), drawn(3, 3, seed=221))
slopes_case(gate_back, "five positions share W", _gated, drawn(5, 3, seed=223), drawn(3, 3, seed=224))
slopes_case(gate_back, "as many positions as features", _gated, drawn(4, 4, seed=226), drawn(4, 4, seed=227))
