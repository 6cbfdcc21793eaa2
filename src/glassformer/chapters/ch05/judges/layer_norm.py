"""Judges "LayerNorm" (chapter 05).

Each vector is moved to mean 0 and scaled to variance 1, then gets its gain and shift.

Axes: B batch, T positions, D d_model.
"""

import math

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers, quiet
from glassformer.shapes import Float

from .norms import EPS, GAIN, NEARLY_ZERO, ONES, ZEROS, changed_layer_norm, layer_norm_by_hand


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
    NEARLY_ZERO, ONES, ZEROS, want=layer_norm_by_hand(NEARLY_ZERO, ONES, ZEROS), axes="D",
    being="0.00075/√(1.875e-7 + 1e-5)",
)  # fmt: skip
layer.case(
    "where all features are equal, only the shift is left",
    np.array([3.0, 3.0, 3.0, 3.0]), np.array([2.0, 2, 2, 2]), np.array([1.0, 0, -1, 4]), want=[1.0, 0, -1, 4], axes="D",
)  # fmt: skip
_x = numbers(4, 3) * [[1], [10], [0.1], [3]] + 2
layer.case(
    "each row by itself", _x, np.ones(3), np.zeros(3), want=layer_norm_by_hand(_x, np.ones(3), np.zeros(3))
)
_x, _b = numbers(2, 4), numbers(4, seed=2)
layer.case(
    "first the gain of each feature, then its shift", _x, GAIN, _b, want=layer_norm_by_hand(_x, GAIN, _b)
)
layer.case("another ε", _x, GAIN, _b, 0.5, want=layer_norm_by_hand(_x, GAIN, _b, 0.5))
layer.also(_x, GAIN, _b, eps=0.01, want=layer_norm_by_hand(_x, GAIN, _b, 0.01))
_x = numbers(2, 3, 4)
layer.case("any axes in front", _x, GAIN, _b, want=layer_norm_by_hand(_x, GAIN, _b), axes="B T D")


def _wrong_layer(**changed):
    return quiet(lambda x, w, b, eps=EPS: changed_layer_norm(x, eps, **changed) * w + b)


layer.mistake("eps outside", _wrong_layer(inside=False))
layer.mistake("no eps", quiet(lambda x, w, b, eps=EPS: layer_norm(x, w, b, 0.0)))
layer.mistake("unbiased", _wrong_layer(ddof=1))
layer.mistake("no root", _wrong_layer(root=False))
layer.mistake("not centred", _wrong_layer(centre=False))
layer.mistake(
    "spread of x",
    lambda x, w, b, eps=EPS: (
        (x - x.mean(axis=-1, keepdims=True)) / np.sqrt((x**2).mean(axis=-1, keepdims=True) + eps) * w + b
    ),
)
layer.mistake("divided by gain", lambda x, w, b, eps=EPS: layer_norm(x, 1 / w, b, eps))
layer.mistake("rms", lambda x, w, b, eps=EPS: x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + eps) * w + b)
layer.mistake(
    "length", lambda x, w, b, eps=EPS: layer_norm(x, w / math.sqrt(x.shape[-1]), b, eps / x.shape[-1])
)
layer.mistake("whole table", _wrong_layer(axis=None))
layer.mistake("positions", _wrong_layer(axis=0))
layer.mistake("positions", lambda x, w, b, eps=EPS: changed_layer_norm(x, eps, axis=max(-2, -x.ndim)) * w + b)
layer.mistake("axis 1", lambda x, w, b, eps=EPS: changed_layer_norm(x, eps, axis=min(1, x.ndim - 1)) * w + b)
layer.mistake("no gain", lambda x, w, b, eps=EPS: layer_norm(x, np.ones_like(w), b, eps))
layer.mistake("no shift", lambda x, w, b, eps=EPS: layer_norm(x, w, np.zeros_like(b), eps))
layer.mistake(
    "shift first", lambda x, w, b, eps=EPS: (layer_norm(x, np.ones_like(w), np.zeros_like(b), eps) + b) * w
)
layer.mistake("own eps", lambda x, w, b, eps=EPS: layer_norm(x, w, b))
