"""Judges "Shift by one" (chapter 12): the decoder's inputs and targets, one step apart.

Axes: B batch, T positions.
"""

from collections.abc import Sequence

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.shapes import Integer


def shifted(
    answers: Sequence[Integer[np.ndarray, " _"]], start_id: int, stop_id: int, pad_id: int
) -> tuple[Integer[np.ndarray, "B T"], Integer[np.ndarray, "B T"]]:
    """Returns the decoder's inputs (start and answer) and its targets (answer and stop)."""
    T = max(map(len, answers)) + 1
    ids, targets = np.full((len(answers), T), pad_id), np.full((len(answers), T), -100)
    for row, target, answer in zip(ids, targets, answers, strict=True):
        row[: len(answer) + 1] = [start_id, *answer]
        target[: len(answer) + 1] = [*answer, stop_id]
    return ids, targets


forcing = exercise("families.shifted", shifted, parts=("ids", "targets"), axes=("B T", "B T"))

_one, _want = np.array([4, 7, 5]), ([[8, 4, 7, 5]], [[4, 7, 5, 9]])
forcing.case("one answer: the start comes before it, the stop after it", [_one], 8, 9, 0, want=_want)
_title = "the shorter of two answers is padded, and the padding has no target"
_want = ([[8, 4, 7, 5], [8, 6, 0, 0]], [[4, 7, 5, 9], [6, 9, -100, -100]])
forcing.case(_title, [_one, np.array([6])], 8, 9, 0, want=_want)
forcing.case(
    "three answers, one of them empty, and different ids for start and stop",
    [np.array([1, 2]), np.array([], int), np.array([3, 1, 1, 2, 2])], 5, 6, 7,
    want=(
        [[5, 1, 2, 7, 7, 7], [5, 7, 7, 7, 7, 7], [5, 3, 1, 1, 2, 2]],
        [[1, 2, 6, -100, -100, -100], [6, -100, -100, -100, -100, -100], [3, 1, 1, 2, 2, 6]],
    ),
)  # fmt: skip
