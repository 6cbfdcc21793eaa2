"""Judges "Looking up rows" (chapter 02): every id selects its row of a table, and an id without a row raises an error.

Axes: B batch, T tokens, V vocabulary, D d_model.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.shapes import Float, Integer


def embed(ids: Integer[np.ndarray, "*B T"], table: Float[np.ndarray, "V D"]) -> Float[np.ndarray, "*B T D"]:
    """Returns the row of the table for each id.

    Raises:
        ValueError: an id is below 0 or has no row; the message names it.
    """
    bad = ids[(ids < 0) | (ids >= len(table))]
    if bad.size:
        raise ValueError(f"id {bad[0]} has no row")
    return table[ids]


lookup = exercise("tokens.embed", embed, axes="T D")

_ids, _table = np.array([4, 0, 4]), numbers(6, 3)
lookup.case("row i for id i", _ids, _table, want=np.stack([_table[4], _table[0], _table[4]]))
_ids, _square = np.array([[1, 0], [3, 3], [2, 1]]), numbers(4, 4, seed=1)
lookup.case(
    "a batch keeps its shape and becomes (B, T, D)",
    _ids, _square, want=[[_square[i] for i in row] for row in _ids], axes="B T D",
)  # fmt: skip
lookup.refuses(
    "an id without a row raises ValueError, and the message names it",
    np.array([0, 17, 2]), _table, names=(17,),
)  # fmt: skip
lookup.also_refuses(np.array([6]), _table, names=(6,))
lookup.refuses(
    "a negative id raises ValueError as well, although NumPy would accept it",
    np.array([0, -1, 2]), _table, names=(-1,),
)  # fmt: skip
lookup.also_refuses(np.array([[0, -2]]), _table, names=(-2,))

lookup.mistake("first rows", lambda ids, table: table[: ids.shape[-1]])
lookup.mistake("wraps", lambda ids, table: table[ids % len(table)])
lookup.slip("from the end", "(ids < 0) | (ids >= len(table))", "ids >= len(table)")
