"""Judges the exercises of chapter 05, "The stream and the norms"; their prose is in exercises.toml.

For each: the reference, where the package has none; then its checks, in teaching order; then its classic mistakes.
What is right comes from hand-worked numbers and from sums written out one number at a time. The axes: B batch,
L stages, N writes, T positions, D d_model, V vocabulary.
"""
# ruff: noqa: ANN001, ANN003, ANN202 - a check is read by its title, a mistake by its sentence

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import expect
from glassformer.exercises.material import numbers, quiet
from glassformer.scratch.attention import softmax
from glassformer.shapes import Float

Norm = Callable[[np.ndarray], np.ndarray]

EPS = 1e-5


# What is right, a number at a time


def _mean(numbers: Any) -> float:
    numbers = list(numbers)
    return math.fsum(numbers) / len(numbers)


def _layer_norm(x: Any, weight: Any, bias: Any, eps: float = EPS) -> np.ndarray:
    """LayerNorm of each vector, from its definition."""
    if np.ndim(x) > 1:
        return np.array([_layer_norm(row, weight, bias, eps) for row in x])
    mean = _mean(x)
    divisor = math.sqrt(_mean((a - mean) ** 2 for a in x) + eps)
    return np.array([(a - mean) / divisor * w + b for a, w, b in zip(x, weight, bias, strict=True)])


def _rms_norm(x: Any, weight: Any, eps: float = EPS) -> np.ndarray:
    """RMSNorm of each vector, from its definition."""
    if np.ndim(x) > 1:
        return np.array([_rms_norm(row, weight, eps) for row in x])
    divisor = math.sqrt(_mean(a * a for a in x) + eps)
    return np.array([a / divisor * w for a, w in zip(x, weight, strict=True)])


# 1 · LayerNorm


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

_one, _zero = np.ones(4), np.zeros(4)
_root = math.sqrt(1.5 + EPS)
layer.case(
    "[3, 1, 0, 0]: mean 1, variance 6/4",
    np.array([3.0, 1, 0, 0]), _one, _zero, want=[2 / _root, 0, -1 / _root, -1 / _root], axes="D",
)  # fmt: skip
_even = np.array([0.0, 0.0, 0.0, 0.001])
layer.case(
    "a row that is nearly nothing stays small: ε is under the root",
    _even, _one, _zero, want=_layer_norm(_even, _one, _zero), axes="D", being="0.00075/√(1.875e-7 + 1e-5)",
)  # fmt: skip
layer.case(
    "where all features are equal, what is left is the shift",
    np.array([3.0, 3.0, 3.0, 3.0]), np.array([2.0, 2, 2, 2]), np.array([1.0, 0, -1, 4]), want=[1.0, 0, -1, 4], axes="D",
)  # fmt: skip
_x = numbers(4, 3) * [[1], [10], [0.1], [3]] + 2
layer.case("each row by itself", _x, np.ones(3), np.zeros(3), want=_layer_norm(_x, np.ones(3), np.zeros(3)))
_x, _w, _b = numbers(2, 4), numbers(4, seed=1), numbers(4, seed=2)
layer.case("first the gain of each feature, then its shift", _x, _w, _b, want=_layer_norm(_x, _w, _b))
layer.case("another ε", _x, _w, _b, 0.5, want=_layer_norm(_x, _w, _b, 0.5))
layer.also(_x, _w, _b, eps=0.01, want=_layer_norm(_x, _w, _b, 0.01))
_x = numbers(2, 3, 4)
layer.case("any axes in front", _x, _w, _b, want=_layer_norm(_x, _w, _b), axes="B T D")


def _layer_norms(x, axis=-1, ddof=0, inside=True, root=True, centre=True, floor=True):
    """LayerNorm's middle, with one thing changed: without gain and shift."""

    def middle(x, eps):
        centred = x - x.mean(axis=axis, keepdims=True) if centre else x
        variance = x.var(axis=axis, keepdims=True, ddof=ddof)
        if not root:
            return centred / (variance + eps)
        return centred / (np.sqrt(variance + eps) if inside else np.sqrt(variance) + eps)

    return middle(x, floor)


def _wrong_layer(**changed):
    return quiet(lambda x, w, b, eps=EPS: _layer_norms(x, floor=eps, **changed) * w + b)


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
layer.mistake("rms", lambda x, w, b, eps=EPS: rms_norm(x, w, eps) + b)
layer.mistake(
    "length", lambda x, w, b, eps=EPS: layer_norm(x, w / math.sqrt(x.shape[-1]), b, eps / x.shape[-1])
)
layer.mistake("whole table", _wrong_layer(axis=None))
layer.mistake("positions", _wrong_layer(axis=0))
layer.mistake("positions", lambda x, w, b, eps=EPS: _layer_norms(x, axis=max(-2, -x.ndim), floor=eps) * w + b)
layer.mistake("axis 1", lambda x, w, b, eps=EPS: _layer_norms(x, axis=min(1, x.ndim - 1), floor=eps) * w + b)
layer.mistake("no gain", lambda x, w, b, eps=EPS: layer_norm(x, np.ones_like(w), b, eps))
layer.mistake("no shift", lambda x, w, b, eps=EPS: layer_norm(x, w, np.zeros_like(b), eps))
layer.mistake(
    "shift first", lambda x, w, b, eps=EPS: (layer_norm(x, np.ones_like(w), np.zeros_like(b), eps) + b) * w
)
layer.mistake("own eps", lambda x, w, b, eps=EPS: layer_norm(x, w, b))


# 2 · RMSNorm


def rms_norm(
    x: Float[np.ndarray, "*B D"], weight: Float[np.ndarray, " D"], eps: float = 1e-5
) -> Float[np.ndarray, "*B D"]:
    """Each vector scaled to a mean square of 1, then a gain for each feature."""
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + eps) * weight


root_mean_square = exercise("stream.rms_norm", rms_norm, axes="T D")

_root = math.sqrt(0.25 + EPS)
root_mean_square.case(
    "[1, 0, 0, 0]: mean square ¼", np.array([1.0, 0, 0, 0]), _one, want=[1 / _root, 0, 0, 0], axes="D"
)
_root = math.sqrt(9 + EPS)
root_mean_square.case(
    "it moves nothing: equal features stay equal, and are 1 in size",
    np.array([3.0, 3, 3, 3]), _one, want=[3 / _root] * 4, axes="D",
)  # fmt: skip
root_mean_square.case(
    "a row that is nearly nothing stays small: ε is under the root",
    _even, _one, want=_rms_norm(_even, _one), axes="D", being="0.001/√(2.5e-7 + 1e-5)",
)  # fmt: skip
root_mean_square.also(_zero, _one, want=_zero, axes="D")
_x = numbers(4, 3) * [[1], [10], [0.1], [3]] + 2
root_mean_square.case("each row by itself", _x, np.ones(3), want=_rms_norm(_x, np.ones(3)))
_x = numbers(2, 4)
root_mean_square.case("the gain of each feature", _x, _w, want=_rms_norm(_x, _w))
root_mean_square.case("another ε", _x, _w, 0.5, want=_rms_norm(_x, _w, 0.5))
root_mean_square.also(_x, _w, eps=0.01, want=_rms_norm(_x, _w, 0.01))
_x = numbers(2, 3, 4)
root_mean_square.case("any axes in front", _x, _w, want=_rms_norm(_x, _w), axes="B T D")


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


# 3 · Which LayerNorm is it?


def which_norm(norm: Norm) -> str:
    """Returns which of three norms this is, from its output for a varied row and for a nearly constant one."""
    lively, even = np.array([1.0, 0, 0, 0]), np.array([1.0, 1, 1, 1.001])
    if abs(norm(lively)).max() < 1.6:  # 1.5, where the others give 1.73
        return "unbiased"
    return "inside" if abs(norm(even)).max() < 1 else "outside"


which = exercise("stream.which_norm", which_norm)


def _plain(**changed: Any) -> Norm:
    """A norm without gain and shift, with ε = 1e-5."""
    return lambda x: _layer_norms(np.asarray(x, dtype=np.float64), floor=EPS, **changed)


which.case("√(σ² + ε)", _plain(), want="inside", what="which_norm, of √(σ² + ε),")
which.case("σ + ε", _plain(inside=False), want="outside", what="which_norm, of σ + ε,")
which.case("√(D/(D − 1)·σ² + ε)", _plain(ddof=1), want="unbiased", what="which_norm, of the unbiased one,")


@which.check("asked again, it says the same")
def _(which_norm):
    for changed, name in (({"ddof": 1}, "unbiased"), ({}, "inside"), ({"inside": False}, "outside")):
        expect(which_norm(_plain(**changed)), name, f"which_norm, of the one called {name},")


def _by(ask, names):
    """A wrong answer: the first name whose bound the largest number for the row is below."""

    def wrong(norm):
        largest = abs(norm(np.array(ask))).max()
        return next(name for name, bound in names if largest < bound)

    return wrong


which.mistake("lively only", _by([1.0, 0, 0, 0], [("unbiased", 1.6), ("inside", math.inf)]))
which.mistake("even only", _by([1.0, 1, 1, 1.001], [("inside", 1), ("outside", math.inf)]))
which.mistake(
    "swapped", lambda norm: {"inside": "outside", "outside": "inside"}.get(which_norm(norm), "unbiased")
)
which.mistake("smaller", _by([1.0, 0, 0, 0], [("inside", 1.6), ("unbiased", math.inf)]))
which.mistake("row", lambda norm: norm(np.array([1.0, 0, 0, 0])))


# 4 · The ledger


def ledger(x_0: Float[np.ndarray, "T D"], writes: Float[np.ndarray, "N T D"]) -> Float[np.ndarray, "N+1 T D"]:
    """The stream at first, and after each write."""
    return np.cumsum(np.concatenate([x_0[None], writes]), axis=0)


sums = exercise("stream.ledger", ledger, axes="L T D")

sums.shape("one entry more than there are writes", numbers(3, 4), numbers(2, 3, 4, seed=1), want=(3, 3, 4))
sums.case(
    "the first entry is what was there before any write",
    np.array([[1.0, 2.0]]), np.array([[[10.0, 0]], [[0, 5.0]]]), row=0, want=[[1.0, 2.0]], axes="T D",
)  # fmt: skip
sums.case(
    "each write is added to all before it",
    np.array([[1.0, 2.0]]), np.array([[[10.0, 0]], [[0, 5.0]], [[-1.0, 1.0]]]),
    want=[[[1.0, 2.0]], [[11.0, 2.0]], [[11.0, 7.0]], [[10.0, 8.0]]],
)  # fmt: skip
_x, _writes = numbers(3, 4), numbers(5, 3, 4, seed=1)
sums.case(
    "random writes, five of them",
    _x, _writes,
    want=[
        [[math.fsum([_x[t, d], *_writes[:n, t, d]]) for d in range(4)] for t in range(3)]
        for n in range(6)
    ],
)  # fmt: skip
sums.case("no writes at all: the stream is what it was", _x, _writes[:0], want=_x[None])

sums.mistake("final only", lambda x, writes: x + writes.sum(axis=0))
sums.mistake(
    "no start", lambda x, writes: np.concatenate([np.zeros_like(x)[None], np.cumsum(writes, axis=0)])
)
sums.mistake("only after", lambda x, writes: x + np.cumsum(writes, axis=0))
sums.mistake("sums alone", lambda x, writes: np.cumsum(writes, axis=0))


@sums.mistake("one array")
def _(x, writes):
    stream = x.copy()
    stages = [stream]
    for write in writes:
        stream += write
        stages.append(stream)
    return stages


sums.mistake("not summed", lambda x, writes: np.concatenate([x[None], x + writes]))
sums.mistake("writes alone", lambda x, writes: np.concatenate([x[None], writes]))
sums.mistake("replaced", lambda x, writes: np.concatenate([x[None], x + np.cumsum(writes[::-1], axis=0)]))
sums.mistake("along positions", lambda x, writes: np.cumsum(np.concatenate([x[None], writes]), axis=1))


# 5 · How large, how much is left


def in_the_end(n_writes: int, size: float) -> tuple[float, float, float]:
    """Size of a pre-norm stream after independent writes of `size`; share of x_0 in it, and in a post-norm stream."""
    mean_square = 1 + n_writes * size**2
    return math.sqrt(mean_square), 1 / math.sqrt(mean_square), (1 + size**2) ** (-n_writes / 2)


END = ("size", "share_pre", "share_post")
depth = exercise("stream.in_the_end", in_the_end, parts=END)

depth.case("before any write: size 1, and all of it is x₀", 0, 1.0, want=(1.0, 1.0, 1.0))
depth.case("one write of size 2: mean squares add up", 1, 2.0, want=(5**0.5, 0.2**0.5, 0.2**0.5))
depth.case("two writes of size 2", 2, 2.0, want=(3.0, 1 / 3, 0.2))
depth.case("three writes of size 1", 3, 1.0, want=(2.0, 0.5, 0.5**1.5))
depth.case("15 writes of size ¼", 15, 0.25, want=((31 / 16) ** 0.5, (16 / 31) ** 0.5, (16 / 17) ** 7.5))
depth.case("40 writes of size 1, as in 20 blocks", 40, 1.0, want=(41**0.5, 41**-0.5, 2.0**-20))


def _end(size, pre, post):
    """A wrong answer, made of the number of writes n and the square of their size s."""
    return lambda n, one: (size(n, one * one), pre(n, one * one), post(n, one * one))


def _size(n, s):
    return math.sqrt(1 + n * s)


def _pre(n, s):
    return 1 / math.sqrt(1 + n * s)


def _post(n, s):
    return (1 + s) ** (-n / 2)


depth.mistake("size forgotten", lambda n, one: in_the_end(n, 1.0))
depth.mistake("post without size", _end(_size, _pre, lambda n, s: 2 ** (-n / 2)))
depth.mistake("post with sizes", _end(_size, _pre, lambda n, s: (1 + math.sqrt(s)) ** -float(n)))
depth.mistake("sizes added", _end(lambda n, s: 1 + n * math.sqrt(s), _pre, _post))
depth.mistake("mean square", _end(lambda n, s: 1 + n * s, _pre, _post))
depth.mistake("no start", _end(lambda n, s: math.sqrt(n * s), _pre, _post))
depth.mistake("doubles", _end(lambda n, s: (1 + s) ** (n / 2), _pre, _post))
depth.mistake("share of squares", _end(_size, lambda n, s: 1 / (1 + n * s), _post))
depth.mistake("post as pre", _end(_size, _pre, _pre))
depth.mistake("halved", _end(_size, _pre, lambda n, s: (1 + s) ** -float(n)))
depth.mistake("size not squared", lambda n, one: in_the_end(n, math.sqrt(one)))
depth.mistake("blocks", lambda n, one: in_the_end(2 * n, one))


# 6 · Before or after


def two_sublayers(
    x: Float[np.ndarray, "T D"],
    attention: Norm,
    feed_forward: Norm,
    norm_1: Norm,
    norm_2: Norm,
    placement: str,
) -> Float[np.ndarray, "T D"]:
    """A block: two sublayers that add to the stream, each with its norm before it ("pre") or after the sum ("post")."""
    if placement == "pre":
        x = x + attention(norm_1(x))
        return x + feed_forward(norm_2(x))
    x = norm_1(x + attention(x))
    return norm_2(x + feed_forward(x))


block = exercise("stream.two_sublayers", two_sublayers, axes="T D")

_mix, _turn = numbers(3, 3, seed=1), numbers(2, 2, seed=2)


def _attention(x):
    """Any function that mixes positions."""
    return _mix @ np.asarray(x)


def _feed_forward(x):
    """Any function of each position alone."""
    return np.maximum(np.asarray(x) @ _turn, 0)


def _halves(x):
    """Halves and adds 3: a norm whose effect is visible even where it reads zeros."""
    return np.asarray(x) / 2 + 3


def _less_one(x):
    return np.asarray(x) - 1


def _nothing(x):
    return 0 * np.asarray(x)


def _gives(x):
    return np.asarray(x)


_x = numbers(3, 2)
block.case(
    "pre-norm, with sublayers that write nothing: what goes in comes out",
    _x, _nothing, _nothing, _halves, _less_one, "pre", want=_x,
)  # fmt: skip
block.case(
    "post-norm, with sublayers that write nothing: the two norms of what goes in",
    _x, _nothing, _nothing, _halves, _less_one, "post", want=_x / 2 + 2,
)  # fmt: skip
_a = np.array([[4.0, 8.0], [0, 2], [2, 0]])
block.case(
    "pre-norm: each sublayer reads through its norm, and adds",
    _a, _gives, _gives, _halves, _less_one, "pre", want=3 * _a + 5, being="x + (x/2 + 3), then twice that less 1",
)  # fmt: skip
_after = _x + _mix @ (_x / 2 + 3)
block.also(
    _x,
    _attention,
    _feed_forward,
    _halves,
    _less_one,
    "pre",
    want=_after + np.maximum((_after - 1) @ _turn, 0),
)
block.case(
    "post-norm: each sum goes through its norm",
    _a, _gives, _gives, _halves, _less_one, "post", want=2 * _a + 5, being="(x + x)/2 + 3, then 1 less than twice that",
)  # fmt: skip
_after = (_x + _mix @ _x) / 2 + 3
block.also(
    _x, _attention, _feed_forward, _halves, _less_one, "post", want=_after + np.maximum(_after @ _turn, 0) - 1
)


def _wrong_block(pre, post=None):
    """A block of two wrong steps, each made of the stream, a sublayer and its norm; one of them may be right."""

    def wrong(x, attention, feed_forward, norm_1, norm_2, placement):
        step = pre if placement == "pre" else post
        if step is None:
            return two_sublayers(x, attention, feed_forward, norm_1, norm_2, placement)
        return step(step(x, attention, norm_1), feed_forward, norm_2)

    return wrong


def _before(x, f, norm):
    return x + f(norm(np.array(x)))  # a copy, for norms that work in place


def _behind(x, f, norm):
    return norm(x + f(np.array(x)))


block.mistake("no residual", _wrong_block(lambda x, f, norm: f(norm(x)), lambda x, f, norm: norm(f(x))))
block.mistake("placements swapped", _wrong_block(_behind, _before))
block.mistake("always pre", _wrong_block(None, _before))
block.mistake("always post", _wrong_block(_behind, None))
block.mistake("stream normed", _wrong_block(lambda x, f, norm: norm(x) + f(norm(x)), None))
block.mistake("write normed", _wrong_block(None, lambda x, f, norm: x + norm(f(x))))
block.mistake("write normed", _wrong_block(lambda x, f, norm: x + norm(f(x)), None))
block.mistake("norm not used", _wrong_block(lambda x, f, norm: x + f(x), None))


@block.mistake("old stream")
def _(x, attention, feed_forward, norm_1, norm_2, placement):
    if placement == "pre":
        return x + feed_forward(norm_2(x + attention(norm_1(x))))
    return norm_2(x + feed_forward(norm_1(x + attention(x))))


@block.mistake("second sum missing")
def _(x, attention, feed_forward, norm_1, norm_2, placement):
    if placement == "pre":
        return feed_forward(norm_2(x + attention(norm_1(x))))
    return norm_2(feed_forward(norm_1(x + attention(x))))


@block.mistake("one norm twice")
def _(x, attention, feed_forward, norm_1, norm_2, placement):
    return two_sublayers(x, attention, feed_forward, norm_1, norm_1, placement)


@block.mistake("norms swapped")
def _(x, attention, feed_forward, norm_1, norm_2, placement):
    return two_sublayers(x, attention, feed_forward, norm_2, norm_1, placement)


@block.mistake("side by side")
def _(x, attention, feed_forward, norm_1, norm_2, placement):
    if placement == "pre":
        return x + attention(norm_1(x)) + feed_forward(norm_2(x))
    return two_sublayers(x, attention, feed_forward, norm_1, norm_2, placement)


# 7 · Which placement is it?


def which_placement(step: Callable[[np.ndarray, Norm, Norm], np.ndarray]) -> str:
    """Returns where a step has its norm: asks it with a sublayer that writes nothing and a norm that can be seen."""
    x = np.array([[1.0, 2.0, 3.0]])
    silent = step(x, lambda read: 0 * read, lambda read: 5 * read)
    if np.allclose(silent, x):
        return "pre"
    return "post" if np.allclose(silent, 5 * x) else "none"


places = exercise("stream.which_placement", which_placement)

places.case("x + sublayer(norm(x))", _before, want="pre", what="which_placement, of x + sublayer(norm(x)),")
places.case("norm(x + sublayer(x))", _behind, want="post", what="which_placement, of norm(x + sublayer(x)),")
places.case(
    "sublayer(norm(x)): there is no sum",
    lambda x, f, norm: f(norm(np.array(x))), want="none", what="which_placement, of sublayer(norm(x)),",
)  # fmt: skip
places.case(
    "norm(sublayer(x)): nor here",
    lambda x, f, norm: norm(f(np.array(x))), want="none", what="which_placement, of norm(sublayer(x)),",
)  # fmt: skip
places.case(
    "the order of the terms does not matter",
    lambda x, f, norm: f(norm(np.array(x))) + x, want="pre", what="which_placement, of sublayer(norm(x)) + x,",
)  # fmt: skip
places.also(
    lambda x, f, norm: norm(f(np.array(x)) + x),
    want="post",
    what="which_placement, of norm(sublayer(x) + x),",
)


def _asking(f, norm, names):
    """A wrong answer: asks with these two, and names what comes back of [1, 2, 3], or says "none"."""

    def wrong(step):
        x = np.array([[1.0, 2.0, 3.0]])
        got = step(x, f, norm)
        return next((name for name, times in names if np.allclose(got, times * x)), "none")

    return wrong


def _times(a):
    return lambda x: a * np.asarray(x)


places.mistake("norm hidden", _asking(_times(0), _times(1), [("pre", 1), ("post", 1)]))
places.mistake("swapped", _asking(_times(0), _times(5), [("post", 1), ("pre", 5)]))
places.mistake("no sum", _asking(_times(0), _times(5), [("pre", 1), ("post", 0), ("post", 5)]))
places.mistake("sublayer shows", _asking(_times(1), _times(5), [("none", 6), ("post", 10), ("none", 5)]))


# 8 · A lens of your own


def lens(
    streams: Float[np.ndarray, "L T D"],
    weight: Float[np.ndarray, " D"],
    W: Float[np.ndarray, "D V"],
    eps: float = 1e-5,
) -> Float[np.ndarray, "L T V"]:
    """Computes what the model would predict at each stage: the final RMSNorm, then the head, on every stream."""
    return rms_norm(streams, weight, eps) @ W


early = exercise("stream.lens", lens, built_on=(rms_norm,), axes="L T V")


def _said(streams: Any, weight: Any, W: Any, eps: float = EPS) -> np.ndarray:
    """The logits, each a sum written out."""
    normed = _rms_norm(streams, weight, eps)
    return np.array([
        [[math.fsum(a * b for a, b in zip(row, column, strict=True)) for column in W.T] for row in one]
        for one in normed
    ])  # fmt: skip


_W = numbers(4, 5, seed=3)
early.shape("a logit for each stage, position and token", numbers(3, 2, 4), _one, _W, want=(3, 2, 5))
_streams = numbers(3, 2, 4) * [[[1]], [[3]], [[9]]]
early.case("random streams, which grow", _streams, _one, _W, want=_said(_streams, _one, _W))
early.case("the norm's gain counts", _streams, _w, _W, want=_said(_streams, _w, _W))
_small = _streams / 1000
early.case("streams that are nearly nothing: ε", _small, _w, _W, want=_said(_small, _w, _W))
early.also(_streams, _w, _W, eps=0.5, want=_said(_streams, _w, _W, 0.5))
early.case("one stage, one position", _streams[:1, :1], _w, _W, want=_said(_streams[:1, :1], _w, _W))

early.mistake("no norm", lambda streams, weight, W, eps=EPS: streams @ W)
early.mistake("gain alone", lambda streams, weight, W, eps=EPS: (streams * weight) @ W)
early.mistake("shares", lambda streams, weight, W, eps=EPS: softmax(lens(streams, weight, W, eps)))
early.mistake("no gain", lambda streams, weight, W, eps=EPS: lens(streams, np.ones_like(weight), W, eps))
early.mistake(
    "layer norm", lambda streams, weight, W, eps=EPS: layer_norm(streams, weight, 0 * weight, eps) @ W
)
early.mistake("last stage", lambda streams, weight, W, eps=EPS: lens(streams[-1:], weight, W, eps))
early.mistake("own eps", lambda streams, weight, W, eps=EPS: lens(streams, weight, W))


@early.mistake("one scale")
def _(streams, weight, W, eps=EPS):
    scale = np.sqrt((streams[-1:] ** 2).mean(axis=-1, keepdims=True) + eps)
    return streams / scale * weight @ W


@early.mistake("whole stream")
def _(streams, weight, W, eps=EPS):
    return streams / np.sqrt((streams**2).mean(axis=(-1, -2), keepdims=True) + eps) * weight @ W


# 9 · Who said it?


def shares(
    writes: Float[np.ndarray, "N D"],
    weight: Float[np.ndarray, " D"],
    W: Float[np.ndarray, "D V"],
    token: int,
    against: int,
    eps: float = 1e-5,
) -> Float[np.ndarray, " N"]:
    """Computes what each write adds to `token`'s logit minus that of `against`, with the final RMSNorm's scale held."""
    x = writes.sum(axis=0)
    scale = 1 / np.sqrt((x**2).mean() + eps)
    return writes * scale * weight @ (W[:, token] - W[:, against])


who = exercise("stream.shares", shares, axes="N")


def _shared(writes: Any, weight: Any, W: Any, token: int, against: int, eps: float = EPS) -> list[float]:
    x = [math.fsum(column) for column in writes.T]
    root = math.sqrt(_mean(a * a for a in x) + eps)
    return [
        math.fsum(a / root * w * b for a, w, b in zip(row, weight, W[:, token] - W[:, against], strict=True))
        for row in writes
    ]  # fmt: skip


_parts = numbers(5, 4)
who.shape("a share for each write", _parts, _one, _W, 2, 0, want=(5,))
who.case(
    "two writes along two features, of a stream of mean square 12.5",
    np.array([[3.0, 0], [0, 4.0]]), np.ones(2), np.array([[1.0, 0, 0], [0, 1.0, 0]]), 0, 1,
    want=[3 / math.sqrt(12.5 + EPS), -4 / math.sqrt(12.5 + EPS)], being="3/√12.5 and −4/√12.5",
)  # fmt: skip
who.case("random writes", _parts, _one, _W, 2, 0, want=_shared(_parts, _one, _W, 2, 0))
who.case("the norm's gain counts", _parts, _w, _W, 4, 1, want=_shared(_parts, _w, _W, 4, 1))


@who.check("the shares sum to the difference of the two logits")
def _(shares):
    logits = _said(_parts.sum(axis=0)[None, None], _w, _W)[0, 0]
    got = np.asarray(shares(_parts, _w, _W, 3, 1), dtype=np.float64)
    expect(got.sum(), logits[3] - logits[1], "the sum of the shares")


who.case(
    "writes that are nearly nothing: ε",
    _parts / 1000,
    _w,
    _W,
    4,
    1,
    want=_shared(_parts / 1000, _w, _W, 4, 1),
)
who.also(_parts, _w, _W, 4, 1, eps=0.5, want=_shared(_parts, _w, _W, 4, 1, 0.5))


def _wrong_shares(scale=None, direction=None, of=None):
    """Shares with another scale, direction or reading of the writes."""

    def wrong(writes, weight, W, token, against, eps=EPS):
        x = writes.sum(axis=0)
        held = 1 / np.sqrt((x**2).mean() + eps) if scale is None else scale(writes, x, eps)
        along = W[:, token] - W[:, against] if direction is None else direction(W, token, against)
        read = writes if of is None else of(writes)
        return read * held * weight @ along

    return wrong


who.mistake(
    "own scale",
    _wrong_shares(scale=lambda writes, x, eps: 1 / np.sqrt((writes**2).mean(axis=-1, keepdims=True) + eps)),
)
who.mistake("no norm", _wrong_shares(scale=lambda writes, x, eps: 1.0))
who.mistake("not against", _wrong_shares(direction=lambda W, token, against: W[:, token]))
who.mistake("other way", _wrong_shares(direction=lambda W, token, against: W[:, against] - W[:, token]))
who.mistake("length", _wrong_shares(scale=lambda writes, x, eps: 1 / np.sqrt((x**2).sum() + eps)))
who.mistake(
    "no gain", lambda writes, weight, *others, **eps: shares(writes, np.ones_like(weight), *others, **eps)
)
who.mistake("so far", _wrong_shares(of=lambda writes: np.cumsum(writes, axis=0)))
who.mistake("layer norm", _wrong_shares(of=lambda writes: writes - writes.mean(axis=-1, keepdims=True)))
who.mistake("no eps", lambda *args, **eps: shares(*args, eps=0.0))
who.mistake("fractions", lambda *args, **eps: (found := shares(*args, **eps)) / found.sum())
who.mistake("total", lambda *args, **eps: shares(*args, **eps).sum())
who.mistake(
    "own eps", lambda writes, weight, W, token, against, eps=EPS: shares(writes, weight, W, token, against)
)
