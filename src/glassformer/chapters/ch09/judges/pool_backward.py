"""Judges "Find three bugs" (chapter 09): the backward pass of a learned average over positions, to be repaired.

Axes: T positions, D d_model.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.shapes import Float

from .slopes import drawn, slopes_case, softmax_rows


def pool_backward(
    grad: Float[np.ndarray, " D"], x: Float[np.ndarray, "T D"], w: Float[np.ndarray, " D"]
) -> tuple[Float[np.ndarray, "T D"], Float[np.ndarray, " D"]]:
    """Maps the gradient of softmax(x @ w) @ x to those of x and of w."""
    weights = np.exp(x @ w - (x @ w).max())
    weights /= weights.sum()
    grad_weights = x @ grad
    grad_scores = weights * (grad_weights - weights @ grad_weights)
    return np.outer(weights, grad) + np.outer(grad_scores, w), grad_scores @ x


pool_back = exercise("back.pool_backward", pool_backward, parts=("grad_x", "grad_w"), axes=("T D", "D"))


def _pooled(x, w):
    """The average with learned weights, also of complex numbers."""
    return softmax_rows(x @ w) @ x


pool_back.case(
    "two positions with equal weights, worked by hand",
    np.array([4.0, 0.0]), np.array([[1.0, 2.0], [-1.0, 2.0]]), np.array([0.0, 1.0]),
    want=[[2.0, 2.0], [2.0, -2.0]], part="grad_x",
)  # fmt: skip
slopes_case(pool_back, "five positions", _pooled, drawn(5, 3), drawn(3, seed=1))
slopes_case(pool_back, "as many positions as features", _pooled, drawn(4, 4), drawn(4, seed=1))
slopes_case(pool_back, "one position: the average is that position", _pooled, drawn(1, 3), drawn(3, seed=1))
