"""Judges "Which logits move?" (chapter 08): which logits may change when one row of the embedding changes.

Axes: T positions, V vocabulary.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.shapes import Bool, Integer


def moves(
    ids: Integer[np.ndarray, " T"], token: int, vocab_size: int, *, tied: bool = True
) -> Bool[np.ndarray, "T V"]:
    """Returns which logits may change when the row of `token` in the embedding changes."""
    table = np.zeros((len(ids), vocab_size), dtype=bool)
    table[np.cumsum(ids == token) > 0] = True  # as an input: from its first occurrence on
    if tied:
        table[:, token] = True  # as an output: its own logit at every position
    return table


moved = exercise("gpt.moves", moves, axes="T V")

_T, _F = True, False
moved.case(
    "a token that is not in the text: its own logit at every position",
    np.array([0, 2, 0]), 1, 4, want=[[_F, _T, _F, _F]] * 3,
)  # fmt: skip
moved.case(
    "the first token of the text: all logits",
    np.array([3, 1]), 3, 4, want=[[_T] * 4] * 2,
)  # fmt: skip
moved.case(
    "before its first occurrence, only its own logit: no position sees ahead",
    np.array([0, 0, 2, 1]), 2, 3, want=[[_F, _F, _T], [_F, _F, _T], [_T] * 3, [_T] * 3],
)  # fmt: skip
moved.case(
    "untied: the row is only an input",
    np.array([0, 1, 1, 2]), 1, 3, tied=False, want=[[_F] * 3, [_T] * 3, [_T] * 3, [_T] * 3],
)  # fmt: skip
moved.case(
    "from its first occurrence, not its last",
    np.array([1, 0, 2, 0]), 0, 3, want=[[_T, _F, _F], [_T] * 3, [_T] * 3, [_T] * 3],
)  # fmt: skip
moved.also(np.array([0, 2, 0]), 1, 4, tied=False, want=[[_F] * 4] * 3)


def _moving(rows, column=lambda tied: tied):
    """Returns a wrong answer; `rows` says at which positions all logits move."""

    def wrong(ids, token, V, *, tied=True):
        table = np.zeros((len(ids), V), dtype=bool)
        table[rows(ids == token)] = True
        if column(tied):
            table[:, token] = True
        return table

    return wrong


def _later(there):
    return np.cumsum(there) > 0


moved.mistake("column alone", _moving(lambda there: there & False))
moved.mistake("column alone", _moving(lambda there: there & False, lambda tied: True))
moved.mistake("sees ahead", _moving(lambda there: there | there.any()))
moved.mistake("where it stands", _moving(lambda there: there))
moved.mistake("after it", _moving(lambda there: np.cumsum(there) - there > 0))
moved.mistake("nothing", lambda ids, token, V, *, tied=True: np.zeros((len(ids), V), dtype=bool))
moved.mistake("no column", _moving(_later, lambda tied: False))
moved.mistake("column anyway", _moving(_later, lambda tied: True))


@moved.mistake("from the last")
def _(ids, token, V, *, tied=True):
    places = np.flatnonzero(ids == token)
    last = places[-1] if len(places) else len(ids)
    return _moving(lambda there: np.arange(len(there)) >= last)(ids, token, V, tied=tied)


@moved.mistake("row for column")
def _(ids, token, V, *, tied=True):
    table = moves(ids, token, V, tied=False)
    if tied and token < len(ids):
        table[token] = True
    return table


@moved.mistake("everything")
def _(ids, token, V, *, tied=True):
    return np.ones((len(ids), V), dtype=bool)
