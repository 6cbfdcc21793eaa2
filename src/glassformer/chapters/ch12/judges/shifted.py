"""Judges "Shift by one" (chapter 12): the decoder's inputs and targets, one step apart.

Axes: B batch, T positions.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.shapes import Integer
from glassformer.tasks import NO_TARGET


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

forcing.case(
    "one answer: the start comes before it, the stop after it", [np.array([4, 7, 5])], 8, 9, 0,
    want=([[8, 4, 7, 5]], [[4, 7, 5, 9]]),
)  # fmt: skip
forcing.case(
    "the shorter of two answers is padded, and the padding has no target",
    [np.array([4, 7, 5]), np.array([6])], 8, 9, 0,
    want=([[8, 4, 7, 5], [8, 6, 0, 0]], [[4, 7, 5, 9], [6, 9, -100, -100]]),
)  # fmt: skip
forcing.case(
    "three answers, one of them empty, and different ids for start and stop",
    [np.array([1, 2]), np.array([], int), np.array([3, 1, 1, 2, 2])], 5, 6, 7,
    want=(
        [[5, 1, 2, 7, 7, 7], [5, 7, 7, 7, 7, 7], [5, 3, 1, 1, 2, 2]],
        [[1, 2, 6, -100, -100, -100], [6, -100, -100, -100, -100, -100], [3, 1, 1, 2, 2, 6]],
    ),
)  # fmt: skip


def _filled(rows: Sequence[Any], filler: int) -> np.ndarray:
    width = max(map(len, rows))
    return np.array([[*row, *[filler] * (width - len(row))] for row in rows])


def _forced(read, asked, filler=lambda pad: NO_TARGET):
    def wrong(answers, start_id, stop_id, pad_id):
        a = [list(answer) for answer in answers]
        return (
            _filled([read(one, start_id, stop_id) for one in a], pad_id),
            _filled([asked(one, start_id, stop_id) for one in a], filler(pad_id)),
        )

    return wrong


forcing.mistake("not shifted", _forced(lambda a, s, e: [*a, e], lambda a, s, e: [*a, e]))
forcing.mistake("in the other order", lambda *given: shifted(*given)[::-1])
forcing.mistake("asked for what it reads", _forced(lambda a, s, e: [s, *a], lambda a, s, e: [s, *a]))
forcing.mistake("no stop", _forced(lambda a, s, e: [s, *a[:-1]], lambda a, s, e: a))
forcing.mistake("stop read", _forced(lambda a, s, e: [s, *a, e], lambda a, s, e: [*a, e, NO_TARGET]))
forcing.mistake("start and stop exchanged", _forced(lambda a, s, e: [e, *a], lambda a, s, e: [*a, s]))
forcing.mistake(
    "asked for padding", _forced(lambda a, s, e: [s, *a], lambda a, s, e: [*a, e], lambda pad: pad)
)
forcing.mistake("read −100", lambda a, s, e, pad: (shifted(a, s, e, NO_TARGET)[0], shifted(a, s, e, pad)[1]))
forcing.mistake("filled with the stop", lambda a, s, e, pad: shifted(a, s, e, e))
forcing.mistake("shifted twice", _forced(lambda a, s, e: [s, *a], lambda a, s, e: [*a[1:], e, NO_TARGET]))
