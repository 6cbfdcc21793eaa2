"""Judges "Split" (chapter 03): the width of each row is divided among the heads.

Axes: B batch, T positions asking, H heads, K d_head.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.scratch.attention import split_heads


def _short(x, n_heads):
    *B, T, D = x.shape
    if D % n_heads:
        raise ValueError(f"{n_heads} heads do not divide {D} numbers")
    return x.reshape(*B, T, n_heads, D // n_heads).swapaxes(-3, -2)


splitting = exercise("attention.split_heads", split_heads, short=_short, axes="H T K")

splitting.shape("heads first, then positions, then the width of a head", numbers(5, 6), 2, want=(2, 5, 3))
splitting.case(
    "each head gets adjacent numbers from every position",
    np.arange(12.0).reshape(2, 6), 3, want=[[[0.0, 1], [6, 7]], [[2, 3], [8, 9]], [[4, 5], [10, 11]]],
)  # fmt: skip
_x = numbers(4, 6)
splitting.case("with one head, nothing is cut", _x, 1, want=_x[None])
splitting.case("as many heads as there are numbers", _x, 6, want=_x.T[:, :, None])
_x = numbers(2, 3, 4)
splitting.case(
    "a batch in front stays in front", _x, 2, want=[[x[:, :2], x[:, 2:]] for x in _x], axes="B H T K"
)
splitting.refuses(
    "heads that do not divide the width: ValueError", numbers(3, 6), 4, what="6 numbers for 4 heads"
)
