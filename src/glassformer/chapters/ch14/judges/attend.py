"""Judges "Repair it" (chapter 14): causal attention, repaired line by line.

Axes: T positions, K d_head.
"""

import math

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.shapes import Float


def attend(
    q: Float[np.ndarray, "*B T K"], k: Float[np.ndarray, "*B T K"], v: Float[np.ndarray, "*B T K"]
) -> Float[np.ndarray, "*B T K"]:
    """Causal attention, with all of its lines right."""
    T, K = q.shape[-2:]
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(K)
    scores = np.where(np.tri(T, dtype=bool), scores, -np.inf)
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True) @ v


repair = exercise("clinic.attend", attend, axes="T K")

_zeros, _v = np.zeros((3, 4)), np.array([[6.0, 0, 3, 1], [0, 6, 3, 1], [0, 0, 3, 4]])
repair.case("one position sees itself", _zeros[:1] + 1, _zeros[:1] + 2, _v[:1], want=_v[:1])
_q = np.array([[1.0, 0, 0, 0], [2.0, 0, 0, 0]])
_k = np.array([[0.0, 0, 0, 0], [math.log(3), 0, 0, 0]])
repair.case(
    "with heads of 4 numbers, a score of 2 ln 3 gives a ratio of 1 to 3", _q, _k, _v[:2],
    want=np.array([[6, 0, 3, 1], [1.5, 4.5, 3, 1]]),
)  # fmt: skip
_means = np.array([[6.0, 0, 3, 1], [3, 3, 3, 1], [2, 2, 3, 2]])
repair.case("equal scores: each row is the mean of the values so far", _zeros, _zeros, _v, want=_means)
_large = 3e3 * np.eye(3, 4) * np.eye(3)[:, :1]
_title = "large scores do not overflow, and the first row sees the first value"
repair.case(_title, _large, _large, _v, want=_means)
repair.also(
    _zeros[:2] + 1, np.array([[0.0] * 4, [1000] * 4]), _v[:2], want=_v[:2],
    what="attend where the hidden score of row 0 is larger by 2,000",
)  # fmt: skip
_four, _two_texts = np.zeros((2, 1, 3, 4)), np.array([1.0, 2.0])[:, None, None, None]
repair.case(
    "any axes in front", _four, _four, _two_texts * _v, want=_two_texts * _means,
    axes="B H T K", what="attend of two texts with a head each",
)  # fmt: skip
