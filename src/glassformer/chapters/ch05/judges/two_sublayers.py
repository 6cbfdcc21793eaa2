"""Judges "Before or after" (chapter 05).

A block of two sublayers, with the norm before each of them or after the sum.

Axes: T positions, D d_model.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.shapes import Float

from .norms import Norm


def two_sublayers(
    x: Float[np.ndarray, "T D"],
    attention: Norm,
    feed_forward: Norm,
    norm_1: Norm,
    norm_2: Norm,
    placement: str,
) -> Float[np.ndarray, "T D"]:
    """A block: two sublayers that add to the stream, each with its norm before it ("pre") or after the sum ("post")."""
    if placement == "pre":
        x = x + attention(norm_1(x))
        return x + feed_forward(norm_2(x))
    x = norm_1(x + attention(x))
    return norm_2(x + feed_forward(x))


block = exercise("stream.two_sublayers", two_sublayers, axes="T D")

_mix, _turn = numbers(3, 3, seed=1), numbers(2, 2, seed=2)


def _attention(x):
    """Any function that mixes positions."""
    return _mix @ np.asarray(x)


def _feed_forward(x):
    """Any function of each position alone."""
    return np.maximum(np.asarray(x) @ _turn, 0)


def _halves(x):
    """Halves and adds 3: a norm whose effect is visible even where it reads zeros."""
    return np.asarray(x) / 2 + 3


def _less_one(x):
    return np.asarray(x) - 1


_nothing, _gives = np.zeros_like, np.asarray
_x = numbers(3, 2)
block.case(
    "pre-norm, with sublayers that write nothing: the input comes out unchanged",
    _x, _nothing, _nothing, _halves, _less_one, "pre", want=_x,
)  # fmt: skip
block.case(
    "post-norm, with sublayers that write nothing: the input, normed twice",
    _x, _nothing, _nothing, _halves, _less_one, "post", want=_x / 2 + 2,
)  # fmt: skip
_a = np.array([[4.0, 8.0], [0, 2], [2, 0]])
block.case(
    "pre-norm: each sublayer reads through its norm, and adds",
    _a, _gives, _gives, _halves, _less_one, "pre", want=3 * _a + 5, being="x + (x/2 + 3), then twice that less 1",
)  # fmt: skip
_after = _x + _mix @ (_x / 2 + 3)
block.also(
    _x, _attention, _feed_forward, _halves, _less_one, "pre",
    want=_after + np.maximum((_after - 1) @ _turn, 0),
)  # fmt: skip
block.case(
    "post-norm: each sum goes through its norm",
    _a, _gives, _gives, _halves, _less_one, "post", want=2 * _a + 5, being="(x + x)/2 + 3, then 1 less than twice that",
)  # fmt: skip
_after = (_x + _mix @ _x) / 2 + 3
block.also(
    _x, _attention, _feed_forward, _halves, _less_one, "post", want=_after + np.maximum(_after @ _turn, 0) - 1
)
