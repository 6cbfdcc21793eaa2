"""Judges "Read the map" (chapter 14): what a causal head's attention weights reveal.

Axis: T positions.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.scratch.attention import softmax
from glassformer.shapes import Float

from .ward import Bed, put_to_ward


def read_map(weights: Float[np.ndarray, "T T"]) -> str:
    """Returns what a causal head's attention weights reveal."""
    rows, columns = (np.allclose(weights.sum(axis=axis), 1) for axis in (-1, -2))
    if not rows:
        return "axis" if columns else "late"
    return "future" if np.triu(weights, 1).any() else "fine"


maps = exercise("clinic.read_map", read_map)

_scores = np.random.default_rng(5).normal(size=(5, 5))
_under = np.tri(5, dtype=bool)
_hidden = np.where(_under, _scores, -np.inf)
_fine, _late = softmax(_hidden), softmax(_scores) * _under
_axis = softmax(_hidden.T).T

put_to_ward(maps, {
    "nothing is wrong": [
        Bed("rows that sum to 1, and no future", (_fine,), "fine"),
        Bed("every position looks at the first one", (np.eye(4)[[0, 0, 0, 0]],), "fine"),
        Bed("every position looks at itself: columns sum to 1 as well", (np.eye(4),), "fine"),
    ],
    "the future is seen": [
        Bed("no mask at all", (softmax(_scores),), "future"),
        Bed("one ahead", (softmax(np.where(np.tri(5, k=1, dtype=bool), _scores, -np.inf)),), "future"),
        Bed("no mask, and all weights equal", (np.full((3, 3), 1 / 3),), "future"),
        Bed("only row 1 sees ahead", (np.array([[1, 0, 0], [0.2, 0.3, 0.5], [0.3, 0.3, 0.4]]),), "future"),
        Bed("a thousandth of the weight on the future", (np.array([[0.999, 0.001], [0.5, 0.5]]),), "future"),
    ],
    "columns sum to 1, not rows": [
        Bed("softmax over the queries", (_axis,), "axis"),
        Bed("softmax over the queries, without a mask", (softmax(_scores.T).T,), "axis"),
    ],
    "rows sum to less than 1": [
        Bed("the mask came after the softmax", (_late,), "late"),
        Bed("the same, with a row that lacks only a little weight", (np.array([[0.98, 0.0], [0.5, 0.5]]),), "late"),
        Bed("only row 1 lacks some weight", (np.array([[1, 0, 0], [0.2, 0.3, 0], [0.3, 0.3, 0.4]]),), "late"),
    ],
})  # fmt: skip
