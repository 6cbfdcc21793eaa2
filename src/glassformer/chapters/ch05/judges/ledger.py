"""Judges "The ledger" (chapter 05): the stream at the start and after each write.

Axes: L stages, N writes, T positions, D d_model.
"""

import math

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.shapes import Float


def ledger(x_0: Float[np.ndarray, "T D"], writes: Float[np.ndarray, "N T D"]) -> Float[np.ndarray, "N+1 T D"]:
    """The stream at first, and after each write."""
    return np.cumsum(np.concatenate([x_0[None], writes]), axis=0)


sums = exercise("stream.ledger", ledger, axes="L T D")

sums.shape("one entry more than there are writes", numbers(3, 4), numbers(2, 3, 4, seed=1), want=(3, 3, 4))
sums.case(
    "the first entry is the stream before any write",
    np.array([[1.0, 2.0]]), np.array([[[10.0, 0]], [[0, 5.0]]]), row=0, want=[[1.0, 2.0]], axes="T D",
)  # fmt: skip
sums.case(
    "each write is added to everything before it",
    np.array([[1.0, 2.0]]), np.array([[[10.0, 0]], [[0, 5.0]], [[-1.0, 1.0]]]),
    want=[[[1.0, 2.0]], [[11.0, 2.0]], [[11.0, 7.0]], [[10.0, 8.0]]],
)  # fmt: skip
_x, _writes = numbers(3, 4), numbers(5, 3, 4, seed=1)
sums.case(
    "random writes, five of them",
    _x, _writes,
    want=[
        [[math.fsum([_x[t, d], *_writes[:n, t, d]]) for d in range(4)] for t in range(3)]
        for n in range(6)
    ],
)  # fmt: skip
sums.case("no writes at all: the stream is what it was", _x, _writes[:0], want=_x[None])
