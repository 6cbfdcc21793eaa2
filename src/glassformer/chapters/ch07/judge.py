"""Judges the exercises of chapter 07, "The block"; their prose is in exercises.toml.

For each: the reference, where the package has none; then its checks, in teaching order; then its classic mistakes.
What is right comes from sums written out a number at a time, and from numbers worked by hand. The axes: T positions,
D d_model, F d_ff, H heads, K d_head, N blocks.
"""
# ruff: noqa: ANN001, ANN002, ANN003, ANN202 - a check is read by its title, a mistake by its sentence

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from glassformer.chapters.ch03.judge import head_by_head, multi_head
from glassformer.chapters.ch05.judge import layer_norm
from glassformer.chapters.ch06.judge import feed_forward
from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import Wrong, expect, expect_shape
from glassformer.exercises.material import numbers
from glassformer.scratch.feedforward import gelu, relu
from glassformer.shapes import Float

Weights = Mapping[str, np.ndarray]


def block_weights(D: int, F: int, seed: int = 0) -> dict[str, np.ndarray]:
    """The weights of one block, all drawn, the gains of the norms around 1."""
    g = np.random.default_rng((seed, D, F))

    def matrix(n_in: int, n_out: int) -> np.ndarray:
        return g.normal(size=(n_in, n_out)) / math.sqrt(n_in)

    return {
        "norm_attention.weight": 1 + 0.3 * g.normal(size=D),
        "norm_attention.bias": 0.3 * g.normal(size=D),
        **{f"attention.{name}.weight": matrix(D, D) for name in ("W_q", "W_k", "W_v", "W_o")},
        "norm_feedforward.weight": 1 + 0.3 * g.normal(size=D),
        "norm_feedforward.bias": 0.3 * g.normal(size=D),
        "feedforward.W_up.weight": matrix(D, F),
        "feedforward.W_up.bias": 0.3 * g.normal(size=F),
        "feedforward.W_down.weight": matrix(F, D),
        "feedforward.W_down.bias": 0.3 * g.normal(size=D),
    }


# What is right, a number at a time


def normed(x: Any, weight: Any, bias: Any) -> np.ndarray:
    """LayerNorm of each row, from its definition."""
    rows = []
    for row in x:
        mean = math.fsum(row) / len(row)
        size = math.sqrt(math.fsum((a - mean) ** 2 for a in row) / len(row) + 1e-5)
        rows.append([w * (a - mean) / size + b for a, w, b in zip(row, weight, bias, strict=True)])
    return np.array(rows)


def _gelu(x: float) -> float:
    return x * (1 + math.erf(x / math.sqrt(2))) / 2


def _attention(x: Any, w: Weights, n_heads: int) -> np.ndarray:
    W_q, W_k, W_v, W_o = (w[f"attention.{name}.weight"] for name in ("W_q", "W_k", "W_v", "W_o"))
    return head_by_head(x, W_q, W_k, W_v, W_o, n_heads)


def _feedforward(x: Any, w: Weights) -> np.ndarray:
    """Each position by itself, each neuron by itself."""
    up, down = w["feedforward.W_up.weight"], w["feedforward.W_down.weight"]
    b_up, b_down = w["feedforward.W_up.bias"], w["feedforward.W_down.bias"]
    rows = []
    for row in x:
        neurons = [_gelu(math.fsum(row * column) + b) for column, b in zip(up.T, b_up, strict=True)]
        rows.append([math.fsum(neurons * column) + b for column, b in zip(down.T, b_down, strict=True)])
    return np.array(rows)


def _norm_of(x: Any, w: Weights, name: str) -> np.ndarray:
    return normed(x, w[f"{name}.weight"], w[f"{name}.bias"])


def pre_norm_by_hand(x: Any, w: Weights, n_heads: int) -> np.ndarray:
    """Returns the block's output, each head, position and neuron by itself."""
    x = x + _attention(_norm_of(x, w, "norm_attention"), w, n_heads)
    return x + _feedforward(_norm_of(x, w, "norm_feedforward"), w)


def _post(x: Any, w: Weights, n_heads: int) -> np.ndarray:
    x = _norm_of(x + _attention(x, w, n_heads), w, "norm_attention")
    return _norm_of(x + _feedforward(x, w), w, "norm_feedforward")


# What mistakes are made of


class _Parts:
    """The four parts of one block, each a function of x, so that mistakes can put them together wrongly."""

    def __init__(self, w, n_heads, *, bend=gelu, norms=("norm_attention", "norm_feedforward")) -> None:
        self.w, self.n_heads, self.bend, self.norms = w, n_heads, bend, norms

    def norm(self, x, which):
        name = self.norms[which]
        return layer_norm(x, self.w[f"{name}.weight"], self.w[f"{name}.bias"])

    def attend(self, x):
        W_q, W_k, W_v, W_o = (self.w[f"attention.{name}.weight"] for name in ("W_q", "W_k", "W_v", "W_o"))
        return multi_head(x, W_q, W_k, W_v, W_o, self.n_heads)

    def feed(self, x):
        up = x @ self.w["feedforward.W_up.weight"] + self.w["feedforward.W_up.bias"]
        return self.bend(up) @ self.w["feedforward.W_down.weight"] + self.w["feedforward.W_down.bias"]

    def attend_to_all(self, x):
        """Lets every position attend to all: there is no mask."""
        W_q, W_k, W_v, W_o = (self.w[f"attention.{name}.weight"] for name in ("W_q", "W_k", "W_v", "W_o"))
        K = x.shape[1] // self.n_heads
        mixed = []
        for columns in (slice(h * K, (h + 1) * K) for h in range(self.n_heads)):
            powers = np.exp((x @ W_q[:, columns]) @ (x @ W_k[:, columns]).T / math.sqrt(K))
            mixed.append(powers / powers.sum(axis=1, keepdims=True) @ (x @ W_v[:, columns]))
        return np.hstack(mixed) @ W_o


def _of(function, **changes):
    """A wrong block: `function` puts together the parts, of which `changes` may change some."""
    return lambda x, weights, n_heads: function(_Parts(weights, n_heads, **changes), x)


def _as_it_is(p, x):
    x = x + p.attend(p.norm(x, 0))
    return x + p.feed(p.norm(x, 1))


def _replaced(p, x):
    return p.feed(p.norm(p.attend(p.norm(x, 0)), 1))


def _first_replaced(p, x):
    x = p.attend(p.norm(x, 0))
    return x + p.feed(p.norm(x, 1))


def _second_replaced(p, x):
    return p.feed(p.norm(x + p.attend(p.norm(x, 0)), 1))


def _unnormed(first, second):
    def wrong(p, x):
        x = x + p.attend(p.norm(x, 0) if first else x)
        return x + p.feed(p.norm(x, 1) if second else x)

    return wrong


def _normed_stream(first, second):
    """Adds to the norm's output instead of to the stream."""

    def wrong(p, x):
        read = p.norm(x, 0)
        x = (read if first else x) + p.attend(read)
        read = p.norm(x, 1)
        return (read if second else x) + p.feed(read)

    return wrong


def _after(p, x):
    x = p.norm(x + p.attend(x), 0)
    return p.norm(x + p.feed(x), 1)


def _side_by_side(p, x):
    return x + p.attend(p.norm(x, 0)) + p.feed(p.norm(x, 1))


def _attention_lost(p, x):
    return x + p.feed(p.norm(x + p.attend(p.norm(x, 0)), 1))


def _feed_first(p, x):
    x = x + p.feed(p.norm(x, 1))
    return x + p.attend(p.norm(x, 0))


def _unmasked(p, x):
    x = x + p.attend_to_all(p.norm(x, 0))
    return x + p.feed(p.norm(x, 1))


# 1 · The block


def block(x: Float[np.ndarray, "T D"], weights: Weights, n_heads: int) -> Float[np.ndarray, "T D"]:
    """A pre-norm block: each sublayer reads a norm of the stream, and adds what it writes."""
    w = weights
    normed = layer_norm(x, w["norm_attention.weight"], w["norm_attention.bias"])
    W_q, W_k, W_v, W_o = (w[f"attention.{name}.weight"] for name in ("W_q", "W_k", "W_v", "W_o"))
    x = x + multi_head(normed, W_q, W_k, W_v, W_o, n_heads)
    normed = layer_norm(x, w["norm_feedforward.weight"], w["norm_feedforward.bias"])
    W_up, b_up = w["feedforward.W_up.weight"], w["feedforward.W_up.bias"]
    W_down, b_down = w["feedforward.W_down.weight"], w["feedforward.W_down.bias"]
    return x + feed_forward(normed, W_up, b_up, W_down, b_down)


whole = exercise("block.block", block, built_on=(multi_head, layer_norm, feed_forward), axes="T D")


def _quiet(w: Weights, *names: str) -> dict[str, np.ndarray]:
    """The same weights, with these at zero."""
    return {name: np.zeros_like(value) if name in names else value for name, value in w.items()}


ATTENTION_WRITES = ("attention.W_o.weight",)
FEEDFORWARD_WRITES = ("feedforward.W_down.weight", "feedforward.W_down.bias")

_x, _w = numbers(5, 6, seed=1), block_weights(6, 10)
whole.shape("the shape of x", _x, _w, 2, want=(5, 6))
whole.case(
    "with W_o, W_down and its bias at zero nothing is written: x comes out as it went in",
    _x, _quiet(_w, *ATTENTION_WRITES, *FEEDFORWARD_WRITES), 2, want=_x,
)  # fmt: skip
_half = _quiet(_w, *FEEDFORWARD_WRITES)
whole.case(
    "with a feed-forward that writes nothing: x, and what attention makes of its norm",
    _x, _half, 2, want=_x + _attention(_norm_of(_x, _w, "norm_attention"), _w, 2),
)  # fmt: skip
_half = _quiet(_w, *ATTENTION_WRITES)
whole.case(
    "with an attention that writes nothing: x, and what the feed-forward makes of its norm",
    _x, _half, 2, want=_x + _feedforward(_norm_of(_x, _w, "norm_feedforward"), _w),
)  # fmt: skip
whole.case("both, one after the other", _x, _w, 2, want=pre_norm_by_hand(_x, _w, 2))
_x, _w = numbers(4, 6, seed=2), block_weights(6, 7, seed=1)
whole.case("other sizes, three heads", _x, _w, 3, want=pre_norm_by_hand(_x, _w, 3))
whole.also(_x[:1], _w, 1, want=pre_norm_by_hand(_x[:1], _w, 1))
_x = 40 * numbers(4, 6, seed=3) + 5
whole.case(
    "a large stream, which a norm makes small for those who read it",
    _x,
    _w,
    2,
    want=pre_norm_by_hand(_x, _w, 2),
)

whole.mistake("replaced", _of(_replaced))
whole.mistake("first replaced", _of(_first_replaced))
whole.mistake("second replaced", _of(_second_replaced))
whole.mistake("post-norm", _of(_after))
whole.mistake("normed stream", _of(_normed_stream(True, True)))
whole.mistake("normed stream", _of(_normed_stream(True, False)))
whole.mistake("normed stream", _of(_normed_stream(False, True)))
whole.mistake("unnormed", _of(_unnormed(False, False)))
whole.mistake("unnormed", _of(_unnormed(False, True)))
whole.mistake("unnormed", _of(_unnormed(True, False)))
whole.mistake("old x", _of(_side_by_side))


@whole.mistake("norm of the write")
@_of
def _(p, x):
    x = x + p.norm(p.attend(x), 0)
    return x + p.norm(p.feed(x), 1)


@whole.mistake("norm of a norm")
@_of
def _(p, x):
    read = p.norm(x, 0)
    x = x + p.attend(read)
    return x + p.feed(p.norm(read, 1))


@whole.mistake("written twice")
@_of
def _(p, x):
    a = p.attend(p.norm(x, 0))
    return x + a + a + p.feed(p.norm(x + a, 1))


whole.mistake("attention lost", _of(_attention_lost))
whole.mistake("one norm", _of(_as_it_is, norms=("norm_attention", "norm_attention")))
whole.mistake("norms swapped", _of(_as_it_is, norms=("norm_feedforward", "norm_attention")))
whole.mistake("order", _of(_feed_first))
whole.mistake("no mask", _of(_unmasked))
whole.mistake("one head", lambda x, weights, n_heads: block(x, weights, 1))
whole.mistake("ReLU", _of(_as_it_is, bend=relu))
whole.mistake(
    "norm without bias",
    lambda x, weights, n_heads: block(
        x, _quiet(weights, "norm_attention.bias", "norm_feedforward.bias"), n_heads
    ),
)
whole.mistake(
    "no biases",
    lambda x, weights, n_heads: block(
        x, _quiet(weights, "feedforward.W_up.bias", "feedforward.W_down.bias"), n_heads
    ),
)
whole.mistake(
    "no bias down",
    lambda x, weights, n_heads: block(x, _quiet(weights, "feedforward.W_down.bias"), n_heads),
)


# 2 · Post-norm


def post_block(x: Float[np.ndarray, "T D"], weights: Weights, n_heads: int) -> Float[np.ndarray, "T D"]:
    """The block of 2017: the norm comes after the sum."""
    w = weights
    W_q, W_k, W_v, W_o = (w[f"attention.{name}.weight"] for name in ("W_q", "W_k", "W_v", "W_o"))
    x = x + multi_head(x, W_q, W_k, W_v, W_o, n_heads)
    x = layer_norm(x, w["norm_attention.weight"], w["norm_attention.bias"])
    W_up, b_up = w["feedforward.W_up.weight"], w["feedforward.W_up.bias"]
    W_down, b_down = w["feedforward.W_down.weight"], w["feedforward.W_down.bias"]
    x = x + feed_forward(x, W_up, b_up, W_down, b_down)
    return layer_norm(x, w["norm_feedforward.weight"], w["norm_feedforward.bias"])


after = exercise("block.post_block", post_block, built_on=(multi_head, layer_norm, feed_forward), axes="T D")

_x, _w = numbers(5, 6, seed=4), block_weights(6, 10, seed=2)
after.shape("the shape of x", _x, _w, 2, want=(5, 6))
_plain = _quiet(_w, *ATTENTION_WRITES, *FEEDFORWARD_WRITES, "norm_attention.bias", "norm_feedforward.bias")
_plain |= {f"{name}.weight": np.ones(6) for name in ("norm_attention", "norm_feedforward")}


_alike = normed(normed(_x, np.ones(6), np.zeros(6)), np.ones(6), np.zeros(6))
after.case(
    "where nothing is written, and the gains are 1, each row comes out with mean 0 and variance 1",
    _x, _plain, 2, want=_alike,
)  # fmt: skip
after.case("the whole block", _x, _w, 2, want=_post(_x, _w, 2))
_x, _w = 5 * numbers(4, 6, seed=5), block_weights(6, 7, seed=3)
after.case("other sizes, three heads, a larger stream", _x, _w, 3, want=_post(_x, _w, 3))

after.mistake("pre-norm", block)


@after.mistake("norm of the write")
@_of
def _(p, x):
    x = x + p.norm(p.attend(x), 0)
    return x + p.norm(p.feed(x), 1)


@after.mistake("replaced")
@_of
def _(p, x):
    return p.norm(p.feed(p.norm(p.attend(x), 0)), 1)


@after.mistake("one norm left out")
@_of
def _(p, x):
    x = x + p.attend(x)
    return p.norm(x + p.feed(x), 1)


@after.mistake("one norm left out")
@_of
def _(p, x):
    x = p.norm(x + p.attend(x), 0)
    return x + p.feed(x)


@after.mistake("old x")
@_of
def _(p, x):
    y = p.norm(x + p.attend(x), 0)
    return p.norm(x + p.feed(y), 1)


@after.mistake("reads old x")
@_of
def _(p, x):
    y = p.norm(x + p.attend(x), 0)
    return p.norm(y + p.feed(x), 1)


@after.mistake("before and after")
@_of
def _(p, x):
    x = p.norm(x + p.attend(p.norm(x, 0)), 0)
    return p.norm(x + p.feed(p.norm(x, 1)), 1)


after.mistake("norms swapped", _of(_after, norms=("norm_feedforward", "norm_attention")))
after.mistake("one norm", _of(_after, norms=("norm_attention", "norm_attention")))


# 3 · The stack


def stack(x: Float[np.ndarray, "T D"], blocks: Sequence[Weights], n_heads: int) -> Float[np.ndarray, "_ T D"]:
    """The stream before the first block, and after each."""
    streams = [x]
    for weights in blocks:
        streams.append(block(streams[-1], weights, n_heads))
    return np.stack(streams)


deep = exercise("block.stack", stack, built_on=(block,))

_x, _blocks = numbers(4, 6, seed=6), [block_weights(6, 8, seed=seed) for seed in (4, 5, 6)]


def _streams(x: Any, blocks: Sequence[Weights], n_heads: int) -> np.ndarray:
    """Each from the one before, a number at a time."""
    made = [x]
    for weights in blocks:
        made.append(pre_norm_by_hand(made[-1], weights, n_heads))
    return np.array(made)


deep.shape("one stream more than there are blocks", _x, _blocks, 2, want=(4, 4, 6))
deep.case("no block at all: the stream as it came", _x, [], 2, want=_x[None])
deep.case("one block", _x, _blocks[:1], 2, want=_streams(_x, _blocks[:1], 2))
deep.case("three blocks, each reads what the one before left", _x, _blocks, 2, want=_streams(_x, _blocks, 2))
deep.also(_x, _blocks[::-1], 3, want=_streams(_x, _blocks[::-1], 3))


def _stacked(step, order=lambda blocks: blocks, first=True):
    """A wrong stack: `step` gives the next stream from all so far, the weights of all blocks, and the number."""

    def wrong(x, blocks, n_heads):
        made = [x]
        for i in range(len(blocks)):
            made.append(step(made, order(blocks), i, n_heads))
        return np.stack(made if first or len(made) == 1 else made[1:])

    return wrong


deep.mistake("same block", _stacked(lambda made, blocks, i, H: block(made[-1], blocks[0], H)))
deep.mistake("start", _stacked(lambda made, blocks, i, H: block(made[-1], blocks[i], H), first=False))
deep.mistake("all read x", _stacked(lambda made, blocks, i, H: block(made[0], blocks[i], H)))
deep.mistake("added twice", _stacked(lambda made, blocks, i, H: made[-1] + block(made[-1], blocks[i], H)))
deep.mistake(
    "backwards",
    _stacked(lambda made, blocks, i, H: block(made[-1], blocks[i], H), lambda blocks: blocks[::-1]),
)
deep.mistake("end", lambda x, blocks, n_heads: stack(x, blocks, n_heads)[: max(len(blocks), 1)])
deep.mistake("last alone", lambda x, blocks, n_heads: stack(x, blocks, n_heads)[-1])
deep.mistake(
    "writes",
    lambda x, blocks, n_heads: np.concatenate([x[None], np.diff(stack(x, blocks, n_heads), axis=0)]),
)


# 4 · Dropout


def dropout(
    x: Float[np.ndarray, "..."], rate: float, generator: np.random.Generator, training: bool = True
) -> Float[np.ndarray, "..."]:
    """Sets numbers to 0 with probability `rate` in training and divides the rest by 1 − rate; otherwise returns x."""
    if not training:
        return x
    return x * (generator.random(x.shape) >= rate) / (1 - rate)


dropping = exercise("block.dropout", dropout)


def _drawn(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


_x = 1 + np.arange(12.0).reshape(3, 4)
dropping.case("in evaluation nothing is dropped", _x, 0.5, _drawn(), training=False, want=_x)
dropping.also(_x[0], 0.9, _drawn(), False, want=_x[0])
dropping.also(_x.reshape(2, 3, 2), 0.2, _drawn(), training=False, want=_x.reshape(2, 3, 2))
dropping.case("at a rate of 0 nothing is dropped", _x, 0.0, _drawn(), want=_x)
MANY = np.ones((60, 50))


@dropping.check("each number is dropped, or divided by 1 − rate")
def _(dropout):
    for rate, factor in ((0.2, 1.25), (0.75, 4.0)):
        got = dropout(3 * MANY, rate, _drawn())
        what = f"dropout(x, {rate}, generator)"
        expect_shape(got, (60, 50), what)
        values = np.unique(np.round(np.asarray(got), 5))
        expect(values, [0.0, 3 * factor], f"where all of x is 3, the values in {what}")
    for shape in ((50,), (3, 40, 5)):
        expect_shape(dropout(np.ones(shape), 0.5, _drawn()), shape, f"dropout of x of shape {shape}")


@dropping.check("as many are dropped as the rate says")
def _(dropout):
    for rate in (0.2, 0.75):
        gone = float((np.asarray(dropout(MANY, rate, _drawn())) == 0).mean())
        if abs(gone - rate) > 0.05:
            what = f"the share that dropout(x, {rate}, generator) drops"
            raise Wrong(f"{what} should be near {rate}; yours is {gone:.2f}.", what=what, got=round(gone, 1))


@dropping.check("each number has a fate of its own")
def _(dropout):
    kept = np.asarray(dropout(MANY, 0.5, _drawn())) != 0
    for axis, name in ((1, "row"), (0, "column")):
        share = kept.mean(axis=axis)
        if share.min() < 0.1 or share.max() > 0.9:
            what = f"of a {name} of {kept.shape[axis]} numbers, the share that is kept at rate 0.5"
            raise Wrong(
                f"{what}, should be near 0.5; yours has {share.min():.1f} to {share.max():.1f}.",
                what=what,
                got=[float(share.min()), float(share.max())],
            )


@dropping.check("so has each text of a batch, and each neighbour")
def _(dropout):
    kept = np.asarray(dropout(np.ones((8, 30, 20)), 0.5, _drawn())) != 0
    for axis, name in enumerate(("texts of a batch", "positions", "columns")):
        slices = np.moveaxis(kept, axis, 0)
        agree = (slices[1:] == slices[:-1]).mean(axis=(1, 2))
        if agree.max() > 0.9:
            what = f"of two {name} side by side, the share of numbers that go or stay alike at rate 0.5"
            raise Wrong(f"{what}, should be near 0.5; yours has {agree.max():.1f}.", what=what, got=agree)


@dropping.check("chance comes from the generator: the same seed drops the same numbers, another one others")
def _(dropout):
    one, again, other = (np.asarray(dropout(MANY, 0.5, _drawn(seed))) for seed in (1, 1, 2))
    expect(bool((one == again).all()), True, "that the same seed drops the same numbers")
    expect(bool((one == other).all()), False, "that another seed drops the same numbers")


def _dropping(factor, stays=lambda g, x, rate: g.random(x.shape) >= rate, whenever=False):
    """A wrong dropout: `factor` of the rate for what stays, `stays` says what."""

    def wrong(x, rate, generator, training=True):
        if not (training or whenever) or rate == 0:
            return x
        return x * stays(generator, x, rate) * factor(rate)

    return wrong


def _rest(rate):
    return 1 / (1 - rate)


dropping.mistake("not divided", _dropping(lambda rate: 1.0))
dropping.mistake("times the rest", _dropping(lambda rate: 1 - rate))
dropping.mistake("by the rate", _dropping(lambda rate: 1 / rate))
dropping.mistake("upside down", _dropping(_rest, lambda g, x, rate: g.random(x.shape) < rate))
dropping.mistake("always", _dropping(_rest, whenever=True))
dropping.mistake("rows", _dropping(_rest, lambda g, x, rate: g.random((*x.shape[:-1], 1)) >= rate))
dropping.mistake("columns", _dropping(_rest, lambda g, x, rate: g.random(x.shape[-1]) >= rate))
dropping.mistake(
    "upside down",
    lambda x, rate, generator, training=True: (
        x * (generator.random(x.shape) < rate) / (1 - rate) if training else x
    ),
)


@dropping.mistake("by the rate")
@np.errstate(divide="ignore", invalid="ignore")
def _(x, rate, generator, training=True):
    return x * (generator.random(x.shape) >= rate) / rate if training else x


dropping.mistake("one for all", _dropping(_rest, lambda g, x, rate: g.random(x.shape[-2:]) >= rate))
dropping.mistake(
    "in pairs",
    _dropping(
        _rest,
        lambda g, x, rate: np.repeat(g.random(x.shape), 2, axis=-1)[..., : x.shape[-1]] >= rate,
    ),
)
dropping.mistake(
    "scaled in evaluation",
    lambda x, rate, generator, training=True: (
        x * (generator.random(x.shape) >= rate) if training else x * (1 - rate)
    ),
)
dropping.mistake(
    "own seed", _dropping(_rest, lambda g, x, rate: np.random.default_rng(0).random(x.shape) >= rate)
)
dropping.mistake(
    "no seed", _dropping(_rest, lambda g, x, rate: np.random.default_rng().random(x.shape) >= rate)
)


# 5 · Parameters of one block

SIZE = ("attention", "feedforward", "norms", "total")


def one_block(attention_bias: bool) -> tuple[int, int, int, int]:
    """d_model 512, 8 heads, d_ff 2048: the parameters of attention, feed-forward, norms, and all."""
    D, F = 512, 2048
    attention = 4 * D * D + (4 * D if attention_bias else 0)
    feedforward = D * F + F + F * D + D
    norms = 2 * 2 * D
    return attention, feedforward, norms, attention + feedforward + norms


paper = exercise("block.one_block", one_block, parts=SIZE)

# By hand: 4 · 512² = 1,048,576; 4 · 512 = 2,048; 2 · 512 · 2048 = 2,097,152, and 2048 + 512; 2 · 1024
paper.case(
    "attention, where its matrices have biases", True, want=1_050_624, part="attention",
    being="4 · 512² and 4 · 512",
)  # fmt: skip
paper.case(
    "the feed-forward network", True, want=2_099_712, part="feedforward", being="2 · 512 · 2048, 2048 and 512"
)
paper.case("two norms", True, want=2_048, part="norms", being="a gain and a bias of 512, twice")
paper.case("all of it: 12D² + 13D", True, want=3_152_384, part="total")
paper.case("without biases in attention: 12D² + 9D", False, want=(1_048_576, 2_099_712, 2_048, 3_150_336))


def _counted(attention=lambda D, b: 4 * D * D + 4 * D * b, feed=lambda D, F: 2 * D * F + F + D, norms=4):
    """A wrong count of the block with these sizes."""

    def wrong(attention_bias):
        parts = attention(512, int(attention_bias)), feed(512, 2048), norms * 512
        return (*parts, sum(parts))

    return wrong


paper.mistake(
    "sum", lambda attention_bias: (*one_block(attention_bias)[:3], sum(one_block(attention_bias)[:2]))
)
paper.mistake("for each head", _counted(lambda D, b: 8 * 4 * D * D + 4 * D * b))
paper.mistake("no W_o", _counted(lambda D, b: 3 * D * D + 3 * D * b))
paper.mistake("three biases", _counted(lambda D, b: 4 * D * D + 3 * D * b))
paper.mistake("no biases", _counted(lambda D, b: 4 * D * D))
paper.mistake("always biases", _counted(lambda D, b: 4 * D * D + 4 * D))
paper.mistake("one matrix", _counted(feed=lambda D, F: D * F + F + D))
paper.mistake("feed-forward's biases", _counted(feed=lambda D, F: 2 * D * F))
paper.mistake("feed-forward's biases", _counted(feed=lambda D, F: 2 * D * F + F))
paper.mistake("feed-forward's biases", _counted(feed=lambda D, F: 2 * D * F + 2 * F))
paper.mistake("feed-forward's biases", _counted(feed=lambda D, F: 2 * D * F + 2 * D))
paper.mistake("one norm", _counted(norms=2))
paper.mistake("gains alone", _counted(norms=1))
paper.mistake("matrices alone", lambda attention_bias: (*one_block(attention_bias)[:3], 12 * 512**2))


# 6 · Any block


def block_parameters(
    d_model: int,
    d_ff: int,
    attention_bias: bool = True,
    feedforward_bias: bool = True,
    gated: bool = False,
    rms: bool = False,
) -> int:
    """The parameters of a block of these sizes and choices."""
    D, F, n_into = d_model, d_ff, 2 if gated else 1
    attention = 4 * D * D + (4 * D if attention_bias else 0)
    feedforward = (n_into + 1) * D * F + (n_into * F + D if feedforward_bias else 0)
    return attention + feedforward + 2 * (D if rms else 2 * D)


counting = exercise("block.block_parameters", block_parameters)

counting.case("GPT-2 small's, 12D² + 13D", 768, 3072, want=7_087_872)
counting.case("228: width 4, no biases in attention", 4, 16, attention_bias=False, want=228)
counting.case("a d_ff that is not 4D", 6, 10, want=168 + 136 + 24)
counting.also(6, 10, False, False, want=144 + 120 + 24)
counting.case("a gate: a third matrix, with a bias of its own", 6, 10, gated=True, want=168 + 206 + 24)
counting.case("RMSNorm has a gain and no bias", 6, 10, rms=True, want=168 + 136 + 12)
counting.case(
    "LLaMA-2 7B's: a gate, RMSNorm, no biases", 4096, 11_008,
    attention_bias=False, feedforward_bias=False, gated=True, rms=True, want=202_383_360,
)  # fmt: skip


def _block_counted(
    attention=lambda D, b: 4 * D * D + 4 * D * b,
    feed=lambda D, F, b, n: (n + 1) * D * F + (n * F + D) * b,
    norms=lambda D, rms: 2 * D if rms else 4 * D,
):
    """A wrong count of any block."""

    def wrong(d_model, d_ff, attention_bias=True, feedforward_bias=True, gated=False, rms=False):
        parts = feed(d_model, d_ff, int(feedforward_bias), 2 if gated else 1)
        return attention(d_model, int(attention_bias)) + parts + norms(d_model, rms)

    return wrong


counting.mistake("4D", _block_counted(feed=lambda D, F, b, n: (n + 1) * D * 4 * D + (n * 4 * D + D) * b))
counting.mistake("4D's bias", _block_counted(feed=lambda D, F, b, n: (n + 1) * D * F + (n * 4 * D + D) * b))
counting.mistake("no gate", _block_counted(feed=lambda D, F, b, n: 2 * D * F + (F + D) * b))
counting.mistake("gate's bias", _block_counted(feed=lambda D, F, b, n: (n + 1) * D * F + (F + D) * b))
counting.mistake("down's bias", _block_counted(feed=lambda D, F, b, n: (n + 1) * D * F + n * F * b))
counting.mistake("always biases", _block_counted(feed=lambda D, F, b, n: (n + 1) * D * F + n * F + D))
counting.mistake("always biases", _block_counted(lambda D, b: 4 * D * D + 4 * D))
counting.mistake("no W_o", _block_counted(lambda D, b: 3 * D * D + 3 * D * b))
counting.mistake("no W_o", _block_counted(lambda D, b: 3 * D * D + 4 * D * b))
counting.mistake("three biases", _block_counted(lambda D, b: 4 * D * D + 3 * D * b))
counting.mistake("no RMSNorm", _block_counted(norms=lambda D, rms: 0 if rms else 4 * D))
counting.mistake("one norm", _block_counted(norms=lambda D, rms: D if rms else 2 * D))
counting.mistake("RMSNorm's bias", _block_counted(norms=lambda D, rms: 4 * D))
counting.mistake("gains alone", _block_counted(norms=lambda D, rms: 2 * D))


# 7 · A head taken out


def without_head(W_o: Float[np.ndarray, "D D"], head: int, n_heads: int) -> Float[np.ndarray, "D D"]:
    """W_o without what this head has to say: its K rows are zero."""
    K = len(W_o) // n_heads
    silenced = np.array(W_o)
    silenced[head * K : (head + 1) * K] = 0
    return silenced


silence = exercise("block.without_head", without_head, axes="D D")

_W = np.arange(1.0, 17).reshape(4, 4)
silence.case(
    "of two heads, head 0: the first two rows",
    _W, 0, 2, want=[[0.0, 0, 0, 0], [0, 0, 0, 0], [9, 10, 11, 12], [13, 14, 15, 16]],
)  # fmt: skip
silence.case(
    "the last of two heads", _W, 1, 2, want=[[1.0, 2, 3, 4], [5, 6, 7, 8], [0, 0, 0, 0], [0, 0, 0, 0]]
)
_W = numbers(6, 6, seed=7)
silence.case("of three heads, the middle one", _W, 1, 3, want=[*_W[:2], *np.zeros((2, 6)), *_W[4:]])
silence.case("a single head: nothing is left", _W, 0, 1, want=np.zeros((6, 6)))


@silence.check("what all heads write, less what is left, is what this head writes")
def _(without_head):
    x, w, n_heads, head = numbers(4, 6, seed=8), block_weights(6, 8, seed=7), 3, 2
    W_q, W_k, W_v, W_o = (w[f"attention.{name}.weight"] for name in ("W_q", "W_k", "W_v", "W_o"))
    alone = np.zeros_like(W_o)
    alone[4:6] = W_o[4:6]
    silenced = np.asarray(without_head(W_o, head, n_heads), dtype=float)
    expect_shape(silenced, (6, 6), "without_head(W_o, 2, 3)", axes="D D")
    written = head_by_head(x, W_q, W_k, W_v, W_o, n_heads)
    expect(
        written - head_by_head(x, W_q, W_k, W_v, silenced, n_heads),
        head_by_head(x, W_q, W_k, W_v, alone, n_heads),
        "what head 2 of 3 writes",
        axes="T D",
    )


def _zeroed(at):
    """A wrong answer: zeros at these places, which follow from D, the head and the number of heads."""

    def wrong(W_o, head, n_heads):
        silenced = np.array(W_o)
        silenced[at(len(W_o), head, n_heads)] = 0
        return silenced

    return wrong


def _run(D, head, n_heads):
    return slice(head * (D // n_heads), (head + 1) * (D // n_heads))


silence.mistake("columns", _zeroed(lambda D, h, H: (slice(None), _run(D, h, H))))
silence.mistake("in turns", _zeroed(lambda D, h, H: slice(h, None, H)))
silence.mistake("one row", _zeroed(lambda D, h, H: h))
silence.mistake("n_heads rows", _zeroed(lambda D, h, H: slice(h * H, (h + 1) * H)))
silence.mistake("from 1", _zeroed(lambda D, h, H: _run(D, h - 1, H) if h else slice(D, D)))
silence.mistake("the others", lambda W, h, H: W - without_head(W, h, H))
silence.mistake("rescaled", lambda W, h, H: without_head(W, h, H) * (H / max(H - 1, 1)))
silence.mistake("removed", lambda W, h, H: np.delete(W, np.arange(len(W))[_run(len(W), h, H)], axis=0))


# 8 · Worth together


def interaction(whole: float, alone: Sequence[float], together: float) -> float:
    """Returns how much more is lost without several parts together than the sum of what is lost without each."""
    return (together - whole) - sum(loss - whole for loss in alone)


both = exercise("block.interaction", interaction)

both.case(
    "each part costs 0.25 alone, both 1.0: half a nat more than the sum",
    1.5, [1.75, 1.75], 2.5, want=0.5,
)  # fmt: skip
both.case("0.5 and 0.25 alone, 0.75 together: nothing more", 2.0, [2.5, 2.25], 2.75, want=0.0)
both.case("less than the sum: negative", 1.0, [1.5, 2.0], 2.25, want=-0.25)
both.case("four parts", 1.5, [1.75, 1.625, 2.0, 1.5], 3.0, want=0.625)
both.also(1.5, [2.25], 2.25, want=0.0)

both.mistake("losses", lambda whole, alone, together: together - sum(alone))
both.mistake("sign", lambda whole, alone, together: -interaction(whole, alone, together))
both.mistake("rise", lambda whole, alone, together: together - whole)
both.mistake("size", lambda *losses: abs(interaction(*losses)))
both.mistake("differences", lambda whole, alone, together: together - whole - sum(alone))
both.mistake("ratio", lambda whole, alone, together: (together - whole) / sum(a - whole for a in alone))
both.mistake(
    "mean", lambda whole, alone, together: together - whole - sum(a - whole for a in alone) / len(alone)
)
both.mistake("two parts", lambda whole, alone, together: interaction(whole, alone[:2], together))


# 9 · What is wrong with it?

KINDS = {
    "right": _as_it_is,
    "no residual": _replaced,
    "post-norm": _after,
    "no norm": _unnormed(False, False),
    "parallel": _side_by_side,
}
"""What `diagnose` may be handed, and what it says then."""


def diagnose(
    block: Callable[..., np.ndarray], x: Float[np.ndarray, "T D"], weights: Weights, n_heads: int
) -> str:
    """Returns which of five blocks it is, from its output for weights and streams of our choice."""
    D = x.shape[1]
    zeros = {name: np.zeros_like(value) for name, value in weights.items()}
    silent = zeros | {f"{name}.weight": np.ones(D) for name in ("norm_attention", "norm_feedforward")}
    out = block(x, silent, n_heads)
    if not np.allclose(out, x):
        return "no residual" if np.allclose(out, 0) else "post-norm"
    attends = {name: weights[name] for name in weights if name.startswith(("attention", "norm"))}
    written = [block(by * x, silent | attends, n_heads) - by * x for by in (100, 200)]
    if not np.allclose(*written, rtol=1e-3, atol=1e-3):
        return "no norm"
    feeds = {name: weights[name] for name in weights if name.startswith(("feedforward", "norm"))}
    apart = [block(x, silent | some, n_heads) - x for some in (attends, feeds)]
    return "parallel" if np.allclose(block(x, weights, n_heads) - x, sum(apart)) else "right"


clinic = exercise("block.diagnose", diagnose)


def _patients(kind: str) -> None:
    """The next check: this kind of block is recognised, in two sizes."""

    @clinic.check(f"a block of the kind {kind!r}")
    def _(diagnose):
        for T, D, F, n_heads in ((5, 6, 10, 2), (3, 8, 12, 4)):
            said = diagnose(_of(KINDS[kind]), numbers(T, D, seed=D), block_weights(D, F, seed=9), n_heads)
            expect(said, kind, f"diagnose of a block of the kind {kind!r}")


for _kind in KINDS:
    _patients(_kind)


def _first_that(*tests):
    """A wrong diagnosis: the name of the first test that answers, or "right"."""

    def wrong(block, x, weights, n_heads):
        for name, test in tests:
            if test(lambda w, x=x: np.asarray(block(x, w, n_heads)), x, weights):
                return name
        return "right"

    return wrong


def _silent(weights, *, but=()):
    names = [n for n in (*ATTENTION_WRITES, *FEEDFORWARD_WRITES) if n not in but]
    return _quiet(weights, *names)


def _is_gone(run, x, weights):
    return np.allclose(run(_silent(weights)), 0)


def _is_changed(run, x, weights):
    return not np.allclose(run(_silent(weights)), x)


clinic.mistake("always right", _first_that())
clinic.mistake("nothing written", _first_that(("no residual", _is_gone), ("post-norm", _is_changed)))
clinic.mistake(
    "bias forgotten",
    _first_that(
        (
            "no residual",
            lambda run, x, w: not np.allclose(run(_silent(w, but=("feedforward.W_down.bias",))), x),
        ),
    ),
)
clinic.mistake(
    "bias forgotten",
    _first_that(
        (
            "post-norm",
            lambda run, x, w: not np.allclose(run(_silent(w, but=("feedforward.W_down.bias",))), x),
        ),
    ),
)
clinic.mistake("all not right", lambda *args: diagnose(*args).replace("post-norm", "no residual"))
clinic.mistake(
    "output grows",
    _first_that(
        ("no residual", _is_gone),
        ("post-norm", _is_changed),
        ("no norm", lambda run, x, w: not np.allclose(run(w, 100 * x), run(w, 200 * x))),
    ),
)
clinic.mistake(
    "output grows",
    _first_that(
        ("no residual", _is_gone),
        ("post-norm", _is_changed),
        ("no norm", lambda run, x, w: not np.allclose(run(w, x) - x, run(w, 2 * x) - 2 * x)),
    ),
)
clinic.mistake("other name", lambda *args: diagnose(*args).replace(" ", "_"))
clinic.mistake("never parallel", lambda *args: diagnose(*args).replace("parallel", "right"))
clinic.mistake("number", lambda *args: list(KINDS).index(diagnose(*args)))
