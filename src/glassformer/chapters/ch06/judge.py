"""Judges the exercises of chapter 06, "The feed-forward network"; their prose is in exercises.toml.

For each: the reference, where the package has none; then its checks, in teaching order; then its classic mistakes.
What is right comes from `math`'s own functions, one number at a time, and from sums worked by hand. The axes:
B batch, T positions, D d_model, F d_ff, V vocabulary.
"""
# ruff: noqa: ANN001, ANN002, ANN202 - a check is read by its title, a mistake by its sentence

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import expect
from glassformer.exercises.material import numbers
from glassformer.scratch.feedforward import gelu, gelu_tanh, relu, silu
from glassformer.shapes import Float, Int

# What is right, a number at a time


def _each(f: Callable[[float], float], x: Any) -> np.ndarray:
    """A function of one number, of every number of an array."""
    return np.array([f(float(number)) for number in np.ravel(x)]).reshape(np.shape(x))


def _gelu(x: float) -> float:
    return x * (1 + math.erf(x / math.sqrt(2))) / 2


def _gelu_tanh(x: float) -> float:
    return x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2


def _silu(x: float) -> float:
    return x / (1 + math.exp(-x)) if x > -700 else 0.0


def _product(x: Any, W: Any, b: Any = None) -> np.ndarray:
    """X @ W + b for rows x: every number is a sum written out."""
    added = [0.0] * len(W[0]) if b is None else b
    rows = np.reshape(x, (-1, len(W)))
    made = [
        [
            math.fsum(a * w for a, w in zip(row, column, strict=True)) + c
            for column, c in zip(zip(*W, strict=True), added, strict=True)
        ]
        for row in rows
    ]
    return np.reshape(made, (*np.shape(x)[:-1], len(added)))


def _network(x: Any, W_up: Any, b_up: Any, W_down: Any, b_down: Any) -> np.ndarray:
    return _product(_each(_gelu, _product(x, W_up, b_up)), W_down, b_down)


def _gated(x: Any, W_gate: Any, W_up: Any, W_down: Any) -> np.ndarray:
    return _product(_each(_silu, _product(x, W_gate)) * _product(x, W_up), W_down)


# What mistakes are made of


def _sigmoid(x):
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


def _cdf(x):
    return _each(lambda number: (1 + math.erf(number / math.sqrt(2))) / 2, x)


ROOT = math.sqrt(2 / math.pi)


def _tanh_form(x, *, inner=lambda x: x + 0.044715 * x**3, root=ROOT, half=0.5):
    return half * x * (1 + np.tanh(root * inner(x)))


# 1 · ReLU

cut = exercise("feedforward.relu", relu, axes="")

cut.case(
    "negative becomes 0, positive stays", np.array([-2.0, -0.5, 0.0, 0.5, 3.0]), want=[0, 0, 0, 0.5, 3.0]
)
_x = numbers(3, 4)
cut.case("each number of a table by itself", _x, want=[[max(0.0, n) for n in row] for row in _x])
_x = numbers(2, 3, 2, seed=1) - 5
cut.case("all of them negative: nothing but zeros", _x, want=np.zeros((2, 3, 2)))

cut.mistake("absolute", np.abs)
cut.mistake("step", lambda x: (x > 0) * 1.0)
cut.mistake("other half", lambda x: np.minimum(x, 0))
cut.mistake("capped", lambda x: np.clip(x, 0, 1))
cut.mistake("leaky", lambda x: np.where(x > 0, x, 0.01 * x))
cut.mistake("dropped", lambda x: x[x > 0])
cut.mistake("all or nothing", lambda x: np.maximum(x.max(), 0))


# 2 · GELU

smooth = exercise("feedforward.gelu", gelu, axes="")

smooth.case("at 0 it is 0", np.array([0.0]), want=[0.0])
smooth.case(
    "at 1 it is Φ(1), and at −1 that much less than 1, negative",
    np.array([1.0, -1.0]), want=[_gelu(1.0), _gelu(1.0) - 1], being="0.8413 and −0.1587",
)  # fmt: skip
smooth.case(
    "exact, not its neighbour with the tanh",
    np.array([-2.7, -1.9]), want=[_gelu(-2.7), _gelu(-1.9)], advice="erf is in scipy.special, and in math.",
)  # fmt: skip
_x = 2 * numbers(3, 4)
smooth.case("each number of a table by itself", _x, want=_each(_gelu, _x))
_x = 2 * numbers(2, 3, 4, seed=1)
smooth.also(_x, want=_each(_gelu, _x))

smooth.mistake("share alone", _cdf)
smooth.mistake("no root of two", lambda x: x * (1 + _each(math.erf, x)) / 2)
smooth.mistake("no half", lambda x: x * (1 + _each(math.erf, x / math.sqrt(2))))
smooth.mistake("no one", lambda x: x * _each(math.erf, x / math.sqrt(2)) / 2)
smooth.mistake("times root", lambda x: x * (1 + _each(math.erf, x * math.sqrt(2))) / 2)
smooth.mistake("tanh form", _tanh_form)
smooth.mistake("sigmoid", lambda x: x * _sigmoid(1.702 * x))
smooth.mistake("silu", lambda x: x * _sigmoid(x))
smooth.mistake("density", lambda x: x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi))
smooth.mistake("relu", lambda x: np.maximum(x, 0))


# 3 · GELU with tanh

near = exercise("feedforward.gelu_tanh", gelu_tanh, axes="")

near.case(
    "by hand: at 1 the tanh is of 0.8336",
    np.array([1.0, 0.0]), want=[_gelu_tanh(1.0), 0.0], being="0.8412 and 0",
)  # fmt: skip
_x = np.array([-3.0, -2.7, -1.5, -0.3, 0.6, 2.2])
near.case("as GPT-2 has it", _x, want=_each(_gelu_tanh, _x))
_x = 2 * numbers(2, 3, 4)
near.case("each number of a table by itself", _x, want=_each(_gelu_tanh, _x))


@near.check("float32 comes in, float32 goes out")
def _(gelu_tanh):
    got = np.asarray(gelu_tanh(np.array([-1.0, 0.5, 2.0], dtype=np.float32)))
    fits = np.array_equal(got, got.astype(np.float32))  # a list of numbers has no dtype
    expect("float32" if fits else str(got.dtype), "float32", "the dtype of gelu_tanh of a float32 array")


near.mistake("exact", lambda x: (x * _cdf(x)).astype(x.dtype))
near.mistake("no cube", lambda x: _tanh_form(x, inner=lambda x: x))
near.mistake("square", lambda x: _tanh_form(x, inner=lambda x: x + 0.044715 * x**2))
near.mistake("no root", lambda x: _tanh_form(x, root=2 / math.pi))
near.mistake("root of the half", lambda x: _tanh_form(x, root=math.sqrt(math.pi / 2)))
near.mistake("all times the constant", lambda x: _tanh_form(x, inner=lambda x: 0.044715 * (x + x**3)))
near.mistake("no half", lambda x: _tanh_form(x, half=1.0))
near.mistake("sigmoid", lambda x: x * _sigmoid(1.702 * x))
near.mistake("bracket", lambda x: x * (1 + np.tanh(ROOT * x + 0.044715 * x**3)) / 2)
near.mistake("no one", lambda x: x * np.tanh(ROOT * (x + 0.044715 * x**3)) / 2)
near.mistake("root of two", lambda x: _tanh_form(x, root=math.sqrt(2) / math.pi))
near.mistake("constant slipped", lambda x: _tanh_form(x, inner=lambda x: x + 0.44715 * x**3))
near.mistake("constant cubed", lambda x: _tanh_form(x, inner=lambda x: x + (0.044715 * x) ** 3))
near.mistake("widened", lambda x: _tanh_form(x, root=np.sqrt(2 / np.pi)))


# 4 · SiLU

swish = exercise("feedforward.silu", silu, axes="")

swish.case(
    "at 0 it is 0; at ln 3 the sigmoid is 3/4",
    np.array([0.0, math.log(3), -math.log(3)]), want=[0, 0.75 * math.log(3), -0.25 * math.log(3)],
)  # fmt: skip
_x = 2 * numbers(2, 3, 4)
swish.case("each number of a table by itself", _x, want=_each(_silu, _x))
swish.case("large numbers do not overflow", np.array([1000.0, -1000.0]), want=[1000.0, 0.0])

swish.mistake("sigmoid alone", _sigmoid)
swish.mistake("upside down", lambda x: x * _sigmoid(-x))
swish.mistake("times 1.702", lambda x: x * _sigmoid(1.702 * x))
swish.mistake("gelu", lambda x: x * _cdf(x))
swish.mistake("tanh", lambda x: x * np.tanh(x))
swish.mistake("relu", lambda x: np.maximum(x, 0))


@swish.mistake("overflow")
def _(x):
    with np.errstate(all="ignore"):
        return x * np.exp(x) / (1 + np.exp(x))


# 5 · The network


def feed_forward(
    x: Float[np.ndarray, "*B D"],
    W_up: Float[np.ndarray, "D F"],
    b_up: Float[np.ndarray, " F"],
    W_down: Float[np.ndarray, "F D"],
    b_down: Float[np.ndarray, " D"],
) -> Float[np.ndarray, "*B D"]:
    """Widen, bend with GELU, bring back."""
    return gelu(x @ W_up + b_up) @ W_down + b_down


wide = exercise("feedforward.feed_forward", feed_forward, built_on=(gelu,), axes="T D")


def _layer(D: int, F: int, seed: int = 0) -> tuple[Any, Any, Any, Any]:
    """W_up, b_up, W_down, b_down."""
    return (
        numbers(D, F, seed=seed),
        numbers(F, seed=seed + 1),
        numbers(F, D, seed=seed + 2),
        numbers(D, seed=seed + 3),
    )


wide.shape("the shape of x", numbers(5, 3), *_layer(3, 7), want=(5, 3))
_eye, _none = np.eye(2), np.zeros(2)
wide.case(
    "with matrices that change nothing, it is GELU",
    np.array([[-2.7, -0.5], [0.0, 1.0]]), _eye, _none, _eye, _none,
    want=[[_gelu(-2.7), _gelu(-0.5)], [0.0, _gelu(1.0)]],
)  # fmt: skip
wide.also(np.array([[-2.7, -1.9]]), _eye, _none, _eye, _none, want=[[_gelu(-2.7), _gelu(-1.9)]])
_zero, _given = np.zeros((1, 3)), _layer(3, 4, seed=5)
wide.case(
    "of a row of zeros the biases are left: b_up is bent, b_down is not",
    _zero, *_given, want=_network(_zero, *_given),
)  # fmt: skip
_x, _given = numbers(5, 3, seed=9), _layer(3, 7, seed=10)
wide.case("random vectors", _x, *_given, want=_network(_x, *_given))
_x = numbers(2, 4, 3, seed=14)
wide.case("any axes in front: a batch", _x, *_given, want=_network(_x, *_given), axes="B T D")
_x = numbers(3, seed=15)
wide.also(_x, *_given, want=_network(_x, *_given), axes="D")

wide.mistake("no bend", lambda x, W_up, b_up, W_down, b_down: (x @ W_up + b_up) @ W_down + b_down)
wide.mistake("bend last", lambda x, W_up, b_up, W_down, b_down: gelu((x @ W_up + b_up) @ W_down + b_down))
wide.mistake("bend first", lambda x, W_up, b_up, W_down, b_down: (gelu(x) @ W_up + b_up) @ W_down + b_down)
wide.mistake(
    "bias after the bend", lambda x, W_up, b_up, W_down, b_down: (gelu(x @ W_up) + b_up) @ W_down + b_down
)
wide.mistake("twice", lambda x, W_up, b_up, W_down, b_down: gelu(gelu(x @ W_up + b_up) @ W_down + b_down))
wide.mistake("no b_down", lambda x, W_up, b_up, W_down, b_down: gelu(x @ W_up + b_up) @ W_down)
wide.mistake("no b_up", lambda x, W_up, b_up, W_down, b_down: gelu(x @ W_up) @ W_down + b_down)
wide.mistake("relu", lambda x, W_up, b_up, W_down, b_down: np.maximum(x @ W_up + b_up, 0) @ W_down + b_down)
wide.mistake("tanh form", lambda x, W_up, b_up, W_down, b_down: gelu_tanh(x @ W_up + b_up) @ W_down + b_down)
wide.mistake("silu", lambda x, W_up, b_up, W_down, b_down: silu(x @ W_up + b_up) @ W_down + b_down)
wide.mistake("added to x", lambda x, *layer: x + feed_forward(x, *layer))
wide.mistake("neurons", lambda x, W_up, b_up, W_down, b_down: gelu(x @ W_up + b_up))


# 6 · With a gate


def swiglu(
    x: Float[np.ndarray, "*B D"],
    W_gate: Float[np.ndarray, "D F"],
    W_up: Float[np.ndarray, "D F"],
    W_down: Float[np.ndarray, "F D"],
) -> Float[np.ndarray, "*B D"]:
    """Two opinions, multiplied, and brought back."""
    return (silu(x @ W_gate) * (x @ W_up)) @ W_down


gate = exercise("feedforward.swiglu", swiglu, built_on=(silu,), axes="T D")


def _three(D: int, F: int, seed: int = 0) -> tuple[Any, Any, Any]:
    """W_gate, W_up, W_down."""
    return numbers(D, F, seed=seed), numbers(D, F, seed=seed + 1), numbers(F, D, seed=seed + 2)


gate.shape("the shape of x", numbers(5, 3), *_three(3, 7), want=(5, 3))
_one = np.array([[1.0]])
gate.case(
    "one number: the gate sees ln 3, the other twice that",
    np.array([[math.log(3)]]), _one, 2 * _one, _one, want=[[0.75 * math.log(3) * 2 * math.log(3)]],
)  # fmt: skip
gate.case(
    "a closed gate lets next to nothing of the other through",
    np.array([[-30.0]]), _one, 100 * _one, _one, want=[[_silu(-30.0) * -3000.0]],
)  # fmt: skip
_x, _given = numbers(5, 3, seed=3), _three(3, 7, seed=4)
gate.case("random vectors", _x, *_given, want=_gated(_x, *_given))
_x = numbers(2, 4, 3, seed=7)
gate.case("any axes in front: a batch", _x, *_given, want=_gated(_x, *_given), axes="B T D")
_x = numbers(3, seed=8)
gate.also(_x, *_given, want=_gated(_x, *_given), axes="D")

gate.mistake("swapped", lambda x, W_gate, W_up, W_down: (silu(x @ W_up) * (x @ W_gate)) @ W_down)
gate.mistake("both bent", lambda x, W_gate, W_up, W_down: (silu(x @ W_gate) * silu(x @ W_up)) @ W_down)
gate.mistake("bent product", lambda x, W_gate, W_up, W_down: silu((x @ W_gate) * (x @ W_up)) @ W_down)
gate.mistake("sum", lambda x, W_gate, W_up, W_down: (silu(x @ W_gate) + x @ W_up) @ W_down)
gate.mistake("no bend", lambda x, W_gate, W_up, W_down: ((x @ W_gate) * (x @ W_up)) @ W_down)
gate.mistake("sigmoid", lambda x, W_gate, W_up, W_down: (_sigmoid(x @ W_gate) * (x @ W_up)) @ W_down)
gate.mistake("gelu", lambda x, W_gate, W_up, W_down: (gelu(x @ W_gate) * (x @ W_up)) @ W_down)
gate.mistake("no up", lambda x, W_gate, W_up, W_down: silu(x @ W_gate) @ W_down)
gate.mistake("not down", lambda x, W_gate, W_up, W_down: silu(x @ W_gate) * (x @ W_up))


# 7 · Eight thirds


def hidden_width(d_model: int, multiple: int = 1) -> int:
    """The smallest multiple that is not below 8/3 of d_model."""
    return -(-8 * d_model // (3 * multiple)) * multiple


thirds = exercise("feedforward.hidden_width", hidden_width)

thirds.case("768: 8/3 of it is 2,048, a whole number", 768, want=2048)
thirds.case("128, by eights: 341.33 becomes 344, as in the book's model", 128, 8, want=344)
thirds.case("4,096 and 5,120, by 256, as in LLaMA-2", 4096, 256, want=11_008)
thirds.also(5120, 256, want=13_824)
thirds.case("what is a multiple already stays", 768, 64, want=2048)
thirds.also(96, 256, want=256)
thirds.case("up, never down, by one too", 512, 1, want=1366)
thirds.also(512, want=1366)
thirds.also(64, 4, want=172)

thirds.mistake("four times", lambda d_model, multiple=1: 4 * d_model)
thirds.mistake("not rounded", lambda d_model, multiple=1: int(8 * d_model / 3))
thirds.mistake("not by multiple", lambda d_model, multiple=1: -(-8 * d_model // 3))
thirds.mistake("down", lambda d_model, multiple=1: int(8 * d_model / 3) // multiple * multiple)
thirds.mistake("nearest", lambda d_model, multiple=1: round(8 * d_model / 3 / multiple) * multiple)
thirds.mistake("always one more", lambda d_model, multiple=1: (8 * d_model // 3 // multiple + 1) * multiple)
thirds.mistake("cut off first", lambda d_model, multiple=1: -(-(8 * d_model // 3) // multiple) * multiple)
thirds.mistake("two thirds", lambda d_model, multiple=1: math.ceil(2 * d_model / 3 / multiple) * multiple)
thirds.mistake("three eighths", lambda d_model, multiple=1: math.ceil(3 * d_model / 8 / multiple) * multiple)


# 8 · Count


def count(d_model: int, d_ff: int, gated: bool = False, bias: bool = True) -> int:
    """The parameters of a feed-forward network."""
    wide = 2 if gated else 1
    return (wide + 1) * d_model * d_ff + bias * (wide * d_ff + d_model)


size = exercise("feedforward.count", count)

size.case("two of 2 × 3, and biases of 3 and 2", 2, 3, want=17)
size.case("without biases", 2, 3, bias=False, want=12)
size.case("a gate is a third matrix", 4, 5, gated=True, bias=False, want=60)
size.case("and has a bias of its own", 4, 5, gated=True, want=74)
size.case("a block of GPT-2 small", 768, 3072, want=4_722_432)
size.also(4096, 11_008, gated=True, bias=False, want=135_266_304)

size.mistake("one matrix", lambda D, F, gated=False, bias=True: count(D, F, gated, bias) - D * F)
size.mistake("biases forgotten", lambda D, F, gated=False, bias=True: count(D, F, gated, False))
size.mistake("biases always", lambda D, F, gated=False, bias=True: count(D, F, gated, True))
size.mistake("no gate", lambda D, F, gated=False, bias=True: count(D, F, False, bias))
size.mistake(
    "gate without bias", lambda D, F, gated=False, bias=True: count(D, F, gated, bias) - bias * gated * F
)
size.mistake(
    "biases alike", lambda D, F, gated=False, bias=True: count(D, F, gated, False) + bias * (2 + gated) * F
)
size.mistake(
    "all biases everywhere",
    lambda D, F, gated=False, bias=True: (2 + gated) * (D * F + bias * (D + F)),
)
size.mistake(
    "a number each", lambda D, F, gated=False, bias=True: count(D, F, gated, False) + bias * (2 + gated)
)
size.mistake("by the width alone", lambda D, F, gated=False, bias=True: (12 if gated else 8) * D * D)
size.mistake("b_down forgotten", lambda D, F, gated=False, bias=True: count(D, F, gated, bias) - bias * D)
size.mistake("four times", lambda D, F, gated=False, bias=True: count(D, 4 * D, gated, bias))


# 9 · The share of all


def share(d_model: int, n_layers: int, vocab_size: int, context_length: int) -> float:
    """Returns the fraction of all parameters of such a GPT-2 that is in its feed-forward networks."""
    D, L = d_model, n_layers
    feedforward = L * (8 * D * D + 5 * D)
    attention, norms = L * (4 * D * D + 4 * D), L * 4 * D
    return feedforward / (vocab_size * D + context_length * D + attention + feedforward + norms + 2 * D)


part = exercise("feedforward.share", share)

part.case(
    "one block of width 1, with 11 tokens and 7 places: 13 of 11 + 7 + 8 + 13 + 4 + 2",
    1, 1, 11, 7, want=13 / 45, being="13/45",
)  # fmt: skip
part.case("two blocks of width 2", 2, 2, 19, 9, want=84 / (38 + 18 + 48 + 84 + 16 + 4), being="84/208")
part.case(
    "GPT-2 small: less than half",
    768, 12, 50_257, 1024, want=56_669_184 / 124_439_808, being="56,669,184 of 124,439,808",
)  # fmt: skip
part.case("GPT-2 XL", 1600, 48, 50_257, 1024, want=983_424_000 / 1_557_611_200)


def _pieces(D, L, V, T):
    return {
        "tokens": V * D,
        "places": T * D,
        "attention": L * (4 * D * D + 4 * D),
        "own": L * (8 * D * D + 5 * D),
        "norms": L * 4 * D,
        "last norm": 2 * D,
    }


def _without(*names):
    def wrong(D, L, V, T):
        pieces = _pieces(D, L, V, T)
        return pieces["own"] / sum(n for name, n in pieces.items() if name not in names)

    return wrong


@part.mistake("head untied")
def _(D, L, V, T):
    pieces = _pieces(D, L, V, T)
    return pieces["own"] / (sum(pieces.values()) + V * D)


part.mistake("of a block", _without("tokens", "places", "last norm"))
part.mistake("of the matrices", _without("tokens", "places", "norms", "last norm"))
part.mistake("no tokens", _without("tokens"))
part.mistake("no places", _without("places"))
part.mistake("one block", lambda D, L, V, T: share(D, L, V, T) / L)
part.mistake("of the rest", lambda D, L, V, T: share(D, L, V, T) / (1 - share(D, L, V, T)))
part.mistake("per cent", lambda D, L, V, T: 100 * share(D, L, V, T))
part.mistake("the count", lambda D, L, V, T: _pieces(D, L, V, T)["own"])


def _counted(own=5, attention=4, norms=4, last=2):
    """Counts so many widths of biases and norms."""

    def wrong(D, L, V, T):
        network = L * (8 * D * D + own * D)
        return network / (D * (V + T) + L * (4 * D * D + (attention + norms) * D) + network + last * D)

    return wrong


part.mistake("biases of the network", _counted(own=0))
part.mistake("biases of attention", _counted(attention=0))
part.mistake("all biases", _counted(own=0, attention=0))
part.mistake("two of D", _counted(own=2))
part.mistake("both of F", _counted(own=8))
part.mistake("one norm", _counted(norms=2))
part.mistake("last norm", _counted(last=0))
part.mistake("norms", _counted(norms=0, last=0))
part.mistake("two thirds", lambda D, L, V, T: 2 / 3)


# 10 · Who looks sideways


def looks_sideways(f: Callable[[np.ndarray], np.ndarray], x: Float[np.ndarray, "T D"]) -> bool:
    """Returns whether a row of f(x) depends on another row of x."""
    before = np.asarray(f(x))
    for t in range(len(x)):
        changed = x.copy()
        changed[t] += np.random.default_rng(t).normal(size=x.shape[1])
        others = np.arange(len(x)) != t
        if not np.allclose(np.asarray(f(changed))[others], before[others]):
            return True
    return False


sideways = exercise("feedforward.looks_sideways", looks_sideways)

_rows = numbers(5, 3, seed=3)
_W = numbers(3, 3, seed=4)


def _only(row: int, x: np.ndarray) -> np.ndarray:
    """A column with a 1 in that row."""
    return (np.arange(len(x)) == row)[:, None]


def _said(what: str) -> dict[str, Any]:
    return {"what": f"looks_sideways, of {what},"}


sideways.case(
    "a feed-forward network does not",
    lambda x: np.maximum(x @ _W, 0) @ _W.T, _rows, want=False, **_said("a feed-forward network"),
)  # fmt: skip
sideways.case(
    "nor does a layer that says 1 whatever it reads",
    lambda x: 0 * x + 1, _rows, want=False, **_said("a layer that says 1 whatever it reads"),
)  # fmt: skip
sideways.case(
    "a mean over all rows does",
    lambda x: x + x.mean(axis=0),
    _rows,
    want=True,
    **_said("a mean over all rows"),
)
sideways.case(
    "rows that change places look sideways, though one row alone moves",
    lambda x: x[::-1], _rows, want=True, **_said("a layer that turns the rows round"),
)  # fmt: skip
sideways.also(lambda x: np.roll(x, 1, axis=0), _rows, want=True, **_said("a layer that hands rows on"))
sideways.case(
    "behind a norm, and at any feature",
    lambda x: x + (x - x.mean(axis=1, keepdims=True)).mean(axis=0), _rows, want=True,
    **_said("a mean over rows that were centred first"),
)  # fmt: skip
for _feature in range(3):
    sideways.also(
        lambda x, i=_feature: x + x[:, [i]].mean(axis=0), _rows, want=True,
        **_said("a layer that shares one feature alone"),
    )  # fmt: skip
sideways.case(
    "one look is enough, forwards or backwards",
    lambda x: np.cumsum(x, axis=0), _rows, want=True, **_said("a sum of all rows so far"),
)  # fmt: skip
sideways.also(
    lambda x: np.cumsum(x[::-1], axis=0)[::-1], _rows, want=True, **_said("a sum of all rows from here on")
)
for _row in range(1, 5):
    sideways.also(
        lambda x, t=_row: x + _only(0, x) * x[t],
        _rows,
        want=True,
        **_said("a layer whose row 0 sees another"),
    )
sideways.also(
    lambda x: x + _only(2, x) * x[3 % len(x)], _rows, want=True, **_said("a layer whose row 2 sees row 3")
)
sideways.also(
    lambda x: np.tanh(x) + _only(4, x) * x[1 % len(x)], _rows, want=True,
    **_said("a layer whose last row sees row 1"),
)  # fmt: skip
sideways.case(
    "a layer that treats each place differently does not",
    lambda x: x * np.arange(1, len(x) + 1)[:, None], _rows, want=False,
    **_said("a layer that multiplies row t by t + 1"),
)  # fmt: skip
sideways.case(
    "one row has no others", lambda x: x + x.mean(axis=0), _rows[:1], want=False, **_said("one row")
)


def _touched(x, t):
    changed = np.array(x, dtype=float)
    changed[t] += np.random.default_rng(9).normal(size=changed[t].shape)
    return changed


def _moves(f, x, t, rows):
    return not np.allclose(np.asarray(f(_touched(x, t)))[rows], np.asarray(f(x))[rows])


def _rows_moved(f, x, t):
    return abs(np.asarray(f(_touched(x, t))) - np.asarray(f(x))).max(axis=1) > 1e-9


def _sees(f, x, t, by):
    """Returns whether another row changes when `by` is added to row t."""
    changed = np.array(x, dtype=float)
    changed[t] += by
    others = np.arange(len(x)) != t
    return not np.allclose(np.asarray(f(changed))[others], np.asarray(f(x))[others])


@sideways.mistake("shuffles")
def _(f, x):
    order = np.arange(len(x))[::-1]
    return bool(not np.allclose(f(x[order]), np.asarray(f(x))[order]))


@sideways.mistake("row by row")
def _(f, x):
    alone = np.concatenate([np.asarray(f(x[[t]])) for t in range(len(x))])
    return bool(not np.allclose(alone, f(x)))


sideways.mistake("first row", lambda f, x: _moves(f, x, 0, slice(1, None)))
sideways.mistake("last row", lambda f, x: _moves(f, x, -1, slice(None, -1)))
sideways.mistake("its own row", lambda f, x: any(_moves(f, x, t, slice(None)) for t in range(len(x))))
sideways.mistake("too many rows", lambda f, x: any(_rows_moved(f, x, t).sum() > 1 for t in range(len(x))))
sideways.mistake("a row must move", lambda f, x: any(_rows_moved(f, x, t).sum() != 1 for t in range(len(x))))
sideways.mistake(
    "the same everywhere", lambda f, x: any(_sees(f, x, t, np.ones(x.shape[1])) for t in range(len(x)))
)
sideways.mistake(
    "one feature", lambda f, x: any(_sees(f, x, t, np.eye(x.shape[1])[0]) for t in range(len(x)))
)
sideways.mistake("earlier rows", lambda f, x: any(_moves(f, x, t, slice(t)) for t in range(len(x))))
sideways.mistake("later rows", lambda f, x: any(_moves(f, x, t, slice(t + 1, None)) for t in range(len(x))))
sideways.mistake(
    "some rows", lambda f, x: any(_sees(f, x, t, np.arange(1, 1 + x.shape[1])) for t in {0, 1, len(x) - 1})
)
sideways.mistake("neighbours", lambda f, x: any(_moves(f, x, t, [t - 1]) for t in range(1, len(x))))
sideways.mistake("the other way", lambda f, x: not looks_sideways(f, x))
sideways.mistake("by shape", lambda f, x: np.shape(f(x)) != np.shape(x))


# 11 · What a neuron promotes


def promoted(
    row: Float[np.ndarray, " D"],
    gain: Float[np.ndarray, " D"],
    head: Float[np.ndarray, "D V"],
    n: int,
    sign: int = 1,
) -> Int[np.ndarray, " n"]:
    """The n ids that a neuron with this row of W_down makes likelier, the strongest first."""
    return np.argsort(-sign * ((row * gain) @ head))[:n]


likelier = exercise("feedforward.promoted", promoted, axes="n")

_head = np.array([[1.0, 0, -1, 3, 2], [0, 2, 1, -1.5, 0.25]])
likelier.case(
    "a row that points along the first feature: the head's first row, sorted",
    np.array([1.0, 0]), np.ones(2), _head, 3, want=[3, 4, 0],
)  # fmt: skip
likelier.case(
    "the gain of the last norm comes between: it can change the order",
    np.array([1.0, 1.0]), np.array([0.1, 2.0]), _head, 2, want=[1, 2],
)  # fmt: skip
likelier.case(
    "a negative neuron promotes what its row suppresses",
    np.array([1.0, 0]), np.ones(2), _head, 2, sign=-1, want=[2, 1],
)  # fmt: skip
_r, _g, _h = numbers(4, seed=1), np.array([0.5, -1.5, 2.0, 1.0]), numbers(4, 40, seed=3)
_logits = [math.fsum(a * b * c for a, b, c in zip(_r, _g, column, strict=True)) for column in _h.T]
likelier.case(
    "random vectors; a gain may be negative",
    _r, _g, _h, 12, want=sorted(range(40), key=lambda i: -_logits[i])[:12],
)  # fmt: skip
likelier.also(_r, _g, _h, 40, want=sorted(range(40), key=lambda i: -_logits[i]))
_r, _h = numbers(3, seed=5), numbers(3, 3, seed=6)
_logits = [math.fsum(a * c for a, c in zip(_r, column, strict=True)) for column in _h.T]
likelier.case(
    "as many tokens as features: the head is (D, V)",
    _r, np.ones(3), _h, 3, want=sorted(range(3), key=lambda i: -_logits[i]),
)  # fmt: skip


def _ranked(logits=lambda row, gain, head: (row * gain) @ head, of=lambda logits, n, sign: None):
    def wrong(row, gain, head, n, sign=1):
        return of(logits(row, gain, head), n, sign)

    return wrong


def _best(logits, n, sign):
    return np.argsort(-sign * logits)[:n]


likelier.mistake("suppressed", _ranked(of=lambda logits, n, sign: np.argsort(sign * logits)[:n]))
likelier.mistake("weakest first", _ranked(of=lambda logits, n, sign: np.argsort(sign * logits)[-n:]))
likelier.mistake("no gain", _ranked(lambda row, gain, head: row @ head, _best))
likelier.mistake("divided by the gain", _ranked(lambda row, gain, head: (row / gain) @ head, _best))
likelier.mistake("no sign", _ranked(of=lambda logits, n, sign: np.argsort(-logits)[:n]))
likelier.mistake("by size", _ranked(of=lambda logits, n, sign: np.argsort(-np.abs(logits))[:n]))
likelier.mistake("gain without sign", _ranked(lambda row, gain, head: (row * abs(gain)) @ head, _best))
likelier.mistake("logits negated", _ranked(of=lambda logits, n, sign: np.sort(-sign * logits)[:n]))
likelier.mistake("logits", _ranked(of=lambda logits, n, sign: np.sort(sign * logits)[::-1][:n]))


@likelier.mistake("head transposed")
def _(row, gain, head, n, sign=1):
    return _best((row * gain) @ (head.T if len(head) == head.shape[1] else head), n, sign)


# 12 · How the stream grows


def stream_variance(n_blocks: int, d_ff: int, deviation: float) -> float:
    """The variance of a stream after so many networks with ReLU have added to it, at the beginning."""
    return 1 + n_blocks * d_ff * deviation**2 / 2


grown = exercise("feedforward.stream_variance", stream_variance)

grown.case("before any block: what came in", 0, 256, 1 / 16, want=1.0)
grown.case("1/√d_ff: every block adds a half", 1, 256, 1 / 16, want=1.5)
grown.case("1/√D, with d_ff = 4 D: every block adds 2", 1, 256, 1 / 8, want=3.0)
grown.case("block by block it adds up", 12, 256, 1 / 16, want=7.0)
grown.also(12, 256, 1 / 8, want=25.0)
grown.case("matrices of zeros add nothing", 5, 100, 0.0, want=1.0)
grown.also(3, 50, 0.1, want=1.75)

grown.mistake("no half", lambda n_blocks, d_ff, deviation: 1 + n_blocks * d_ff * deviation**2)
grown.mistake("deviation", lambda n_blocks, d_ff, deviation: 1 + n_blocks * d_ff * deviation / 2)
grown.mistake("no stream", lambda n_blocks, d_ff, deviation: n_blocks * d_ff * deviation**2 / 2)
grown.mistake("multiplied", lambda n_blocks, d_ff, deviation: (1 + d_ff * deviation**2 / 2) ** n_blocks)
grown.mistake("one block", lambda n_blocks, d_ff, deviation: 1 + d_ff * deviation**2 / 2)
grown.mistake("one neuron", lambda n_blocks, d_ff, deviation: 1 + n_blocks * deviation**2 / 2)
grown.mistake(
    "variance of ReLU",
    lambda n_blocks, d_ff, deviation: 1 + n_blocks * d_ff * deviation**2 * (0.5 - 1 / (2 * math.pi)),
)
grown.mistake("root", lambda n_blocks, d_ff, deviation: math.sqrt(stream_variance(n_blocks, d_ff, deviation)))
