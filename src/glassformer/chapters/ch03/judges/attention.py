"""Judges "All queries, any mask, any batch" (chapter 03).

Scaled dot-product attention for all queries, with and without a mask.

Axes: T positions asking, S positions answering, K d_head.
"""

import math
from functools import partial

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import expect
from glassformer.exercises.material import numbers, quiet
from glassformer.scratch.attention import scaled_dot_product_attention, softmax

from .by_hand import attended
from .mistakes import changed_attention, shifted_softmax, softmax_of_columns


def _short(q, k, v, *, mask=None):
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    weights = softmax(scores)
    return weights @ v, weights


attention = exercise(
    "attention.attention",
    scaled_dot_product_attention,
    short=_short,
    parts=("outputs", "weights"),
    axes=("T K", "T S"),
)

_q, _k, _v = numbers(3, 4), numbers(5, 4, seed=1), numbers(5, 4, seed=2)
attention.case("three queries, five keys, no mask", _q, _k, _v, want=attended(_q, _k, _v))
_mask = np.array([[1, 1, 0, 0, 0], [1, 0, 1, 1, 0], [0, 1, 1, 1, 1]], dtype=bool)
attention.case(
    "where the mask is False, a query gives no weight",
    _q,
    _k,
    _v,
    mask=_mask,
    want=attended(_q, _k, _v, _mask),
)
_q, _k, _v = (numbers(6, 2, seed=seed) for seed in (3, 4, 5))
_mask = np.tri(6, dtype=bool)
attention.case("the causal mask", _q, _k, _v, mask=_mask, want=attended(_q, _k, _v, _mask))
_q, _k, _v = numbers(2, 3, 4, 5), numbers(2, 3, 6, 5, seed=1), numbers(2, 3, 6, 5, seed=2)
_each = [[attended(_q[b, h], _k[b, h], _v[b, h]) for h in range(3)] for b in range(2)]
attention.case(
    "any axes in front: batch and heads",
    _q, _k, _v, want=tuple(np.array([[each[i] for each in row] for row in _each]) for i in range(2)),
    axes="", advice="Swap the last two axes of k: k.swapaxes(-1, -2).",
)  # fmt: skip


_turned = [[attended(_q[b, h], _k[b, h], _v[b, h], np.tri(4, 6, 2)) for h in range(3)] for b in range(2)]
attention.case(
    "one mask for the whole batch, or one for each text",
    _q, _k, _v, mask=np.tri(4, 6, 2, dtype=bool),
    want=tuple(np.array([[each[i] for each in row] for row in _turned]) for i in range(2)), axes="",
)  # fmt: skip
_seen = np.array([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]], dtype=bool)
_padded = [[attended(_q[b, h], _k[b, h], _v[b, h], [_seen[b]] * 4) for h in range(3)] for b in range(2)]
attention.also(
    _q, _k, _v, mask=_seen[:, None, None],
    want=tuple(np.array([[each[i] for each in row] for row in _padded]) for i in range(2)), axes="",
)  # fmt: skip
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
    expect(
        np.asarray(outputs)[:3],
        attended(q, k, v, mask)[0][:3],
        "the first three outputs, after making the last key larger,",
    )


_last = np.array([[True, True, False]])
for _loud in ((_apart, 0, 1000), (_apart - 3000, -3000, 0)):
    attention.also(_asks, _scored(*_loud), _v, mask=_last, want=([[6.0, 1.0, 0, 0]], [[0.75, 0.25, 0.0]]))

attention.mistake("no root", lambda q, k, v, mask=None: changed_attention(q, k, v, mask=mask, root=False))
attention.mistake(
    "by the width", lambda q, k, v, mask=None: changed_attention(q, k, v, mask=mask, scale=1 / q.shape[-1])
)
attention.mistake(
    "number of keys",
    lambda q, k, v, mask=None: changed_attention(q, k, v, mask=mask, scale=k.shape[-2] ** -0.5),
)
attention.mistake(
    "number of queries",
    lambda q, k, v, mask=None: changed_attention(q, k, v, mask=mask, scale=q.shape[-2] ** -0.5),
)
attention.mistake(
    "root of two", lambda q, k, v, mask=None: changed_attention(q, k, v, mask=mask, scale=2**-0.5)
)
attention.mistake(
    "columns", lambda q, k, v, mask=None: changed_attention(q, k, v, mask=mask, shares=softmax_of_columns)
)
attention.mistake("mask forgotten", lambda q, k, v, mask=None: changed_attention(q, k, v))
attention.mistake(
    "mask upside down",
    lambda q, k, v, mask=None: changed_attention(q, k, v, mask=None if mask is None else ~mask),
)
attention.mistake("zero before", lambda q, k, v, mask=None: changed_attention(q, k, v, mask=mask, hide=0.0))
attention.mistake("pair", lambda q, k, v, mask=None: changed_attention(q, k, v, mask=mask)[::-1])


for _number in (-30.0, -100.0, -1000.0):
    attention.mistake("finite", partial(changed_attention, hide=_number))
attention.mistake("overflow", quiet(partial(changed_attention, shares=lambda x: shifted_softmax(x, 0))))


@attention.mistake("zero after, divided anew")
@quiet
def _(q, k, v, mask=None):
    weights = changed_attention(q, k, v)[1] * (1 if mask is None else mask)
    weights = weights / weights.sum(axis=-1, keepdims=True)
    return weights @ v, weights


def _picked(at):
    """A wrong answer: the mask picks scores, which takes a mask of their own shape."""

    def wrong(q, k, v, mask=None):
        scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores[at(~mask)] = -np.inf
        weights = softmax(scores)
        return weights @ v, weights

    return wrong


attention.mistake("picked", _picked(lambda hidden: hidden))
attention.mistake("picked", _picked(lambda hidden: (..., hidden)))


@attention.mistake("zero after")
def _(q, k, v, mask=None):
    weights = changed_attention(q, k, v)[1] * (1 if mask is None else mask)
    return weights @ v, weights


@attention.mistake("one row")
def _(q, k, v, mask=None):
    weights = changed_attention(q, k, v, mask=mask, shares=lambda x: softmax(x.reshape(-1)).reshape(x.shape))[
        1
    ]
    return weights @ v, weights
