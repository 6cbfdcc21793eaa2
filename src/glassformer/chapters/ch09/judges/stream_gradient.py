"""Judges "Gradient flow" (chapter 09): the gradient at the beginning of the stream, with and without the residual.

Axis: D d_model.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.shapes import Float

from .slopes import drawn


def stream_gradient(
    grad: Float[np.ndarray, " D"], matrices: Float[np.ndarray, "N D D"], *, residual: bool = True
) -> Float[np.ndarray, " D"]:
    """The gradient at the stream's beginning, after N linear sublayers x + x @ A, or x @ A without the residual."""
    for A in matrices[::-1]:
        grad = grad * residual + grad @ A.T
    return grad


flow = exercise("back.stream_gradient", stream_gradient, axes="D")
_A, _g = np.array([[[0.0, 1.0], [0.0, 0.0]]]), np.array([1.0, 2.0])
flow.case("one sublayer, with the residual path", _g, _A, want=[3.0, 2.0])
flow.case("and without", _g, _A, residual=False, want=[2.0, 0.0])
_title = "sublayers whose output is 0, with residual paths: the whole gradient arrives"
flow.case(_title, _g, np.zeros((5, 2, 2)), want=_g)
_A, _g, _I = drawn(3, 4, 4, seed=70) / 2, drawn(4, seed=71), np.eye(4)
_want = (_I + _A[0]) @ ((_I + _A[1]) @ ((_I + _A[2]) @ _g))
flow.case("three sublayers, in the right order", _g, _A, want=_want)
flow.case("and without residual paths", _g, _A, residual=False, want=_A[0] @ (_A[1] @ (_A[2] @ _g)))
flow.case("no sublayers", _g, np.zeros((0, 4, 4)), want=_g)
_A, _title = np.full((40, 1, 1), 0.1), "forty sublayers of 0.1: each multiplies by 1.1"
flow.case(_title, np.array([1.0]), _A, want=[1.1**40], being="1.1 to the 40th")
