"""Judges "Repair it" (chapter 14): causal attention, repaired line by line.

Axes: T positions, K d_head.
"""

import math

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.scratch.attention import softmax
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
repair.case(
    "equal scores: each row is the mean of the values so far", _zeros, _zeros, _v,
    want=np.array([[6.0, 0, 3, 1], [3, 3, 3, 1], [2, 2, 3, 2]]),
)  # fmt: skip
_three = np.array([[3.0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]])
repair.case(
    "large scores do not overflow, and the first row sees the first value", 1e3 * _three, 1e3 * _three, _v,
    want=np.array([[6.0, 0, 3, 1], [3, 3, 3, 1], [2, 2, 3, 2]]),
)  # fmt: skip
repair.also(
    _zeros[:2] + 1, np.array([[0.0] * 4, [1000] * 4]), _v[:2], want=_v[:2],
    what="attend where the hidden score of row 0 is larger by 2,000",
)  # fmt: skip
repair.case(
    "any axes in front", np.stack([_zeros, _zeros])[:, None], np.stack([_zeros, _zeros])[:, None],
    np.stack([_v, 2 * _v])[:, None],
    want=np.array([[[[6, 0, 3, 1], [3, 3, 3, 1], [2, 2, 3, 2]]], [[[12, 0, 6, 2], [6, 6, 6, 2], [4, 4, 6, 4]]]], float),
    axes="B H T K", what="attend of two texts with a head each",
)  # fmt: skip


def _broken(scale=np.sqrt, mask="before", axis=-1, fill=-np.inf, exp=softmax, triangle=np.tri):
    def wrong(q, k, v):
        T, K = q.shape[-2:]
        may = triangle(T).astype(bool)
        scores = q @ k.swapaxes(-1, -2) / scale(K)
        if mask == "before":
            scores = np.where(may, scores, fill)
        with np.errstate(all="ignore"):
            weights = exp(scores if axis == -1 else scores.swapaxes(-1, -2))
        weights = weights if axis == -1 else weights.swapaxes(-1, -2)
        return (weights * may if mask == "after" else weights) @ v

    return wrong


def _plain_exp(scores):
    weights = np.exp(scores)
    return weights / weights.sum(-1, keepdims=True)


repair.mistake("mask late", _broken(mask="after"))
repair.mistake("axis", _broken(axis=-2))
repair.mistake("no scale", _broken(scale=lambda K: 1.0))
repair.mistake("no root", _broken(scale=lambda K: K))
repair.mistake("zero for hidden", _broken(fill=0.0))
repair.mistake("no mask", _broken(mask=""))
repair.mistake("other triangle", _broken(triangle=lambda T: np.tri(T).T))
repair.mistake("itself hidden", _broken(triangle=lambda T: np.tri(T, k=-1)))
repair.mistake("itself hidden", _broken(triangle=lambda T: np.tri(T, k=-1), fill=-1e9))
repair.mistake("overflow", _broken(exp=_plain_exp))
repair.mistake("root of T", lambda q, k, v: attend(q * np.sqrt(q.shape[-1] / q.shape[-2]), k, v))


def _of_scores(weights_of):
    def wrong(q, k, v):
        T, K = q.shape[-2:]
        with np.errstate(all="ignore"):
            weights = weights_of(q @ k.swapaxes(-1, -2) / np.sqrt(K), np.tri(T))
            return weights / weights.sum(-1, keepdims=True) @ v

    return wrong


def _largest_of_column(scores, may):
    scores = np.where(may > 0, scores, -np.inf)
    return np.exp(scores - scores.max(axis=-2, keepdims=True))


def _zero_times_infinity(scores, may):
    scores = scores + (1 - may) * -np.inf
    return np.exp(scores - scores.max(axis=-1, keepdims=True))


repair.mistake("largest of the column", _of_scores(_largest_of_column))
repair.mistake("no number", _of_scores(_zero_times_infinity))
repair.mistake(
    "largest of the hidden", _of_scores(lambda s, may: np.exp(s - s.max(axis=-1, keepdims=True)) * may)
)
