"""Judges "Back through a linear map" (chapter 09): the backward pass of a linear map.

Axes: T positions, D d_model, F d_ff.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.shapes import Float

from .slopes import drawn, slopes_case


def linear_backward(
    grad: Float[np.ndarray, "T F"], x: Float[np.ndarray, "T D"], W: Float[np.ndarray, "D F"]
) -> tuple[Float[np.ndarray, "T D"], Float[np.ndarray, "D F"]]:
    """Maps the gradient of x @ W to those of x and of W."""
    return grad @ W.T, x.T @ grad


linear = exercise("back.linear_backward", linear_backward, parts=("grad_x", "grad_W"), axes=("T D", "D F"))
_W, _want = np.array([[1.0, 0.0], [2.0, 1.0]]), ([[1.0, 12.0]], [[2.0, 20.0], [3.0, 30.0]])
linear.case("one position, worked by hand", np.array([[1.0, 10.0]]), np.array([[2.0, 3.0]]), _W, want=_want)
_grad, _x, _want = np.array([[1.0], [10.0]]), np.array([[2.0], [3.0]]), ([[5.0], [50.0]], [[32.0]])
linear.case("two positions share W: their slopes add up", _grad, _x, np.array([[5.0]]), want=_want)


def _product(x, W):
    return x @ W


slopes_case(linear, "T, D and F all different", _product, drawn(5, 4), drawn(4, 3, seed=1))
_title = "T, D and F equal, so that a missing transpose still gives the right shape"
slopes_case(linear, _title, _product, drawn(4, 4), drawn(4, 4, seed=1))
