"""Judges "Merge" (chapter 03): the heads' columns are joined again, in order.

Axes: B batch, T positions asking, D d_model.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.scratch.attention import merge_heads


def _short(x):
    *B, H, T, K = x.shape
    return x.swapaxes(-3, -2).reshape(*B, T, H * K)


merging = exercise("attention.merge_heads", merge_heads, short=_short, axes="T D")

merging.shape("positions first, then all heads side by side", numbers(2, 5, 3), want=(5, 6))
merging.case(
    "merging undoes splitting",
    np.array([[[0.0, 1], [6, 7]], [[2, 3], [8, 9]], [[4, 5], [10, 11]]]), want=np.arange(12.0).reshape(2, 6),
)  # fmt: skip
_x = numbers(1, 4, 3)
merging.case("with one head, the result is that head", _x, want=_x[0])
_x = numbers(2, 3, 2, 4)
merging.case("the batch axis stays in front", _x, want=[np.hstack([*x]) for x in _x], axes="B T D")
