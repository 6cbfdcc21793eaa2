"""Judges "A table of positions" (chapter 04).

A table of positions is added to the rows, and a text longer than it is refused.

Axes: B batch, T positions asking, D d_model, N rows of a table.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.scratch.positions import LearnedPositions
from glassformer.shapes import Float


def add_learned(
    x: Float[np.ndarray, "*B T D"], table: Float[np.ndarray, "N D"]
) -> Float[np.ndarray, "*B T D"]:
    """Adds row t of the table to row t of x; the table's length is the longest x there can be.

    Raises:
        ValueError: x is longer than the table.
    """
    T, context_length = x.shape[-2], len(table)
    if context_length < T:
        raise ValueError(f"T={T} positions do not fit in a table of context_length={context_length}")
    return x + table[:T]


table = exercise("positions.learned", add_learned, built_on=(LearnedPositions,), axes="T D")

_x, _rows = numbers(3, 4), numbers(5, 4, seed=1)
table.case("row t of the table is added to row t of x", _x, _rows, want=_x + _rows[:3])
_x = numbers(14, 3, 4)  # 14 sequences: more than the table has rows
_sums = np.stack([sequence + _rows[:3] for sequence in _x])
table.case("a batch: every sequence gets the same rows", _x[:4], _rows, want=_sums[:4], axes="B T D")
table.also(_x, _rows, want=_sums, axes="B T D")
_x = numbers(5, 4)
table.case("a sequence as long as the table still fits", _x, _rows, want=_x + _rows)
table.also(_x[None], _rows, want=(_x + _rows)[None], axes="B T D")
table.also(_x[None, :1], _rows, want=(_x[:1] + _rows[:1])[None], axes="B T D")
table.refuses(
    "positions past the table's end: ValueError, and the message names both lengths",
    numbers(12, 2), numbers(10, 2), what="12 positions and a table of 10 rows", names=(12, 10),
)  # fmt: skip
table.also_refuses(numbers(11, 2), numbers(10, 2), what="11 positions and a table of 10 rows", names=(11, 10))
table.refuses(
    "in a batch too", numbers(2, 12, 3), numbers(10, 3), names=(12, 10),
    what="two sequences of 12 positions and a table of 10 rows",
)  # fmt: skip
table.refuses(
    "a table of one row is not stretched", numbers(13, 2), numbers(1, 2), names=(13, 1),
    what="13 positions and a table of 1 row",
)  # fmt: skip

table.mistake("sequences", lambda x, table: x + (table[: len(x), None] if x.ndim == 3 else table[: len(x)]))
table.slip("no batch", "T, context_length = x.shape[-2],", "(T, _), context_length = x.shape,")
