"""Judges "Where does it begin?" (chapter 14): the first of several arrays that is off."""

from collections.abc import Sequence

import numpy as np

from glassformer.exercises.catalogue import exercise

from .ward import Bed, put_to_ward


def first_difference(mine: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> int:
    """The first of several arrays that is off by more than 0.0001 anywhere, or holds no number; -1 if none."""
    for i, (one, other) in enumerate(zip(mine, theirs, strict=True)):
        if not (np.abs(one - other) <= 1e-4).all():
            return i
    return -1


first = exercise("clinic.first_difference", first_difference)

_right = [np.random.default_rng(i).normal(size=(3, 4)) for i in range(5)]


def _off(by=None):
    """The same arrays but for rounding, and some of these numbers changed at a place."""
    changed = [one + 1e-7 for one in _right]
    for i, (place, much) in (by or {}).items():
        changed[i][place] += much
    return changed, _right


_nan = _off()[0]
_nan[2][1, 1] = np.nan
put_to_ward(first, {
    "the same except for rounding": [Bed("only rounding", _off(), -1)],
    "a difference, and what follows from it": [
        Bed("arrays 2, 3 and 4 are off", _off({2: ((0, 0), 1.0), 3: ((1, 1), 5.0), 4: ((0, 1), 2.0)}), 2),
        Bed("all are off", _off({i: ((0, 1), 1.0) for i in range(5)}), 0),
    ],
    "negative or small differences": [
        Bed("array 1 is off by -0.5, array 3 by 0.5", _off({1: ((2, 3), -0.5), 3: ((0, 0), 0.5)}), 1),
        Bed("array 1 is off by 0.001 everywhere", _off({1: (..., 1e-3), 4: ((0, 0), 1.0)}), 1),
        Bed("array 1 is off by 0.001 in one of twelve numbers", _off({1: ((2, 3), 1e-3), 4: ((0, 0), 1.0)}), 1),
        Bed("array 1 is off by 0.0003 in one of twelve numbers", _off({1: ((2, 3), 3e-4), 4: ((0, 0), 1.0)}), 1),
    ],
    "large numbers": [
        Bed("100.001 and 100", ([np.array([100.001])], [np.array([100.0])]), 0),
    ],
    "NaN counts as a difference": [Bed("array 2 has a NaN", (_nan, _right), 2)],
})  # fmt: skip


first.mistake(
    "the largest", lambda *runs: int(np.argmax([abs(a - b).max() for a, b in zip(*runs, strict=True)]))
)
