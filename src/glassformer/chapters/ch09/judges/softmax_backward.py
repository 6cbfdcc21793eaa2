"""Judges "Back through softmax" (chapter 09): the backward pass of softmax, from its output.

Axis: T positions.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.shapes import Float

from .slopes import drawn, slopes_of, softmax_rows


def softmax_backward(
    grad: Float[np.ndarray, "*B S"], weights: Float[np.ndarray, "*B S"]
) -> Float[np.ndarray, "*B S"]:
    """Maps the gradient of softmax's output, `weights`, to that of its input."""
    return weights * (grad - (grad * weights).sum(axis=-1, keepdims=True))


soft_back = exercise("back.softmax_backward", softmax_backward, axes="T S")
for _title, _grad, _weights, _want in (
    ("two equal weights: what one gains, the other loses", [[1.0, 0.0]], [[0.5, 0.5]], [[0.25, -0.25]]),
    ("three weights, worked by hand", [[4.0, 0.0, 8.0]], [[0.5, 0.25, 0.25]], [[0.0, -1.0, 1.0]]),
    ("equal slopes: nothing moves", [[3.0, 3.0, 3.0]], [[0.2, 0.3, 0.5]], [[0.0, 0.0, 0.0]]),
):
    soft_back.case(_title, np.array(_grad), np.array(_weights), want=_want)


def _slopes(grad, weights):
    return slopes_of(softmax_rows, [np.log(weights)], grad)[0]


for _title, _shape, _axes in (
    ("each row separately", (4, 4), "T S"),
    ("rows of a different length", (3, 6), "T S"),
    ("heads in front", (2, 3, 4), "H T S"),
    ("one row alone", (5,), "S"),
):
    soft_back.case(_title, drawn(*_shape, seed=1), softmax_rows(drawn(*_shape)), want=_slopes, axes=_axes)
soft_back.case(
    "a masked pair and a row that is certain: exactly 0", np.array([[7.0, -2.0], [1.0, 5.0]]),
    np.array([[1.0, 0.0], [0.5, 0.5]]), want=[[0.0, 0.0], [-1.0, 1.0]],
)  # fmt: skip
