"""Judges "What a shuffle does" (chapter 04).

Attention without positions shuffles its outputs along with its inputs.

Axes: T positions asking, S positions answering, D d_model.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.scratch.attention import softmax
from glassformer.shapes import Float, Integer

from .one_head import one_head


def shuffled(
    outputs: Float[np.ndarray, "T D"], weights: Float[np.ndarray, "T T"], order: Integer[np.ndarray, " T"]
) -> tuple[Float[np.ndarray, "T D"], Float[np.ndarray, "T T"]]:
    """Returns what attention without positions gives for ``x[order]``, from what it gave for x."""
    return outputs[order], weights[order][:, order]


equivariance = exercise("positions.equivariance", shuffled, parts=("outputs", "weights"), axes=("T D", "T S"))

_o, _w, _order = numbers(4, 3), softmax(numbers(4, 4)), np.array([2, 0, 3, 1])
equivariance.case("the outputs move with their words", _o, _w, _order, part="outputs", want=_o[_order])
equivariance.case(
    "the weights move along both axes", _o, _w, _order, part="weights", want=_w[np.ix_(_order, _order)]
)
_x, _order = numbers(6, 4), np.array([5, 2, 0, 1, 3, 4])
equivariance.case(
    "this is what attention returns when it really runs on the shuffled words",
    *one_head(_x), _order, want=one_head(_x[_order]), what="attention to six random words",
)  # fmt: skip
equivariance.also(
    *one_head(_x), _order[::-1], want=one_head(_x[_order[::-1]]), what="the same, in another order"
)
