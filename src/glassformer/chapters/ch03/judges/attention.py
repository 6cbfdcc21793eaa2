"""Judges "All queries, any mask, any batch" (chapter 03).

Scaled dot-product attention for all queries, with and without a mask.

Axes: T positions asking, S positions answering, K d_head.
"""

import math

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import expect
from glassformer.exercises.material import numbers
from glassformer.scratch.attention import scaled_dot_product_attention, softmax

from .by_hand import attended


def _short(q, k, v, *, mask=None):
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    weights = softmax(scores)
    return weights @ v, weights


attention = exercise(
    "attention.attention", scaled_dot_product_attention,
    short=_short, parts=("outputs", "weights"), axes=("T K", "T S"),
)  # fmt: skip

_q, _k, _v = numbers(3, 4), numbers(5, 4, seed=1), numbers(5, 4, seed=2)
attention.case("three queries, five keys, no mask", _q, _k, _v, want=attended)
_mask = np.array([[1, 1, 0, 0, 0], [1, 0, 1, 1, 0], [0, 1, 1, 1, 1]], dtype=bool)
attention.case("where the mask is False, a query gives no weight", _q, _k, _v, mask=_mask, want=attended)
_q, _k, _v = (numbers(6, 2, seed=seed) for seed in (3, 4, 5))
attention.case("the causal mask", _q, _k, _v, mask=np.tri(6, dtype=bool), want=attended)
_q, _k, _v = numbers(2, 3, 4, 5), numbers(2, 3, 6, 5, seed=1), numbers(2, 3, 6, 5, seed=2)
attention.case(
    "any axes in front: batch and heads",
    _q, _k, _v, want=attended, axes="", advice="Swap the last two axes of k: k.swapaxes(-1, -2).",
)  # fmt: skip
attention.case(
    "one mask for the whole batch, or one for each text",
    _q, _k, _v, mask=np.tri(4, 6, 2, dtype=bool), want=attended, axes="",
)  # fmt: skip
_seen = np.array([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]], dtype=bool)
attention.also(_q, _k, _v, mask=_seen[:, None, None], want=attended, axes="")
_apart, _asks = math.log(3), np.array([[2.0, 0, 0, 0]])
_v = np.array([[8.0, 0, 0, 0], [0, 4.0, 0, 0], [1.0, 1.0, 1.0, 1.0]])


def _scored(*scores):
    """Keys whose scores with the query `_asks` are these."""
    return np.array([[score, 0.0, 0.0, 0.0] for score in scores])


attention.case(
    "large scores do not overflow",
    _asks, _scored(1000 + _apart, 1000, -1000), _v, want=([[6.0, 1.0, 0, 0]], [[0.75, 0.25, 0.0]]),
)  # fmt: skip


@attention.check("a masked key has no influence, however high its score")
def _(attention):
    q, k, v = (numbers(4, 3, seed=seed) for seed in (6, 7, 8))
    loud = k.copy()
    loud[-1] *= 50
    mask = np.tri(4, dtype=bool)
    outputs, _ = attention(q, loud, v, mask=mask)
    what = "the first three outputs, after making the last key larger,"
    expect(np.asarray(outputs)[:3], attended(q, k, v, mask)[0][:3], what)


_last = np.array([[True, True, False]])
for _loud in ((_apart, 0, 1000), (_apart - 3000, -3000, 0)):
    attention.also(_asks, _scored(*_loud), _v, mask=_last, want=([[6.0, 1.0, 0, 0]], [[0.75, 0.25, 0.0]]))

_HIDE = "np.where(mask, scores, -np.inf)"
_AFTERWARDS = (_HIDE, "scores", "softmax(scores)", "softmax(scores) * (1 if mask is None else mask)")
attention.slip("overflow", softmax=lambda x: np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True))
attention.slip(
    "zero after, divided anew", *_AFTERWARDS,
    "return", "weights = weights / weights.sum(-1, keepdims=True)\n    return",
)  # fmt: skip
attention.slip("one row", softmax=lambda x: softmax(x.reshape(-1)).reshape(x.shape))
