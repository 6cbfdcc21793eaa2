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
moved.case("the first token of the text: all logits", np.array([3, 1]), 3, 4, want=[[_T] * 4] * 2)
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
