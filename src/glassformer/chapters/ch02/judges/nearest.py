"""Judges "The nearest rows" (chapter 02): the other rows of a table, ordered by their cosine with one row.

Axes: V vocabulary, D d_model.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.shapes import Float, Int


def nearest(table: Float[np.ndarray, "V D"], row: int) -> Int[np.ndarray, " _"]:
    """Returns the numbers of all other rows, sorted by their cosine with this one, the largest first."""
    directions = table / np.linalg.norm(table, axis=1, keepdims=True)
    order = np.argsort(-(directions @ directions[row]))
    return order[order != row]


near = exercise("tokens.nearest", nearest, axes="V−1")

# Directions in the plane, with lengths that do not depend on them.
_angles, _lengths = np.deg2rad([0.0, 100, 20, 175, 55]), np.array([1.0, 9, 0.5, 2, 4])
_table = _lengths[:, None] * np.stack([np.cos(_angles), np.sin(_angles)], axis=1)
near.shape("all other rows, but not the row itself", _table, 0, want=(4,))
near.case("by direction: 20°, 55°, 100° and 175° away", _table, 0, want=[2, 4, 1, 3])
near.also(_table, 1, want=[4, 3, 2, 0], what="the rows nearest to the one at 100°")
near.case(
    "whatever the lengths of the rows",
    _table * np.array([[5.0], [1], [30], [0.1], [1]]), 0, want=[2, 4, 1, 3],
)  # fmt: skip
near.also(_table * np.array([[1.0], [1], [0.01], [9], [1]]), 4, want=[2, 1, 0, 3])
near.case(
    "in any number of dimensions",
    np.array([[1.0, 0, 0], [0, 1, 0.1], [1, 1, 0], [-1, 0, 0], [0.9, 0.1, 0]]), 0, want=[4, 2, 1, 3],
)  # fmt: skip
near.case(
    "the row itself is left out, even if another row points in exactly the same direction",
    np.array([[1.0, 0, 0], [2, 0, 0], [1, 1, 0], [0, 0, 3]]), 1, want=[0, 2, 3],
)  # fmt: skip
