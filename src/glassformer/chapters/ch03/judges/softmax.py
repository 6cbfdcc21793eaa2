"""Judges "A softmax that does not overflow" (chapter 03): every row of scores becomes shares that sum to 1.

Axes: B batch, T positions asking, S positions answering.
"""

import math

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.scratch.attention import softmax

from .by_hand import softmax_by_hand


def _short(x):
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


shares = exercise("attention.softmax", softmax, short=_short, axes="T S")

shares.case(
    "a score that is higher by 1 gets e times the share",
    np.array([1.0, 0.0]), want=[math.e / (1 + math.e), 1 / (1 + math.e)], being="e/(e + 1) and 1/(e + 1)", axes="S",
)  # fmt: skip
_x = numbers(3, 4)
shares.case("each row of a table sums to 1 by itself", _x, want=[softmax_by_hand(row) for row in _x])
_x = numbers(2, 3, 4)
shares.case(
    "softmax runs over the last axis, however many there are",
    _x, want=[[softmax_by_hand(row) for row in table] for table in _x], axes="B T S",
)  # fmt: skip
shares.case("a score of −∞ gets a share of 0", np.array([-np.inf, 0.0, 0.0]), want=[0, 0.5, 0.5], axes="S")
shares.case(
    "large scores do not overflow",
    np.array([1000.0, 1000.0, 999.0]), want=softmax_by_hand([1, 1, 0]), axes="S",
    advice="Subtract the largest score of the row first.",
)  # fmt: skip
shares.also(np.array([2000.0, 0.0, 0.0]), want=[1.0, 0.0, 0.0], axes="S")
shares.case(
    "rows with very different scores do not affect each other",
    np.array([[1000.0, 1001.0], [-1000.0, -1000.0]]), want=[softmax_by_hand([0, 1]), [0.5, 0.5]],
)  # fmt: skip
