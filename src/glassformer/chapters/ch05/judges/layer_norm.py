"""Judges "LayerNorm" (chapter 05).

Each vector is moved to mean 0 and scaled to variance 1, then gets its gain and shift.

Axes: B batch, T positions, D d_model.
"""

import math

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.shapes import Float

from .norms import EPS, GAIN, NEARLY_ZERO, ONES, ZEROS, layer_norm_by_hand


def layer_norm(
    x: Float[np.ndarray, "*B D"],
    weight: Float[np.ndarray, " D"],
    bias: Float[np.ndarray, " D"],
    eps: float = 1e-5,
) -> Float[np.ndarray, "*B D"]:
    """Each vector moved to mean 0 and scaled to variance 1, then a gain and a shift for each feature."""
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + eps) * weight + bias


layer = exercise("stream.layer_norm", layer_norm, axes="T D")

_root = math.sqrt(1.5 + EPS)
layer.case(
    "[3, 1, 0, 0]: mean 1, variance 6/4",
    np.array([3.0, 1, 0, 0]), ONES, ZEROS, want=[2 / _root, 0, -1 / _root, -1 / _root], axes="D",
)  # fmt: skip
layer.case(
    "a row that is nearly zero stays small: ε is under the square root",
    NEARLY_ZERO, ONES, ZEROS, want=layer_norm_by_hand, axes="D",
    being="0.00075/√(1.875e-7 + 1e-5)",
)  # fmt: skip
layer.case(
    "where all features are equal, only the shift is left",
    np.array([3.0, 3.0, 3.0, 3.0]), np.array([2.0, 2, 2, 2]), np.array([1.0, 0, -1, 4]), want=[1.0, 0, -1, 4], axes="D",
)  # fmt: skip
_x = numbers(4, 3) * [[1], [10], [0.1], [3]] + 2
layer.case("each row by itself", _x, np.ones(3), np.zeros(3), want=layer_norm_by_hand)
_x, _b = numbers(2, 4), numbers(4, seed=2)
layer.case("first the gain of each feature, then its shift", _x, GAIN, _b, want=layer_norm_by_hand)
layer.case("another ε", _x, GAIN, _b, 0.5, want=layer_norm_by_hand)
layer.also(_x, GAIN, _b, eps=0.01, want=layer_norm_by_hand)
layer.case("any axes in front", numbers(2, 3, 4), GAIN, _b, want=layer_norm_by_hand, axes="B T D")
