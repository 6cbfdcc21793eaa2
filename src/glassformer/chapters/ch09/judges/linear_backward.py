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
linear.case(
    "one position, worked by hand",
    np.array([[1.0, 10.0]]), np.array([[2.0, 3.0]]), np.array([[1.0, 0.0], [2.0, 1.0]]),
    want=([[1.0, 12.0]], [[2.0, 20.0], [3.0, 30.0]]),
)  # fmt: skip
linear.case(
    "two positions share W: their slopes add up",
    np.array([[1.0], [10.0]]), np.array([[2.0], [3.0]]), np.array([[5.0]]),
    want=([[5.0], [50.0]], [[32.0]]),
)  # fmt: skip


def _product(x, W):
    return x @ W


slopes_case(
    linear, "T, D and F all different", _product, drawn(5, 4), drawn(4, 3, seed=1),
    grad=drawn(5, 3, seed=2),
)  # fmt: skip
slopes_case(
    linear, "T, D and F equal, so that a missing transpose still gives the right shape", _product, drawn(4, 4),
    drawn(4, 4, seed=1), grad=drawn(4, 4, seed=2),
)  # fmt: skip
linear.mistake("pair", lambda g, x, W: linear_backward(g, x, W)[::-1])
linear.mistake("W as it stands", lambda g, x, W: (g @ W, x.T @ g))
linear.mistake("x as it stands", lambda g, x, W: (g @ W.T, x @ g))
linear.mistake("grad_W turned", lambda g, x, W: (g @ W.T, g.T @ x))
linear.mistake("mean", lambda g, x, W: (g @ W.T, x.T @ g / len(x)))
linear.mistake("last position", lambda g, x, W: (g @ W.T, np.outer(x[-1], g[-1])))
linear.mistake("sums first", lambda g, x, W: (g @ W.T, np.outer(x.sum(axis=0), g.sum(axis=0))))
linear.mistake("local slopes", lambda g, x, W: (np.ones_like(g) @ W.T, x.T @ np.ones_like(g)))
