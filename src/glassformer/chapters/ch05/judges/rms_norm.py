"""Judges "RMSNorm" (chapter 05): each vector is scaled to a mean square of 1, then every feature gets its gain.

Axes: B batch, T positions, D d_model.
"""

import math

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers, quiet
from glassformer.shapes import Float

from .layer_norm import layer_norm
from .norms import EPS, GAIN, NEARLY_ZERO, ONES, ZEROS, rms_norm_by_hand


def rms_norm(
    x: Float[np.ndarray, "*B D"], weight: Float[np.ndarray, " D"], eps: float = 1e-5
) -> Float[np.ndarray, "*B D"]:
    """Each vector scaled to a mean square of 1, then a gain for each feature."""
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + eps) * weight


root_mean_square = exercise("stream.rms_norm", rms_norm, axes="T D")

_root = math.sqrt(0.25 + EPS)
root_mean_square.case(
    "[1, 0, 0, 0]: mean square ¼", np.array([1.0, 0, 0, 0]), ONES, want=[1 / _root, 0, 0, 0], axes="D"
)
_root = math.sqrt(9 + EPS)
root_mean_square.case(
    "it moves nothing: equal features stay equal, and their size becomes 1",
    np.array([3.0, 3, 3, 3]), ONES, want=[3 / _root] * 4, axes="D",
)  # fmt: skip
root_mean_square.case(
    "a row that is nearly zero stays small: ε is under the square root",
    NEARLY_ZERO, ONES, want=rms_norm_by_hand(NEARLY_ZERO, ONES), axes="D", being="0.001/√(2.5e-7 + 1e-5)",
)  # fmt: skip
root_mean_square.also(ZEROS, ONES, want=ZEROS, axes="D")
_x = numbers(4, 3) * [[1], [10], [0.1], [3]] + 2
root_mean_square.case("each row by itself", _x, np.ones(3), want=rms_norm_by_hand(_x, np.ones(3)))
_x = numbers(2, 4)
root_mean_square.case("the gain of each feature", _x, GAIN, want=rms_norm_by_hand(_x, GAIN))
root_mean_square.case("another ε", _x, GAIN, 0.5, want=rms_norm_by_hand(_x, GAIN, 0.5))
root_mean_square.also(_x, GAIN, eps=0.01, want=rms_norm_by_hand(_x, GAIN, 0.01))
_x = numbers(2, 3, 4)
root_mean_square.case("any axes in front", _x, GAIN, want=rms_norm_by_hand(_x, GAIN), axes="B T D")


def _wrong_rms(divide, axis=-1):
    """RMSNorm with another divisor, made of the mean square and ε."""

    def wrong(x, w, eps=EPS):
        along = axis(x) if callable(axis) else axis
        return x / divide((x**2).mean(axis=along, keepdims=True), eps) * w

    return quiet(wrong)


def _rooted(square, eps):
    return np.sqrt(square + eps)


root_mean_square.mistake("eps outside", _wrong_rms(lambda square, eps: np.sqrt(square) + eps))
root_mean_square.mistake("no eps", _wrong_rms(lambda square, eps: np.sqrt(square)))
root_mean_square.mistake("centred", lambda x, w, eps=EPS: layer_norm(x, w, np.zeros_like(w), eps))
root_mean_square.mistake(
    "variance", lambda x, w, eps=EPS: x / np.sqrt(x.var(axis=-1, keepdims=True) + eps) * w
)
root_mean_square.mistake(
    "length", lambda x, w, eps=EPS: x / np.sqrt((x**2).sum(axis=-1, keepdims=True) + eps) * w
)
root_mean_square.mistake("no root", _wrong_rms(lambda square, eps: square + eps))
root_mean_square.mistake(
    "mean first", lambda x, w, eps=EPS: x / np.sqrt(x.mean(axis=-1, keepdims=True) ** 2 + eps) * w
)
root_mean_square.mistake("whole table", _wrong_rms(_rooted, axis=None))
root_mean_square.mistake("positions", _wrong_rms(_rooted, axis=0))
root_mean_square.mistake("positions", _wrong_rms(_rooted, axis=lambda x: max(-2, -x.ndim)))
root_mean_square.mistake("axis 1", _wrong_rms(_rooted, axis=lambda x: min(1, x.ndim - 1)))
root_mean_square.mistake("no gain", lambda x, w, eps=EPS: rms_norm(x, np.ones_like(w), eps))
root_mean_square.mistake("gain from 1", lambda x, w, eps=EPS: rms_norm(x, 1 + w, eps))
root_mean_square.mistake("own eps", lambda x, w, eps=EPS: rms_norm(x, w))
