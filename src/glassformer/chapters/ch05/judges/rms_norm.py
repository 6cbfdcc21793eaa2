"""Judges "RMSNorm" (chapter 05): each vector is scaled to a mean square of 1, then every feature gets its gain.

Axes: B batch, T positions, D d_model.
"""

import math

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.shapes import Float

from .norms import EPS, GAIN, NEARLY_ZERO, ONES, ZEROS, rms_norm_by_hand


def rms_norm(
    x: Float[np.ndarray, "*B D"], weight: Float[np.ndarray, " D"], eps: float = 1e-5
) -> Float[np.ndarray, "*B D"]:
    """Each vector scaled to a mean square of 1, then a gain for each feature."""
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + eps) * weight


norm = exercise("stream.rms_norm", rms_norm, axes="T D")

_root = math.sqrt(0.25 + EPS)
norm.case("[1, 0, 0, 0]: mean square ¼", np.array([1.0, 0, 0, 0]), ONES, want=[1 / _root, 0, 0, 0], axes="D")
_root = math.sqrt(9 + EPS)
norm.case(
    "it moves nothing: equal features stay equal, and their size becomes 1",
    np.array([3.0, 3, 3, 3]), ONES, want=[3 / _root] * 4, axes="D",
)  # fmt: skip
norm.case(
    "a row that is nearly zero stays small: ε is under the square root",
    NEARLY_ZERO, ONES, want=rms_norm_by_hand, axes="D", being="0.001/√(2.5e-7 + 1e-5)",
)  # fmt: skip
norm.also(ZEROS, ONES, want=ZEROS, axes="D")
_x = numbers(4, 3) * [[1], [10], [0.1], [3]] + 2
norm.case("each row by itself", _x, np.ones(3), want=rms_norm_by_hand)
_x = numbers(2, 4)
norm.case("the gain of each feature", _x, GAIN, want=rms_norm_by_hand)
norm.case("another ε", _x, GAIN, 0.5, want=rms_norm_by_hand)
norm.also(_x, GAIN, eps=0.01, want=rms_norm_by_hand)
norm.case("any axes in front", numbers(2, 3, 4), GAIN, want=rms_norm_by_hand, axes="B T D")
