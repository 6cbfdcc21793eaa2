"""Judges "Pieces of a batch" (chapter 10): the gradient of a batch, from the gradients of its pieces."""

from collections.abc import Sequence

import numpy as np

from glassformer.exercises.catalogue import exercise


def accumulated(pieces: Sequence[tuple[np.ndarray, int]]) -> np.ndarray:
    """The gradient of a whole batch, from that of each piece and how many targets the piece has."""
    total = sum(n for _, n in pieces)
    return sum((gradient * (n / total) for gradient, n in pieces), np.zeros_like(pieces[0][0]))


added = exercise("training.accumulated", accumulated)

_two = np.array([1.0, -2.0]), np.array([3.0, 6.0])
_what = "accumulated of two pieces of 5 targets,"
added.case("two equal pieces: the mean", [(_two[0], 5), (_two[1], 5)], want=[2.0, 2.0], what=_what)
_title = "a piece with three times as many targets has three times the weight"
_what = "accumulated from two pieces, with 3 targets and 1 target,"
added.case(_title, [(_two[0], 3), (_two[1], 1)], want=[1.5, 0.0], what=_what)
added.case("one piece is the batch", [(_two[1], 7)], want=[3.0, 6.0], what="accumulated of one piece,")
added.case(
    "a matrix, and three pieces, one of which is only padding",
    [(np.full((2, 3), 4.0), 6), (np.zeros((2, 3)), 0), (np.full((2, 3), -2.0), 2)],
    want=np.full((2, 3), 2.5), what="accumulated from pieces with 6, 0 and 2 targets,",
)  # fmt: skip
