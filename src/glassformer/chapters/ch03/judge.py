"""Judges the exercises of chapter 03, "Attention"; their prose is in exercises.toml.

For each: the reference, where the package has none; then its checks, in teaching order; then its classic mistakes.
What is right comes from hand-worked numbers and from sums written out one number at a time. The axes: B batch,
T positions asking, S positions answering, D d_model, H heads, G heads of keys and values, K d_head.
"""
# ruff: noqa: ANN001, ANN002, ANN202 - a check is read by its title, a mistake by its sentence

import math
from functools import partial
from typing import Any

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import expect, expect_shape
from glassformer.exercises.material import numbers, quiet
from glassformer.scratch.attention import (
    causal_mask,
    merge_heads,
    repeat_heads,
    scaled_dot_product_attention,
    softmax,
    split_heads,
)
from glassformer.shapes import Float

# What is right, a number at a time


def _shares(row: Any) -> list[float]:
    """Softmax of one row, from its definition; no entry may be large."""
    powers = [math.exp(x) for x in row]
    return [power / math.fsum(powers) for power in powers]


def attended(q: Any, k: Any, v: Any, mask: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """Outputs and weights of one head: every score, share and mean is a sum written out."""
    weights = []
    for t, query in enumerate(q):
        row = [sum(a * b for a, b in zip(query, key, strict=True)) / len(query) ** 0.5 for key in k]
        weights.append(_shares(x if mask is None or mask[t][s] else -math.inf for s, x in enumerate(row)))
    outputs = [
        [math.fsum(w * x for w, x in zip(row, column, strict=True)) for column in zip(*v, strict=True)]
        for row in weights
    ]
    return np.array(outputs), np.array(weights)


# What mistakes are made of


def _wrong(q, k, v, *, mask=None, root=True, shares=softmax, hide=-np.inf, scale=None):
    """Attention with one thing changed: outputs and weights."""
    scores = q @ k.swapaxes(-1, -2)
    scores = scores / math.sqrt(q.shape[-1]) if scale is None and root else scores * (scale or 1)
    if mask is not None:
        scores = np.where(mask, scores, hide)
    weights = shares(scores)
    return weights @ v, weights


def _columns(scores):
    """Softmax over the queries, where a column that is −∞ throughout gives zeros."""
    return softmax(scores, axis=-2)


# 1 · Scores


def scores(query: Float[np.ndarray, " K"], keys: Float[np.ndarray, "S K"]) -> Float[np.ndarray, " S"]:
    """Computes how well a query matches each key: their dot products, divided by √K."""
    return keys @ query / math.sqrt(len(query))


matching = exercise("attention.scores", scores, axes="S")

matching.shape("one score for each key", numbers(4), numbers(3, 4, seed=1), want=(3,))
matching.case(
    "the same direction scores high, a right angle 0, the opposite low",
    np.array([2.0, 0, 0, 0]), np.array([[3.0, 0, 0, 0], [0, 1, 0, 0], [-1, 0, 5, 0]]), want=[3.0, 0.0, -1.0],
    being="6/√4, 0/√4 and −2/√4",
)  # fmt: skip
_q, _k = numbers(5), numbers(2, 5, seed=1)
matching.case(
    "random vectors, and another width",
    _q, _k, want=[sum(a * b for a, b in zip(_q, row, strict=True)) / 5**0.5 for row in _k],
)  # fmt: skip
_q, _k = numbers(1), numbers(6, 1, seed=1)
matching.case("one number wide: the root is 1", _q, _k, want=[_q[0] * row[0] for row in _k])

matching.mistake("no root", lambda q, k: k @ q)
matching.mistake("by the width", lambda q, k: k @ q / len(q))
matching.mistake("times root", lambda q, k: k @ q * math.sqrt(len(q)))
matching.mistake("number of keys", lambda q, k: k @ q / math.sqrt(len(k)))
matching.mistake("cosine", lambda q, k: k @ q / np.linalg.norm(k, axis=1) / np.linalg.norm(q))
matching.mistake("root of two", lambda q, k: k @ q / math.sqrt(2))
matching.mistake("shapes", lambda q, k: k.T @ q)
matching.mistake("shapes", lambda q, k: q @ k)
matching.mistake("products", lambda q, k: k * q / math.sqrt(len(q)))
matching.mistake("shares", lambda q, k: softmax(k @ q / math.sqrt(len(q))))


# 2 · Softmax

shares = exercise("attention.softmax", softmax, axes="T S")

shares.case(
    "one point more is worth a factor of e",
    np.array([1.0, 0.0]), want=[math.e / (1 + math.e), 1 / (1 + math.e)], being="e/(e + 1) and 1/(e + 1)", axes="S",
)  # fmt: skip
_x = numbers(3, 4)
shares.case("each row of a table by itself", _x, want=[_shares(row) for row in _x])
_x = numbers(2, 3, 4)
shares.case(
    "the last axis, however many there are",
    _x,
    want=[[_shares(row) for row in table] for table in _x],
    axes="B T S",
)
shares.case("a score of −∞ gets nothing", np.array([-np.inf, 0.0, 0.0]), want=[0, 0.5, 0.5], axes="S")
shares.case(
    "large scores do not overflow",
    np.array([1000.0, 1000.0, 999.0]), want=_shares([1, 1, 0]), axes="S",
    advice="Subtract the largest of the row first.",
)  # fmt: skip
shares.also(np.array([2000.0, 0.0, 0.0]), want=[1.0, 0.0, 0.0], axes="S")
shares.case(
    "rows of very different size do not disturb each other",
    np.array([[1000.0, 1001.0], [-1000.0, -1000.0]]), want=[_shares([0, 1]), [0.5, 0.5]],
)  # fmt: skip


def _powers(x, largest):
    powers = np.exp(x - largest)
    return powers / powers.sum(axis=-1, keepdims=True)


shares.mistake("overflow", quiet(lambda x: _powers(x, 0)))
shares.mistake("largest of all", quiet(lambda x: _powers(x, x.max())))
shares.mistake("no exp", quiet(lambda x: x / x.sum(axis=-1, keepdims=True)))


@shares.mistake("mean")
@quiet
def _(x):
    seen = np.isfinite(x)
    return _powers(x, np.mean(x, axis=-1, keepdims=True, where=seen))


shares.mistake("mean", quiet(lambda x: _powers(x, x.mean(axis=-1, keepdims=True))))
shares.mistake("absolute", quiet(lambda x: _powers(x, np.abs(x).max(axis=-1, keepdims=True))))
shares.mistake("upside down", quiet(lambda x: softmax(-x)))
shares.mistake("divided by it", quiet(lambda x: _powers(x / x.max(axis=-1, keepdims=True), 0)))
shares.mistake("powers of 2", lambda x: softmax(x * math.log(2)))
shares.mistake("not divided", lambda x: np.exp(x - x.max(axis=-1, keepdims=True)))
shares.mistake("whole table", lambda x: softmax(x.ravel()).reshape(x.shape))
shares.mistake("columns", lambda x: softmax(x, axis=0))
shares.mistake("axis 1", lambda x: softmax(x, axis=min(1, x.ndim - 1)))


# 3 · The causal mask

past = exercise("attention.causal_mask", causal_mask, axes="T S")

past.shape("a row for each query, a column for each key", 3, 3, want=(3, 3))
past.case(
    "each position sees itself and what is before it",
    3, 3, want=[[True, False, False], [True, True, False], [True, True, True]],
)  # fmt: skip
past.case("a single position sees itself", 1, 1, want=[[True]])
past.case(
    "of five keys, the last two positions ask",
    2, 5, want=[[True, True, True, True, False], [True, True, True, True, True]],
)  # fmt: skip
past.also(1, 4, want=[[True, True, True, True]])


@past.check("under it 55 cells of 100 remain")
def _(causal_mask):
    got = causal_mask(10, 10)
    expect_shape(got, (10, 10), "causal_mask(10, 10)", axes="T S")
    expect(int(np.asarray(got).sum()), 55, "the number of True in causal_mask(10, 10)")


past.mistake("other triangle", lambda T, S=None: np.triu(np.ones((T, S or T), bool), (S or T) - T))
past.mistake("what is hidden", lambda T, S=None: ~causal_mask(T, S))
past.mistake("not itself", lambda T, S=None: np.tri(T, S or T, (S or T) - T - 1, dtype=bool))
past.mistake("one ahead", lambda T, S=None: np.tri(T, S or T, (S or T) - T + 1, dtype=bool))
past.mistake("from the first", lambda T, S=None: np.tri(T, S or T, dtype=bool))
past.mistake("square", lambda T, S=None: np.tri(T, dtype=bool))


# 4 · One query


def attend_one(
    query: Float[np.ndarray, " K"], keys: Float[np.ndarray, "S K"], values: Float[np.ndarray, "S N"]
) -> tuple[Float[np.ndarray, " S"], Float[np.ndarray, " N"]]:
    """The weights that one query gives to the keys, and the mean of the values with these weights."""
    weights = softmax(keys @ query / math.sqrt(len(query)))
    return weights, weights @ values


single = exercise(
    "attention.attend_one", attend_one, built_on=(softmax,), parts=("weights", "output"), axes=("S", "N")
)

_k, _v = numbers(4, 2), numbers(4, 3, seed=1)
single.case(
    "a query of zeros prefers no key: the mean of all values",
    np.zeros(2), _k, _v, want=([0.25] * 4, [math.fsum(column) / 4 for column in _v.T]), being="",
)  # fmt: skip
_apart = math.log(3)
single.case(
    "a score that is larger by ln 3 is worth three shares",
    np.array([2 * _apart, 0, 0, 0]), np.array([[1.0, 0, 0, 0], [0, 1, 0, 0]]), np.array([[8.0, 0], [0, 4.0]]),
    want=([0.75, 0.25], [6.0, 1.0]),
)  # fmt: skip
_q, _k, _v = numbers(3), numbers(5, 3, seed=1), numbers(5, 3, seed=2)
_o, _w = attended([_q], _k, _v)
single.case("random vectors", _q, _k, _v, want=(_w[0], _o[0]))
_q, _k, _v = numbers(2), numbers(1, 2, seed=1), numbers(1, 4, seed=2)
single.case("a single key gets everything", _q, _k, _v, want=([1.0], _v[0]))


def _one(weigh, mix=lambda weights, k, v: weights @ v):
    """A wrong answer: `weigh` makes weights of the plain dot products and the width, `mix` the output."""

    def wrong(q, k, v):
        weights = weigh(k @ q, len(q))
        return weights, mix(weights, k, v)

    return quiet(wrong)


def _rooted(x, K):
    return softmax(x / math.sqrt(K))


single.mistake("no root", _one(lambda x, K: softmax(x)))
single.mistake("by the width", _one(lambda x, K: softmax(x / K)))
single.mistake("root of two", _one(lambda x, K: softmax(x / math.sqrt(2))))
single.mistake("root of N", lambda q, k, v: (lambda w: (w, w @ v))(softmax(k @ q / math.sqrt(v.shape[1]))))
single.mistake("no softmax", _one(lambda x, K: x / math.sqrt(K)))
single.mistake("not divided", _one(lambda x, K: np.exp(x / math.sqrt(K))))
single.mistake("no exp", _one(lambda x, K: x / x.sum()))
single.mistake("winner", _one(lambda x, K: np.eye(len(x))[x.argmax()]))
single.mistake("winner's value", _one(_rooted, lambda weights, k, v: v[weights.argmax()]))
single.mistake("keys mixed", _one(_rooted, lambda weights, k, v: weights @ k))
single.mistake("summed", _one(_rooted, lambda weights, k, v: v.sum(axis=0)))
single.mistake("pair", lambda q, k, v: attend_one(q, k, v)[::-1])


# 5 · All queries

attention = exercise(
    "attention.attention",
    scaled_dot_product_attention,
    built_on=(softmax,),
    parts=("outputs", "weights"),
    axes=("T K", "T S"),
)

_q, _k, _v = numbers(3, 4), numbers(5, 4, seed=1), numbers(5, 4, seed=2)
attention.case("three queries, five keys, no mask", _q, _k, _v, want=attended(_q, _k, _v))
_mask = np.array([[1, 1, 0, 0, 0], [1, 0, 1, 1, 0], [0, 1, 1, 1, 1]], dtype=bool)
attention.case(
    "a mask: where it is False, a query does not look",
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
    axes="", advice="Turn the last two axes of k: k.swapaxes(-1, -2).",
)  # fmt: skip


_turned = [[attended(_q[b, h], _k[b, h], _v[b, h], np.tri(4, 6, 2)) for h in range(3)] for b in range(2)]
attention.case(
    "a mask is for all that stands in front, or for each text of a batch",
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


@attention.check("what is masked says nothing, however loud")
def _(attention):
    q, k, v = (numbers(4, 3, seed=seed) for seed in (6, 7, 8))
    loud = k.copy()
    loud[-1] *= 50
    mask = np.tri(4, dtype=bool)
    outputs, _ = attention(q, loud, v, mask=mask)
    expect(
        np.asarray(outputs)[:3],
        attended(q, k, v, mask)[0][:3],
        "the first three outputs, with a louder last key,",
    )


_last = np.array([[True, True, False]])
for _loud in ((_apart, 0, 1000), (_apart - 3000, -3000, 0)):
    attention.also(_asks, _scored(*_loud), _v, mask=_last, want=([[6.0, 1.0, 0, 0]], [[0.75, 0.25, 0.0]]))

attention.mistake("no root", lambda q, k, v, mask=None: _wrong(q, k, v, mask=mask, root=False))
attention.mistake(
    "by the width", lambda q, k, v, mask=None: _wrong(q, k, v, mask=mask, scale=1 / q.shape[-1])
)
attention.mistake(
    "number of keys", lambda q, k, v, mask=None: _wrong(q, k, v, mask=mask, scale=k.shape[-2] ** -0.5)
)
attention.mistake(
    "number of queries", lambda q, k, v, mask=None: _wrong(q, k, v, mask=mask, scale=q.shape[-2] ** -0.5)
)
attention.mistake("root of two", lambda q, k, v, mask=None: _wrong(q, k, v, mask=mask, scale=2**-0.5))
attention.mistake("columns", lambda q, k, v, mask=None: _wrong(q, k, v, mask=mask, shares=_columns))
attention.mistake("mask forgotten", lambda q, k, v, mask=None: _wrong(q, k, v))
attention.mistake(
    "mask upside down", lambda q, k, v, mask=None: _wrong(q, k, v, mask=None if mask is None else ~mask)
)
attention.mistake("zero before", lambda q, k, v, mask=None: _wrong(q, k, v, mask=mask, hide=0.0))
attention.mistake("pair", lambda q, k, v, mask=None: _wrong(q, k, v, mask=mask)[::-1])


for _number in (-30.0, -100.0, -1000.0):
    attention.mistake("finite", partial(_wrong, hide=_number))
attention.mistake("overflow", quiet(partial(_wrong, shares=lambda x: _powers(x, 0))))


@attention.mistake("zero after, divided anew")
@quiet
def _(q, k, v, mask=None):
    weights = _wrong(q, k, v)[1] * (1 if mask is None else mask)
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
    weights = _wrong(q, k, v)[1] * (1 if mask is None else mask)
    return weights @ v, weights


@attention.mistake("one row")
def _(q, k, v, mask=None):
    weights = _wrong(q, k, v, mask=mask, shares=lambda x: softmax(x.reshape(-1)).reshape(x.shape))[1]
    return weights @ v, weights


# 6 · Split

splitting = exercise("attention.split_heads", split_heads, axes="H T K")

splitting.shape(
    "heads first, then positions, then what is left of the width", numbers(5, 6), 2, want=(2, 5, 3)
)
splitting.case(
    "each head gets neighbouring numbers of every position",
    np.arange(12.0).reshape(2, 6), 3, want=[[[0.0, 1], [6, 7]], [[2, 3], [8, 9]], [[4, 5], [10, 11]]],
)  # fmt: skip
_x = numbers(4, 6)
splitting.case("one head: nothing is cut", _x, 1, want=_x[None])
splitting.case("as many heads as numbers", _x, 6, want=_x.T[:, :, None])
_x = numbers(2, 3, 4)
splitting.case(
    "a batch in front stays in front", _x, 2, want=[[x[:, :2], x[:, 2:]] for x in _x], axes="B H T K"
)
splitting.refuses(
    "heads that do not divide the width: ValueError", numbers(3, 6), 4, what="6 numbers for 4 heads"
)


def _cut(x, n_heads):
    return x.reshape(*x.shape[:-1], n_heads, x.shape[-1] // n_heads)


splitting.mistake("no swap", lambda x, n_heads: _cut(x, n_heads))
splitting.mistake("reshaped only", lambda x, n_heads: x.reshape(*x.shape[:-2], n_heads, x.shape[-2], -1))


splitting.mistake("from the front", lambda x, n_heads: _cut(x, n_heads).swapaxes(0, 1))


@splitting.mistake("two axes")
def _(x, n_heads):
    T, D = x.shape
    return x.reshape(T, n_heads, D // n_heads).swapaxes(0, 1)


@splitting.mistake("every n-th")
def _(x, n_heads):
    return np.moveaxis(x.reshape(*x.shape[:-1], x.shape[-1] // n_heads, n_heads), -1, -3)


@splitting.mistake("first for all")
def _(x, n_heads):
    return np.stack([x[..., : x.shape[-1] // n_heads]] * n_heads, axis=-3)


@splitting.mistake("rest dropped")
def _(x, n_heads):
    K = x.shape[-1] // n_heads
    return np.stack([x[..., h * K : (h + 1) * K] for h in range(n_heads)], axis=-3)


# 7 · Merge

merging = exercise("attention.merge_heads", merge_heads, axes="T D")

merging.shape("positions first, then all heads side by side", numbers(2, 5, 3), want=(5, 6))
merging.case(
    "it puts back what splitting took apart",
    np.array([[[0.0, 1], [6, 7]], [[2, 3], [8, 9]], [[4, 5], [10, 11]]]), want=np.arange(12.0).reshape(2, 6),
)  # fmt: skip
_x = numbers(1, 4, 3)
merging.case("one head: it is the head", _x, want=_x[0])
_x = numbers(2, 3, 2, 4)
merging.case("a batch in front stays in front", _x, want=[np.hstack([*x]) for x in _x], axes="B T D")

merging.mistake("no swap", lambda x: x.reshape(*x.shape[:-3], x.shape[-2], -1))
merging.mistake("from the front", lambda x: x.swapaxes(0, 1).reshape(*x.shape[:-3], x.shape[-2], -1))
merging.mistake("last two", lambda x: x.swapaxes(-1, -2).reshape(*x.shape[:-3], x.shape[-2], -1))


@merging.mistake("three axes")
def _(x):
    H, T, K = x.shape
    return x.swapaxes(0, 1).reshape(T, H * K)


merging.mistake("in turn", lambda x: np.moveaxis(x, -3, -1).reshape(*x.shape[:-3], x.shape[-2], -1))
merging.mistake("sum", lambda x: x.sum(axis=-3))
merging.mistake("mean", lambda x: x.mean(axis=-3))
merging.mistake("below each other", lambda x: x.reshape(*x.shape[:-3], -1, x.shape[-1]))
merging.mistake(
    "backwards", lambda x: np.concatenate([x[..., h, :, :] for h in range(x.shape[-3])][::-1], axis=-1)
)


# 8 · Several heads


def multi_head(
    x: Float[np.ndarray, "T D"],
    W_q: Float[np.ndarray, "D D"],
    W_k: Float[np.ndarray, "D D"],
    W_v: Float[np.ndarray, "D D"],
    W_o: Float[np.ndarray, "D D"],
    n_heads: int,
) -> Float[np.ndarray, "T D"]:
    """Causal attention with several heads, which share the width."""
    q, k, v = (split_heads(x @ W, n_heads) for W in (W_q, W_k, W_v))
    mixed, _ = scaled_dot_product_attention(q, k, v, mask=causal_mask(len(x)))
    return merge_heads(mixed) @ W_o


several = exercise(
    "attention.multi_head",
    multi_head,
    built_on=(split_heads, scaled_dot_product_attention, merge_heads),
    axes="T D",
)


def _layer(T: int, D: int, seed: int = 0) -> tuple[Any, Any, Any, Any, Any]:
    """Vectors of a text, and the four matrices."""
    W_q, W_k, W_v, W_o = numbers(4, D, D, seed=seed + 1) / math.sqrt(D)
    return numbers(T, D, seed=seed), W_q, W_k, W_v, W_o


def head_by_head(x: Any, W_q: Any, W_k: Any, W_v: Any, W_o: Any, n_heads: int) -> np.ndarray:
    """Each head from its own columns of the matrices, one after another; what it finds, through its own rows of W_o."""
    K = x.shape[1] // n_heads
    total = np.zeros_like(x)
    for columns in (slice(h * K, (h + 1) * K) for h in range(n_heads)):
        q, k, v = (x @ W[:, columns] for W in (W_q, W_k, W_v))
        total += attended(q, k, v, np.tri(len(x), dtype=bool))[0] @ W_o[columns]
    return total


several.shape("the shape of x", *_layer(5, 6), 2, want=(5, 6))
_given = _layer(1, 4)
several.case(
    "one position can see only itself: its value, through W_o",
    *_given,
    2,
    want=_given[0] @ _given[3] @ _given[4],
)
_given = _layer(5, 4, seed=2)
several.case("one head", *_given, 1, want=head_by_head(*_given, 1))
_given = _layer(4, 6, seed=4)
several.case("three heads", *_given, 3, want=head_by_head(*_given, 3))
several.also(*_given, 6, want=head_by_head(*_given, 6))


@several.check("a later position changes nothing before it")
def _(multi_head):
    x, *matrices = _layer(5, 6, seed=6)
    other = x.copy()
    other[-1] = numbers(6, seed=9)
    W_q, W_k, W_v, W_o = matrices
    right = head_by_head(x, W_q, W_k, W_v, W_o, 2)[:4]
    expect(
        np.asarray(multi_head(other, *matrices, 2))[:4],
        right,
        "the first four rows, with another fifth,",
        axes="T D",
    )


def _heads(attend, out=lambda mixed, W_o: merge_heads(mixed) @ W_o, heads=lambda n: n, split=split_heads):
    """A wrong answer: `attend` gives the heads' outputs from q, k, v and the mask, `out` what is made of them."""

    def wrong(x, W_q, W_k, W_v, W_o, n_heads):
        q, k, v = (split(x @ W, heads(n_heads)) for W in (W_q, W_k, W_v))
        return out(attend(q, k, v, causal_mask(len(x))), W_o)

    return wrong


def _right_heads(q, k, v, mask):
    return _wrong(q, k, v, mask=mask)[0]


several.mistake("no W_o", _heads(_right_heads, lambda mixed, W_o: merge_heads(mixed)))
several.mistake("no mask", _heads(lambda q, k, v, mask: _wrong(q, k, v)[0]))
several.mistake(
    "root of D",
    _heads(lambda q, k, v, mask: _wrong(q, k, v, mask=mask, scale=(q.shape[0] * q.shape[2]) ** -0.5)[0]),
)
several.mistake("no root", _heads(lambda q, k, v, mask: _wrong(q, k, v, mask=mask, root=False)[0]))
several.mistake("columns", _heads(lambda q, k, v, mask: _wrong(q, k, v, mask=mask, shares=_columns)[0]))
several.mistake("one head", _heads(_right_heads, heads=lambda n: 1))
several.mistake("no swap", _heads(_right_heads, lambda mixed, W_o: mixed.reshape(mixed.shape[1], -1) @ W_o))
several.mistake("W_o transposed", _heads(_right_heads, lambda mixed, W_o: merge_heads(mixed) @ W_o.T))


@several.mistake("zero after")
@_heads
def _(q, k, v, mask):
    return (_wrong(q, k, v)[1] * mask) @ v


several.mistake("asked the wrong way", _heads(lambda q, k, v, mask: _right_heads(k, q, v, mask)))
several.mistake(
    "split by reshape", _heads(_right_heads, split=lambda x, n_heads: x.reshape(n_heads, len(x), -1))
)
several.mistake(
    "transposed",
    lambda x, W_q, W_k, W_v, W_o, n_heads: multi_head(x, W_q.T, W_k.T, W_v.T, W_o.T, n_heads),
)
several.mistake(
    "no W_v", lambda x, W_q, W_k, W_v, W_o, n_heads: multi_head(x, W_q, W_k, np.eye(len(W_v)), W_o, n_heads)
)
several.mistake("not merged", _heads(_right_heads, lambda mixed, W_o: mixed @ W_o))


@several.mistake("pair handed on")
def _(x, W_q, W_k, W_v, W_o, n_heads):
    return (x, W_o).shape  # type: ignore


@several.mistake("pair handed on")
def _(x, W_q, W_k, W_v, W_o, n_heads):
    return (x, W_o).swapaxes(-3, -2)  # type: ignore


# 9 · Shared keys


def grouped_attention(
    q: Float[np.ndarray, "H T K"], k: Float[np.ndarray, "G S K"], v: Float[np.ndarray, "G S K"]
) -> Float[np.ndarray, "H T K"]:
    """Attention in which H/G neighbouring query heads share each head of keys and values."""
    times = len(q) // len(k)
    output, _ = scaled_dot_product_attention(q, repeat_heads(k, times), repeat_heads(v, times))
    return output


grouped = exercise(
    "attention.grouped",
    grouped_attention,
    built_on=(repeat_heads, scaled_dot_product_attention),
    axes="H T K",
)


def _shared(
    H: int, G: int, T: int, S: int, K: int, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return numbers(H, T, K, seed=seed), numbers(G, S, K, seed=seed + 1), numbers(G, S, K, seed=seed + 2)


def _in_groups(q, k, v):
    return np.array(
        [attended(q[h], k[h * len(k) // len(q)], v[h * len(k) // len(q)])[0] for h in range(len(q))]
    )


grouped.shape("an output for each query head", *_shared(6, 2, 4, 5, 3), want=(6, 4, 3))
_given = _shared(3, 3, 2, 4, 2)
grouped.case("as many heads of keys as of queries: each its own", *_given, want=_in_groups(*_given))
_given = _shared(6, 2, 3, 4, 2, seed=3)
grouped.case(
    "two heads of keys for six of queries: 0, 1, 2 share the first", *_given, want=_in_groups(*_given)
)
_given = _shared(4, 1, 3, 2, 5, seed=6)
grouped.case("one head of keys for all", *_given, want=_in_groups(*_given))

grouped.mistake(
    "in turn",
    lambda q, k, v: _wrong(q, np.tile(k, (len(q) // len(k), 1, 1)), np.tile(v, (len(q) // len(k), 1, 1)))[0],
)
grouped.mistake("first for all", lambda q, k, v: _wrong(q, k[:1], v[:1])[0])
grouped.mistake("mean for all", lambda q, k, v: _wrong(q, k.mean(axis=0), v.mean(axis=0))[0])


@grouped.mistake("no root")
def _(q, k, v):
    times = len(q) // len(k)
    return _wrong(q, repeat_heads(k, times), repeat_heads(v, times), root=False)[0]


@grouped.mistake("masked")
def _(q, k, v):
    k, v = (repeat_heads(x, len(q) // len(k)) for x in (k, v))
    return _wrong(q, k, v, mask=np.tri(q.shape[1], k.shape[1], dtype=bool))[0]


@grouped.mistake("queries merged")
def _(q, k, v):
    few = q.reshape(len(k), -1, *q.shape[1:]).mean(axis=1)
    return repeat_heads(_wrong(few, k, v)[0], len(q) // len(k))


@grouped.mistake("values in turn")
def _(q, k, v):
    times = len(q) // len(k)
    return _wrong(q, repeat_heads(k, times), np.tile(v, (times, 1, 1)))[0]


# 10 · Another text


def cross_attention(
    x: Float[np.ndarray, "T D"],
    memory: Float[np.ndarray, "S D"],
    W_q: Float[np.ndarray, "D K"],
    W_k: Float[np.ndarray, "D K"],
    W_v: Float[np.ndarray, "D K"],
) -> Float[np.ndarray, "T K"]:
    """Computes what each position of x fetches from another text, `memory`."""
    output, _ = scaled_dot_product_attention(x @ W_q, memory @ W_k, memory @ W_v)
    return output


cross = exercise(
    "attention.cross_attention", cross_attention, built_on=(scaled_dot_product_attention,), axes="T K"
)


def _texts(T: int, S: int, D: int, K: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    return numbers(T, D, seed=seed), numbers(S, D, seed=seed + 1), *numbers(3, D, K, seed=seed + 2)


def _fetched(x, memory, W_q, W_k, W_v):
    return attended(x @ W_q, memory @ W_k, memory @ W_v)[0]


cross.shape(
    "a row for each position that asks, whatever the other text's length", *_texts(2, 5, 4, 3), want=(2, 3)
)
_given = _texts(3, 1, 4, 2)
cross.case(
    "a text of one position answers all alike", *_given, want=np.repeat(_given[1] @ _given[4], 3, axis=0)
)
_given = _texts(4, 4, 3, 2, seed=3)
cross.case("two texts of one length: everyone sees all of the other", *_given, want=_fetched(*_given))
_given = _texts(2, 6, 5, 3, seed=6)
cross.case("two lengths", *_given, want=_fetched(*_given))

cross.mistake("itself", lambda x, m, W_q, W_k, W_v: _wrong(x @ W_q, x @ W_k, x @ W_v)[0])
cross.mistake("values of x", lambda x, m, W_q, W_k, W_v: _wrong(x @ W_q, m @ W_k, x @ W_v)[0])
cross.mistake("roles changed", lambda x, m, W_q, W_k, W_v: _wrong(m @ W_q, x @ W_k, x @ W_v)[0])
cross.mistake("no root", lambda x, m, W_q, W_k, W_v: _wrong(x @ W_q, m @ W_k, m @ W_v, root=False)[0])
cross.mistake(
    "root of D", lambda x, m, W_q, W_k, W_v: _wrong(x @ W_q, m @ W_k, m @ W_v, scale=len(W_q) ** -0.5)[0]
)
cross.mistake(
    "masked",
    lambda x, m, W_q, W_k, W_v: _wrong(x @ W_q, m @ W_k, m @ W_v, mask=np.tri(len(x), len(m), dtype=bool))[0],
)
cross.mistake("columns", lambda x, m, W_q, W_k, W_v: _wrong(x @ W_q, m @ W_k, m @ W_v, shares=_columns)[0])
cross.mistake("swapped matrices", lambda x, m, W_q, W_k, W_v: _wrong(x @ W_q, m @ W_v, m @ W_k)[0])


# 11 · Cells


def score_cells(n_tokens: int, n_heads: int = 1) -> tuple[int, int]:
    """Returns how many scores a layer computes for a text, and how many of them a causal mask leaves."""
    return n_heads * n_tokens**2, n_heads * n_tokens * (n_tokens + 1) // 2


_ALL, _LEFT = "the number of scores", "the number that a causal mask leaves"
cells = exercise("attention.cells", score_cells, parts=(_ALL, _LEFT))

cells.case("ten tokens: every query with every key", 10, part=_ALL, want=100)
cells.case("ten tokens under a causal mask: 1 + 2 + … + 10", 10, part=_LEFT, want=55)
cells.case("one token sees itself", 1, want=(1, 1))
cells.case("each head has a table of its own", 10, 4, want=(400, 220))
cells.also(1024, 12, want=(12_582_912, 6_297_600))

cells.mistake("half", lambda T, H=1: (H * T * T, H * T * T // 2))
cells.mistake("not itself", lambda T, H=1: (H * T * T, H * T * (T - 1) // 2))
cells.mistake("heads forgotten", lambda T, H=1: (T * T, T * (T + 1) // 2))
cells.mistake("heads in the first", lambda T, H=1: (H * T * T, T * (T + 1) // 2))
cells.mistake("heads share", lambda T, H=1: (T * T // H, T * (T + 1) // 2 // H))
cells.mistake("one after another", lambda T, H=1: ((H * T) ** 2, H * T * (H * T + 1) // 2))
cells.mistake("rows", lambda T, H=1: (H * 2 * T, H * (T + 1)))
cells.mistake("pair", lambda T, H=1: score_cells(T, H)[::-1])


# 12 · Variance


def score_variance(d_head: int, query_variance: float, key_variance: float, scaled: bool) -> float:
    """The variance of q·k, or of q·k/√K, for independent numbers with mean 0."""
    return (1 if scaled else d_head) * query_variance * key_variance


spread = exercise("attention.variance", score_variance)

spread.case("64 numbers of variance 1, before the root", 64, 1.0, 1.0, False, want=64.0)
spread.case("the same after dividing by √64", 64, 1.0, 1.0, True, want=1.0)
spread.case("one number of variance 4 and one of 9", 1, 4.0, 9.0, False, want=36.0)
spread.case("sixteen numbers, before and after the root", 16, 4.0, 0.25, False, want=16.0)
spread.also(16, 4.0, 9.0, True, want=36.0)


@spread.check("it is what twenty thousand drawn pairs show")
def _(score_variance):
    q, k = 0.5 * numbers(20_000, 12), 3 * numbers(20_000, 12, seed=1)
    drawn = float((q * k).sum(axis=1).var())
    got = score_variance(12, 0.25, 9.0, False)
    expect_shape(got, (), "score_variance(12, 0.25, 9, False)")
    if abs(float(got) / drawn - 1) > 0.05:
        expect(
            got,
            27.0,
            "score_variance(12, 0.25, 9, False)",
            being=f"27; twenty thousand drawn pairs show {drawn:.1f}",
        )


spread.mistake("deviation", lambda d, a, b, scaled: math.sqrt((1 if scaled else d) * a * b))
spread.mistake("root once", lambda d, a, b, scaled: d * a * b / (math.sqrt(d) if scaled else 1))
spread.mistake("not scaled", lambda d, a, b, scaled: d * a * b)
spread.mistake("added", lambda d, a, b, scaled: (1 if scaled else d) * (a + b))
spread.mistake("added", lambda d, a, b, scaled: (1 if scaled else d) * (a + b) / 2)
spread.mistake("no variances", lambda d, a, b, scaled: 1 if scaled else d)
spread.mistake("K squared", lambda d, a, b, scaled: a * b * d**2 / (d if scaled else 1))
spread.mistake("squared", lambda d, a, b, scaled: (1 if scaled else d) * (a * b) ** 2)
spread.mistake("keys forgotten", lambda d, a, b, scaled: (1 if scaled else d) * a)
spread.mistake("always scaled", lambda d, a, b, scaled: a * b)
