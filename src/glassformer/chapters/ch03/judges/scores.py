"""Judges "How well do they match?" (chapter 03): a query's scaled dot product with each key.

Axes: S positions answering, K d_head.
"""

import math

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.scratch.attention import softmax
from glassformer.shapes import Float


def scores(query: Float[np.ndarray, " K"], keys: Float[np.ndarray, "S K"]) -> Float[np.ndarray, " S"]:
    """Computes how well a query matches each key: their dot products, divided by √d_head."""
    return keys @ query / np.sqrt(len(query))


matching = exercise("attention.scores", scores, axes="S")

matching.shape("one score for each key", numbers(4), numbers(3, 4, seed=1), want=(3,))
matching.case(
    "the same direction gives a high score, a right angle 0, the opposite direction a low one",
    np.array([2.0, 0, 0, 0]), np.array([[3.0, 0, 0, 0], [0, 1, 0, 0], [-1, 0, 5, 0]]), want=[3.0, 0.0, -1.0],
    being="6/√4, 0/√4 and −2/√4",
)  # fmt: skip
_q, _k = numbers(5), numbers(2, 5, seed=1)
matching.case(
    "random vectors, and another width",
    _q, _k, want=[sum(a * b for a, b in zip(_q, row, strict=True)) / 5**0.5 for row in _k],
)  # fmt: skip
_q, _k = numbers(1), numbers(6, 1, seed=1)
matching.case(
    "a width of 1, so nothing changes when you divide by √1", _q, _k, want=[_q[0] * row[0] for row in _k]
)

matching.mistake("shapes", lambda q, k: q @ k)
matching.mistake("shares", lambda q, k: softmax(k @ q / math.sqrt(len(q))))
