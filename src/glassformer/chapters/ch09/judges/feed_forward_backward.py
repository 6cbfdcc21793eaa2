"""Judges "Back through the feed-forward network" (chapter 09): the backward pass of the feed-forward network.

Axes: T positions, D d_model, F d_ff.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.scratch.feedforward import gelu
from glassformer.shapes import Float

from .forward import complex_feed_forward
from .gelu_slope import gelu_slope
from .linear_backward import linear_backward
from .slopes import drawn, slopes_case


def feed_forward_backward(
    grad: Float[np.ndarray, "T D"],
    x: Float[np.ndarray, "T D"],
    W_up: Float[np.ndarray, "D F"],
    b_up: Float[np.ndarray, " F"],
    W_down: Float[np.ndarray, "F D"],
    b_down: Float[np.ndarray, " D"],
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Maps the gradient of gelu(x @ W_up + b_up) @ W_down + b_down to those of x and of the four weights."""
    up = x @ W_up + b_up
    grad_wide, grad_W_down = linear_backward(grad, gelu(up), W_down)
    grad_up = grad_wide * gelu_slope(up)
    grad_x, grad_W_up = linear_backward(grad_up, x, W_up)
    return grad_x, grad_W_up, grad_up.sum(axis=0), grad_W_down, grad.sum(axis=0)


_PARTS = ("grad_x", "grad_W_up", "grad_b_up", "grad_W_down", "grad_b_down")
_AXES = ("T D", "D F", "F", "F D", "D")
feed_back = exercise("back.feed_forward_backward", feed_forward_backward, parts=_PARTS, axes=_AXES)


def _feed_case(title: str, T: int, D: int, F: int) -> None:
    shapes = (T, D), (D, F), (F,), (F, D), (D,)
    inputs = (drawn(*one, seed=i) for i, one in enumerate(shapes))
    slopes_case(feed_back, title, complex_feed_forward, *inputs)


feed_back.case(
    "one neuron: the slope of GELU at 1, times W_down",
    np.array([[1.0]]), np.array([[1.0]]), np.array([[1.0]]), np.array([0.0]), np.array([[2.0]]), np.array([0.0]),
    want=[2 * 1.0833154705876863], part="grad_b_up",
)  # fmt: skip
_feed_case("one position, three neurons", 1, 2, 3)
_feed_case("five positions share the weights", 5, 4, 7)
_feed_case("T, D and F equal", 4, 4, 4)
