"""Judges the exercises of chapter 09, "Loss and the way back"; their prose is in exercises.toml.

For each: the reference; then its checks, in teaching order; then its classic mistakes. What is right comes from
hand-worked numbers, from sums written out, and from PyTorch, which takes gradients by itself and is asked when the
first answer is judged. The axes: T positions, D d_model, F d_ff, V vocabulary, H heads, K d_head.
"""
# ruff: noqa: ANN001, ANN002, ANN202 - a check is read by its title, a mistake by its sentence

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from glassformer.chapters.ch03.judge import multi_head
from glassformer.chapters.ch05.judge import layer_norm
from glassformer.chapters.ch07.judge import block, block_weights
from glassformer.chapters.ch08.judge import gpt_weights
from glassformer.exercises.catalogue import exercise
from glassformer.exercises.exercise import Exercise
from glassformer.exercises.expect import Wrong, describe, expect, expect_parts
from glassformer.exercises.material import numbers
from glassformer.shapes import Bool, Float, Integer

Weights = Mapping[str, np.ndarray]


def _numbers(*shape: int, seed: int = 0) -> np.ndarray:
    """Returns numbers of this chapter's own."""
    return numbers(*shape, seed=(9, seed))


# What is right: the slope of each number by itself. The functions forward are written for complex numbers, and an
# imaginary nudge that is far too small to change anything else comes out as nudge times slope, exact to the last
# digits: there is no difference of two nearly equal numbers. Source: Squire and Trapp 1998, "Using complex variables
# to estimate derivatives of real functions".

NUDGE = 1e-100


def _slopes(forward: Callable, inputs: Sequence[Any], grad: Any = None) -> list[np.ndarray]:
    """Returns the gradient of every array among `inputs`; `grad` is the gradient of what `forward` returns."""
    inputs = [x.astype(complex) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x for x in inputs]
    found = []
    for x in (x for x in inputs if isinstance(x, np.ndarray) and x.dtype.kind == "c"):
        slopes = np.empty(x.shape)
        for place in np.ndindex(x.shape):
            x[place] += NUDGE * 1j
            y = forward(*inputs)
            slopes[place] = np.sum(y.imag if grad is None else y.imag * grad) / NUDGE
            x[place] = x[place].real
        found.append(slopes)
    return found


def _shares(scores: Any) -> np.ndarray:
    """Returns the softmax of each row."""
    powers = np.exp(scores - scores.real.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def _slopes_case(of: Exercise, title: str, forward: Callable, *inputs: Any, grad: Any = None, **options: Any):
    """Adds a check: the gradients of these inputs are right. Without `grad`, `forward` returns a scalar."""
    wanted = cache(lambda: _slopes(partial(forward, **options), inputs, grad))
    given = inputs if grad is None else (grad, *inputs)

    @of.check(title)
    def _(learner):
        got, what = learner(*given, **options), of.reference.__name__
        if not of.parts:
            expect(got, wanted()[0], f"{what}(…)", axes=of.letters)
            return
        axes = of.axes or [""] * len(of.parts)
        for name, value, want, letters in zip(
            of.parts, expect_parts(got, of.parts), wanted(), axes, strict=True
        ):
            expect(value, want, f"{name} of {what}(…)", axes=letters)


def _expect_all(got: Any, want: Weights, what: str) -> None:
    """A gradient for each weight, under its name."""
    if not isinstance(got, Mapping):
        raise Wrong(
            f"{what} should be a dictionary, with a gradient for each weight; yours is {describe(got)}."
        )
    for name in want:
        if name not in got:
            raise Wrong(f"{what}: there is no gradient under {name!r}.", what=f"{what}, {name}", got=len(got))
    for name in want:
        expect(got[name], want[name], f"{what} under {name!r}")
    odd = [name for name in got if name not in want]
    if odd:
        raise Wrong(f"{what}: {odd[0]!r} is no weight's name.", what=f"{what}, more", got=len(odd))


# 1 · The loss


def cross_entropy(logits: Float[np.ndarray, "T V"], targets: Integer[np.ndarray, " T"]) -> np.floating:
    """Mean surprise at the targets, in nats, from logits of any size."""
    top = logits.max(axis=-1, keepdims=True)
    total = top[:, 0] + np.log(np.exp(logits - top).sum(axis=-1))
    return (total - logits[np.arange(len(targets)), targets]).mean()


surprise = exercise("back.cross_entropy", cross_entropy)


def _surprise(logits: Any, targets: Any) -> float:
    """From the definition; no logit may be large."""
    return math.fsum(
        math.log(math.fsum(math.exp(z) for z in row)) - row[target]
        for row, target in zip(logits, targets, strict=True)
    ) / len(targets)


surprise.case(
    "two alike: the logarithm of 2", np.array([[0.0, 0.0]]), np.array([1]), want=math.log(2), being="ln 2"
)
surprise.case(
    "a probability of 3/4 that comes true", np.array([[math.log(3), 0.0]]), np.array([0]),
    want=math.log(4 / 3), being="−ln ¾",
)  # fmt: skip
_z, _t = _numbers(4, 7), np.array([6, 0, 3, 3])
surprise.case("the mean of four positions", _z, _t, want=_surprise(_z, _t))
_z, _t = _numbers(9, 3, seed=1), np.array([2, 0, 1, 1, 0, 2, 2, 0, 1])
surprise.case("more positions than entries", _z, _t, want=_surprise(_z, _t))
surprise.case(
    "a logit of 800: exp would be infinite", np.array([[0.0, 800.0], [3.0, 3.0]]), np.array([0, 1]),
    want=(800 + math.log(2)) / 2,
)  # fmt: skip
surprise.also(np.array([[-900.0, -900.0]]), np.array([0]), want=math.log(2))
surprise.also(np.array([[0.0, 800.0], [0.0, 0.0]]), np.array([1, 0]), want=math.log(2) / 2)


def _p(logits):
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def _picked(table, targets):
    return table[np.arange(len(targets)), targets]


surprise.mistake("sum", lambda z, t: cross_entropy(z, t) * len(t))
surprise.mistake("sign", lambda z, t: -cross_entropy(z, t))
surprise.mistake("bits", lambda z, t: cross_entropy(z, t) / math.log(2))
surprise.mistake("probability", lambda z, t: _picked(_p(z), t).mean())
surprise.mistake("logit alone", lambda z, t: -_picked(z, t).mean())
surprise.mistake("log of the mean", lambda z, t: -math.log(_picked(_p(z), t).mean()))
surprise.mistake("of all entries", lambda z, t: cross_entropy(z, t) / z.shape[1])
surprise.mistake("its own guess", lambda z, t: cross_entropy(z, z.argmax(axis=-1)))
surprise.mistake("whole columns", lambda z, t: (np.log(np.exp(z - 700).sum(axis=-1)) + 700 - z[:, t]).mean())
surprise.mistake("shifted again", lambda z, t: cross_entropy(z[:-1], t[1:]) if len(t) > 1 else np.float64(0))


@surprise.mistake("overflow")
def _(z, t):
    with np.errstate(all="ignore"):
        return (np.log(np.exp(z).sum(axis=-1)) - _picked(z, t)).mean()


@surprise.mistake("softmax first")
def _(z, t):
    with np.errstate(all="ignore"):
        return -np.log(_picked(_p(z), t)).mean()


@surprise.mistake("one largest")
def _(z, t):
    with np.errstate(all="ignore"):
        return (z.max() + np.log(np.exp(z - z.max()).sum(axis=-1)) - _picked(z, t)).mean()


# 2 · Back through the loss


def cross_entropy_backward(
    logits: Float[np.ndarray, "T V"], targets: Integer[np.ndarray, " T"]
) -> Float[np.ndarray, "T V"]:
    """The gradient of the mean surprise with respect to the logits: (p − 1 at the target) / n."""
    grad = np.exp(logits - logits.max(axis=-1, keepdims=True))
    grad /= grad.sum(axis=-1, keepdims=True)
    grad[np.arange(len(targets)), targets] -= 1
    return grad / len(targets)


surprise_back = exercise("back.cross_entropy_backward", cross_entropy_backward, axes="T V")


def _loss_of(targets):
    def loss(logits):
        return -np.mean(np.log(_shares(logits)[np.arange(len(targets)), targets]))

    return loss


surprise_back.case(
    "one position, two alike: half a step each", np.array([[0.0, 0.0]]), np.array([1]), want=[[0.5, -0.5]]
)
surprise_back.case(
    "a mean of two positions: half of each", np.array([[0.0, 0.0], [math.log(3), 0.0]]), np.array([1, 0]),
    want=[[0.25, -0.25], [-0.125, 0.125]],
)  # fmt: skip
for _title, _shape, _t in (
    ("five positions, as PyTorch has it", (5, 7), [6, 0, 3, 3, 0]),
    ("as many positions as entries", (4, 4), [2, 2, 0, 1]),
):

    @surprise_back.check(_title)
    def _(learner, shape=_shape, targets=tuple(_t)):
        z, targets = _numbers(*shape, seed=2), np.array(targets)
        want = _slopes(_loss_of(targets), [z])[0]
        expect(learner(z, targets), want, "cross_entropy_backward(logits, targets)", axes="T V")


surprise_back.case(
    "a logit of 800", np.array([[0.0, 800.0]]), np.array([0]), want=[[-1.0, 1.0]]
)  # fmt: skip


def _onehot(z, t):
    return np.eye(z.shape[1])[t]


surprise_back.mistake("mean forgotten", lambda z, t: cross_entropy_backward(z, t) * len(t))
surprise_back.mistake("sign", lambda z, t: -cross_entropy_backward(z, t))
surprise_back.mistake("probabilities alone", lambda z, t: _p(z) / len(t))
surprise_back.mistake("target alone", lambda z, t: -_onehot(z, t) / len(t))
surprise_back.mistake("logits", lambda z, t: (z - _onehot(z, t)) / len(t))
surprise_back.mistake("one everywhere", lambda z, t: (_p(z) - 1) / len(t))
surprise_back.mistake("divided by all", lambda z, t: cross_entropy_backward(z, t) / z.shape[1])
surprise_back.mistake("target row alone", lambda z, t: cross_entropy_backward(z, t) * _onehot(z, t))
surprise_back.mistake("whole columns", lambda z, t: (_p(z) - np.isin(np.arange(z.shape[1]), t)) / len(t))


@surprise_back.mistake("overflow")
def _(z, t):
    with np.errstate(all="ignore"):
        powers = np.exp(z)
        return (powers / powers.sum(axis=-1, keepdims=True) - _onehot(z, t)) / len(t)


# 3 · A gradient check


def gradcheck(f: Callable[[np.ndarray], float], x: np.ndarray, grad: np.ndarray) -> bool:
    """Returns whether `grad` is the gradient of f at x, by nudging each number up and down, in float64."""
    x = np.array(x, dtype=np.float64)
    if grad.shape != x.shape:
        return False
    measured = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        before = x[place]
        x[place] = before + 1e-5
        up = f(x)
        x[place] = before - 1e-5
        measured[place] = (up - f(x)) / 2e-5
        x[place] = before
    return bool(np.abs(measured - grad).max() <= 1e-5 * np.abs(measured).max())


gradient_check = exercise("back.gradcheck", gradcheck)


def _curve(x):
    return float((x**3).sum() + np.sin(5 * x).sum())


def _curve_slope(x):
    return 3 * x**2 + 5 * np.cos(5 * x)


def _faint(x):
    return 1e-5 * _curve(x)


_first = np.array([[True] * 3, [True, True, False]])


def _lopsided(x):
    """The last number's slope is next to nothing."""
    return _curve(np.where(_first, x, 0)) + 1e-10 * float(x[1, 2])


def _square_of_sum(x):
    return float(x.sum() ** 2)


_x = _numbers(2, 3, seed=3)
_right = _curve_slope(_x)
gradient_check.case("a gradient that is right", _curve, _x, _right, want=True)
_other = _right.copy()
_other[1, 2] += 0.01
gradient_check.case("wrong in the last number, by a little", _curve, _x, _other, want=False)
gradient_check.case("all of it twice as long", _curve, _x, 2 * _right, want=False)
gradient_check.case("uphill for downhill", _curve, _x, -_right, want=False)
_other = _right.copy()
_other[0, 0] += 0.02
_other[0, 1] -= 0.02
gradient_check.case("two mistakes that cancel in the sum", _curve, _x, _other, want=False)
gradient_check.case("slopes that are small: wrong by half", _faint, _x, 0.5e-5 * _right, want=False)
gradient_check.also(_faint, _x, 1e-5 * _right, want=True)
gradient_check.case(
    "one row instead of two: it would broadcast", _curve, np.tile(_x[:1], (2, 1)), _right[0], want=False
)
gradient_check.case(
    "x in single precision: nudge a copy in float64", _curve, _x.astype(np.float32),
    _curve_slope(_x.astype(np.float32).astype(np.float64)), want=True,
)  # fmt: skip
gradient_check.case(
    "slopes smaller still: wrong by half", lambda x: 1e-10 * _curve(x), _x, 0.5e-10 * _right, want=False,
    what="gradcheck(f, x, grad)",
)  # fmt: skip
gradient_check.case(
    "slopes that are large: right", lambda x: 1e5 * _curve(x), _x, 1e5 * _right, want=True,
    what="gradcheck(f, x, grad)",
)  # fmt: skip
gradient_check.case(
    "one slope is nearly 0 beside the others: right",
    _lopsided,
    _x,
    np.where(_first, _right, 1e-10),
    want=True,
)
_other = _right.copy()
_other[0, 1] += 5e-5 * abs(_right).max()
gradient_check.case("wrong in the fifth digit of the longest slope", _curve, _x, _other, want=False)
_other = _right.copy()
_other[1, 0] = np.nan
gradient_check.case("a slope that is not a number", _curve, _x, _other, want=False)
_ten = _numbers(10, 10, seed=4) + 0.1
gradient_check.case(
    "a hundred numbers that depend on each other: right", _square_of_sum, _ten,
    np.full((10, 10), 2 * _ten.sum()), want=True,
)  # fmt: skip


def _measured(f, x, h=1e-5, *, one_side=False, dtype=np.float64):
    x = np.array(x, dtype=dtype)
    found = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[place] += h
        down[place] -= 0 if one_side else h
        found[place] = (f(up) - f(down)) / (h if one_side else 2 * h)
    return found


def _near(a, b, off=1e-5):
    return bool(np.shape(a) == np.shape(b) and np.abs(a - b).max() <= off * np.abs(a).max())


gradient_check.mistake("one side", lambda f, x, g: _near(_measured(f, x, 1e-2, one_side=True), g))
gradient_check.mistake("always", lambda f, x, g: True)
gradient_check.mistake(
    "sum alone", lambda f, x, g: bool(abs((_measured(f, x) - g).sum()) < 1e-6 * abs(g).max())
)
gradient_check.mistake("first number", lambda f, x, g: bool(np.isclose(_measured(f, x).flat[0], g.flat[0])))
gradient_check.mistake("size alone", lambda f, x, g: _near(abs(_measured(f, x)), abs(g)))
gradient_check.mistake(
    "direction alone",
    lambda f, x, g: _near(_measured(f, x) / np.linalg.norm(_measured(f, x)), g / np.linalg.norm(g), 1e-4),
)
gradient_check.mistake(
    "absolute", lambda f, x, g: bool(np.shape(g) == np.shape(x) and abs(_measured(f, x) - g).max() < 1e-4)
)
gradient_check.mistake(
    "absolute",
    lambda f, x, g: bool(np.shape(g) == np.shape(x) and np.allclose(_measured(f, x), g, rtol=1e-5)),
)
gradient_check.mistake(
    "absolute", lambda f, x, g: bool(np.shape(g) == np.shape(x) and abs(_measured(f, x) - g).max() < 1e-7)
)
gradient_check.mistake(
    "each by itself",
    lambda f, x, g: bool(
        np.shape(g) == np.shape(x) and (abs(_measured(f, x) - g) <= 1e-5 * abs(_measured(f, x))).all()
    ),
)
gradient_check.mistake("loose", lambda f, x, g: _near(_measured(f, x), g, 3e-4))
gradient_check.mistake(
    "nan",
    lambda f, x, g: bool(
        np.shape(g) == np.shape(x) and not abs(_measured(f, x) - g).max() > 1e-5 * abs(_measured(f, x)).max()
    ),
)


@gradient_check.mistake("not restored")
def _(f, x, g):
    moved, found = np.array(x, dtype=np.float64), np.zeros(np.shape(x))
    for place in np.ndindex(moved.shape):
        moved[place] += 1e-5
        up = f(moved)
        moved[place] -= 2e-5
        found[place] = (up - f(moved)) / 2e-5
    return _near(found, g)


gradient_check.mistake(
    "broadcast",
    lambda f, x, g: bool(abs(_measured(f, x) - g).max() <= 1e-5 * abs(_measured(f, x)).max()),
)
gradient_check.mistake(
    "single precision", lambda f, x, g: _near(_measured(f, x, dtype=np.asarray(x).dtype), g)
)


# 4 · Back through a linear map


def linear_backward(
    grad: Float[np.ndarray, "T F"], x: Float[np.ndarray, "T D"], W: Float[np.ndarray, "D F"]
) -> tuple[Float[np.ndarray, "T D"], Float[np.ndarray, "D F"]]:
    """Maps the gradient of x @ W to those of x and of W."""
    return grad @ W.T, x.T @ grad


linear = exercise("back.linear_backward", linear_backward, parts=("grad_x", "grad_W"), axes=("T D", "D F"))
linear.case(
    "one position: by hand",
    np.array([[1.0, 10.0]]), np.array([[2.0, 3.0]]), np.array([[1.0, 0.0], [2.0, 1.0]]),
    want=([[1.0, 12.0]], [[2.0, 20.0], [3.0, 30.0]]),
)  # fmt: skip
linear.case(
    "two positions share W: their slopes add up",
    np.array([[1.0], [10.0]]), np.array([[2.0], [3.0]]), np.array([[5.0]]),
    want=([[5.0], [50.0]], [[32.0]]),
)  # fmt: skip


def _product(x, W):
    return x @ W


_slopes_case(
    linear, "T, D and F all different", _product, _numbers(5, 4), _numbers(4, 3, seed=1),
    grad=_numbers(5, 3, seed=2),
)  # fmt: skip
_slopes_case(
    linear, "all of a size, where a wrong turn has the right shape", _product, _numbers(4, 4),
    _numbers(4, 4, seed=1), grad=_numbers(4, 4, seed=2),
)  # fmt: skip
linear.mistake("pair", lambda g, x, W: linear_backward(g, x, W)[::-1])
linear.mistake("W as it stands", lambda g, x, W: (g @ W, x.T @ g))
linear.mistake("x as it stands", lambda g, x, W: (g @ W.T, x @ g))
linear.mistake("grad_W turned", lambda g, x, W: (g @ W.T, g.T @ x))
linear.mistake("mean", lambda g, x, W: (g @ W.T, x.T @ g / len(x)))
linear.mistake("last position", lambda g, x, W: (g @ W.T, np.outer(x[-1], g[-1])))
linear.mistake("sums first", lambda g, x, W: (g @ W.T, np.outer(x.sum(axis=0), g.sum(axis=0))))
linear.mistake("local slopes", lambda g, x, W: (np.ones_like(g) @ W.T, x.T @ np.ones_like(g)))


# 5 · Back through LayerNorm


def layer_norm_backward(
    grad: Float[np.ndarray, "T D"],
    x: Float[np.ndarray, "T D"],
    weight: Float[np.ndarray, " D"],
    bias: Float[np.ndarray, " D"],
    eps: float = 1e-5,
) -> tuple[Float[np.ndarray, "T D"], Float[np.ndarray, " D"], Float[np.ndarray, " D"]]:
    """Maps the gradient of LayerNorm's output to those of x, of the gain and of the bias."""
    centred = x - x.mean(axis=-1, keepdims=True)
    size = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps)
    y, g = centred / size, grad * weight
    along = (g * y).mean(axis=-1, keepdims=True)
    grad_x = (g - g.mean(axis=-1, keepdims=True) - y * along) / size
    return grad_x, (grad * y).sum(axis=0), grad.sum(axis=0)


norm_back = exercise(
    "back.layer_norm_backward",
    layer_norm_backward,
    parts=("grad_x", "grad_weight", "grad_bias"),
    axes=("T D", "D", "D"),
)


def _norm(x, weight, bias, eps=1e-5):
    apart = x - x.sum(axis=-1, keepdims=True) / x.shape[-1]
    variance = (apart * apart).sum(axis=-1, keepdims=True) / x.shape[-1]
    return apart * (variance + eps) ** -0.5 * weight + bias


def _of_norm(T: int, D: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    """x, a gain around 1, a bias."""
    return _numbers(T, D, seed=seed) * 2, 1 + 0.5 * _numbers(D, seed=seed + 1), _numbers(D, seed=seed + 2)


_slopes_case(
    norm_back, "one position, gain 1", _norm, _numbers(1, 4), np.ones(4), np.zeros(4),
    grad=_numbers(1, 4, seed=3),
)  # fmt: skip
_slopes_case(norm_back, "one position, with a gain", _norm, *_of_norm(1, 5), grad=_numbers(1, 5, seed=4))
_slopes_case(
    norm_back, "four positions share gain and bias", _norm, *_of_norm(4, 6), grad=_numbers(4, 6, seed=5)
)
_slopes_case(
    norm_back, "as many positions as features", _norm, *_of_norm(5, 5, seed=7), grad=_numbers(5, 5, seed=6)
)
_slopes_case(norm_back, "a large eps", _norm, *_of_norm(3, 4, seed=9), grad=_numbers(3, 4, seed=7), eps=0.5)


@norm_back.check("more of all features alike changes nothing: the slopes of a position sum to 0")
def _(learner):
    x, weight, bias = _of_norm(3, 7, seed=11)
    got = expect_parts(learner(_numbers(3, 7, seed=8), x, weight, bias), norm_back.parts)[0]
    expect(np.asarray(got).sum(axis=-1), np.zeros(3), "the sums of grad_x over the features", axes="T")


def _norm_wrong(mean=True, along=True, gain=True, divide=True, over=np.sum, gain_of=None, pair=None):
    """A wrong answer: one thing left out or changed."""

    def wrong(grad, x, weight, bias, eps=1e-5):
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = (centred**2).mean(axis=-1, keepdims=True)
        size = np.sqrt(variance + eps)
        y, g = centred / size, grad * (weight if gain else 1)
        back = g - (g.mean(axis=-1, keepdims=True) if mean else 0)
        back = back - (y * (g * y).mean(axis=-1, keepdims=True) if along else 0)
        back = back / size if divide else back
        of_gain = over(grad * (y if gain_of is None else gain_of(x, centred)), axis=0)
        found = back, of_gain, over(grad, axis=0)
        return found if pair is None else pair(found)

    return wrong


norm_back.mistake("statistics held still", _norm_wrong(mean=False, along=False))
norm_back.mistake("mean held still", _norm_wrong(mean=False))
norm_back.mistake("size held still", _norm_wrong(along=False))
norm_back.mistake("not divided", _norm_wrong(divide=False))
norm_back.mistake("gain forgotten", _norm_wrong(gain=False))
norm_back.mistake("mean over positions", _norm_wrong(over=np.mean))
norm_back.mistake("gain from x", _norm_wrong(gain_of=lambda x, centred: x))
norm_back.mistake("gain from the centred", _norm_wrong(gain_of=lambda x, centred: centred))
norm_back.mistake("not summed", _norm_wrong(over=lambda a, axis: a))
norm_back.mistake("eps forgotten", lambda grad, x, w, b, eps=1e-5: layer_norm_backward(grad, x, w, b))
norm_back.mistake("gain and bias swapped", _norm_wrong(pair=lambda found: (found[0], found[2], found[1])))
norm_back.mistake("gain twice", lambda grad, x, w, b, eps=1e-5: (
    layer_norm_backward(grad, x, w, b, eps)[0], *layer_norm_backward(grad * w, x, w, b, eps)[1:]
))  # fmt: skip
norm_back.mistake("gain twice", lambda grad, x, w, b, eps=1e-5: (
    *layer_norm_backward(grad, x, w, b, eps)[:2], (grad * w).sum(axis=0)
))  # fmt: skip
norm_back.mistake(
    "eps forgotten", lambda grad, x, w, b, eps=1e-5: layer_norm_backward(grad, x, w, b, 0 * eps)
)


def _norm_otherwise(back):
    """A wrong grad_x, of y, the centred vector and its size; the rest is right."""

    def wrong(grad, x, weight, bias, eps=1e-5):
        centred = x - x.mean(axis=-1, keepdims=True)
        size = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps)
        found = back(grad * weight, centred / size, centred) / size
        return found, *layer_norm_backward(grad, x, weight, bias, eps)[1:]

    return wrong


def _mean(a):
    return a.mean(axis=-1, keepdims=True)


norm_back.mistake("centred for y", _norm_otherwise(lambda g, y, c: g - _mean(g) - c * _mean(g * c)))
norm_back.mistake("centred for y", _norm_otherwise(lambda g, y, c: g - _mean(g) - c * _mean(g * y)))
norm_back.mistake(
    "sums for means", _norm_otherwise(lambda g, y, c: g - (_mean(g) + y * _mean(g * y)) * g.shape[-1])
)
norm_back.mistake(
    "projection", _norm_otherwise(lambda g, y, c: g - _mean(g) - c * _mean(g * c) / _mean(c * c))
)


# 6 · The slope of GELU


def gelu_slope(x: Float[np.ndarray, "*B"]) -> Float[np.ndarray, "*B"]:
    """The slope of x · Φ(x): Φ(x) + x · φ(x)."""
    below = (1 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2))) / 2
    return below + x * np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)


bend = exercise("back.gelu_slope", gelu_slope)
bend.case("at 0: one half", np.array([0.0]), want=[0.5])
bend.case(
    "at 1: Φ(1) + φ(1)", np.array([1.0]), want=[0.8413447460685429 + 0.24197072451914337], being="Φ(1) + φ(1)"
)
bend.case(
    "below 0, where it turns negative", np.array([-1.0, -0.5]),
    want=[0.15865525393145707 - 0.24197072451914337, 0.3085375387259869 - 0.5 * 0.3520653267642995],
)  # fmt: skip
bend.case("far out it is flat, or as steep as x", np.array([-40.0, 40.0]), want=[0.0, 1.0])
bend.case(
    "any shape", np.array([[[0.0, 1.0, 0.0]]]), want=[[[0.5, 1.0833154705876863, 0.5]]]
)  # fmt: skip


def _below(x):
    return (1 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2))) / 2


def _bell(x):
    return np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)


def _tanh_slope(x):
    u = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    t = np.tanh(u)
    return (1 + t) / 2 + x / 2 * (1 - t**2) * math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x**2)


bend.mistake("share alone", _below)
bend.mistake("x forgotten", lambda x: _below(x) + _bell(x))
bend.mistake("bell alone", lambda x: x * _bell(x))
bend.mistake("gelu itself", lambda x: x * _below(x))
bend.mistake("no root", lambda x: _below(x) + x * np.exp(-(x**2) / 2))
bend.mistake("not halved", lambda x: _below(x) + x * np.exp(-np.minimum(x**2, 700)) / math.sqrt(2 * math.pi))
bend.mistake("tanh", _tanh_slope)
bend.mistake("step", lambda x: (x > 0) * 1.0)
bend.mistake("erf of x", lambda x: (1 + np.vectorize(math.erf, otypes=[float])(x)) / 2 + x * _bell(x))


# 7 · Back through the feed-forward network


def feed_forward_backward(
    grad: Float[np.ndarray, "T D"],
    x: Float[np.ndarray, "T D"],
    W_up: Float[np.ndarray, "D F"],
    b_up: Float[np.ndarray, " F"],
    W_down: Float[np.ndarray, "F D"],
    b_down: Float[np.ndarray, " D"],
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Maps the gradient of gelu(x @ W_up + b_up) @ W_down + b_down to those of x and of the four weights."""
    up = x @ W_up + b_up
    grad_wide, grad_W_down = linear_backward(grad, up * _below(up), W_down)
    grad_up = grad_wide * gelu_slope(up)
    grad_x, grad_W_up = linear_backward(grad_up, x, W_up)
    return grad_x, grad_W_up, grad_up.sum(axis=0), grad_W_down, grad.sum(axis=0)


feed_back = exercise(
    "back.feed_forward_backward",
    feed_forward_backward,
    built_on=(linear_backward, gelu_slope),
    parts=("grad_x", "grad_W_up", "grad_b_up", "grad_W_down", "grad_b_down"),
    axes=("T D", "D F", "F", "F D", "D"),
)


def _erf(z):
    """Returns erf beside the real axis: a nudge times the slope, 2 exp(−x²)/√π, is all there is of the rest."""
    x = z.real
    return np.vectorize(math.erf, otypes=[float])(x) + 2j * z.imag * np.exp(-x * x) / math.sqrt(math.pi)


def _feed(x, W_up, b_up, W_down, b_down):
    up = x @ W_up + b_up
    return (up + up * _erf(up / math.sqrt(2))) / 2 @ W_down + b_down


def _of_feed(T: int, D: int, F: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    return (
        _numbers(T, D, seed=seed), _numbers(D, F, seed=seed + 1), _numbers(F, seed=seed + 2),
        _numbers(F, D, seed=seed + 3), _numbers(D, seed=seed + 4),
    )  # fmt: skip


feed_back.case(
    "one neuron: the slope of GELU at 1, times W_down",
    np.array([[1.0]]), np.array([[1.0]]), np.array([[1.0]]), np.array([0.0]), np.array([[2.0]]), np.array([0.0]),
    want=[2 * 1.0833154705876863], part="grad_b_up",
)  # fmt: skip
_slopes_case(
    feed_back, "one position, three neurons", _feed, *_of_feed(1, 2, 3), grad=_numbers(1, 2, seed=21)
)
_slopes_case(
    feed_back, "five positions share the weights", _feed, *_of_feed(5, 4, 7), grad=_numbers(5, 4, seed=22)
)
_slopes_case(feed_back, "T, D and F alike", _feed, *_of_feed(4, 4, 4, seed=5), grad=_numbers(4, 4, seed=23))


def _feed_wrong(
    slope=gelu_slope, biased=True, over=np.sum, wide=lambda up: up * _below(up), into_x=True, order=None
):
    def wrong(grad, x, W_up, b_up, W_down, b_down):
        up = x @ W_up + b_up
        bent = slope(up if biased else x @ W_up)
        grad_up = grad @ W_down.T * bent
        back = (grad_up if into_x else grad @ W_down.T) @ W_up.T
        found = back, x.T @ grad_up, over(grad_up, axis=0), wide(up).T @ grad, over(grad, axis=0)
        return found if order is None else order(found)

    return wrong


feed_back.mistake("no slope", _feed_wrong(slope=np.ones_like))
feed_back.mistake("slope behind", _feed_wrong(slope=lambda up: gelu_slope(up * _below(up))))
feed_back.mistake("of relu", _feed_wrong(slope=lambda up: (up > 0) * 1.0))
feed_back.mistake("gelu for its slope", _feed_wrong(slope=lambda up: up * _below(up)))
feed_back.mistake("slope not for x", _feed_wrong(into_x=False))
feed_back.mistake("bias forgotten", _feed_wrong(biased=False))
feed_back.mistake("before the bend", _feed_wrong(wide=lambda up: up))
feed_back.mistake("mean over positions", _feed_wrong(over=np.mean))
feed_back.mistake("not summed", _feed_wrong(over=lambda a, axis: a))
feed_back.mistake("order", _feed_wrong(order=lambda f: (f[1], f[2], f[3], f[4], f[0])))


# 8 · Back through softmax


def softmax_backward(
    grad: Float[np.ndarray, "*B S"], weights: Float[np.ndarray, "*B S"]
) -> Float[np.ndarray, "*B S"]:
    """Maps the gradient of softmax's output, `weights`, to that of its input."""
    return weights * (grad - (grad * weights).sum(axis=-1, keepdims=True))


soft_back = exercise("back.softmax_backward", softmax_backward, axes="T S")
soft_back.case(
    "two alike: what one gains the other loses", np.array([[1.0, 0.0]]), np.array([[0.5, 0.5]]),
    want=[[0.25, -0.25]],
)  # fmt: skip
soft_back.case(
    "three shares, by hand", np.array([[4.0, 0.0, 8.0]]), np.array([[0.5, 0.25, 0.25]]),
    want=[[0.0, -1.0, 1.0]],
)  # fmt: skip
soft_back.case(
    "all want the same: nothing moves", np.array([[3.0, 3.0, 3.0]]), np.array([[0.2, 0.3, 0.5]]),
    want=[[0.0, 0.0, 0.0]],
)  # fmt: skip


def _of_scores(shape, seed):
    scores = _numbers(*shape, seed=seed)
    grad = _numbers(*shape, seed=seed + 1)
    want = cache(lambda: _slopes(_shares, [scores], grad)[0])
    return grad, _p(scores), want


for _title, _shape, _axes in (
    ("each row by itself", (4, 4), "T S"),
    ("rows of another length", (3, 6), "T S"),
    ("heads in front", (2, 3, 4), "H T S"),
    ("one row alone", (5,), "S"),
):

    @soft_back.check(_title)
    def _(learner, shape=_shape, axes=_axes):
        grad, weights, want = _of_scores(shape, len(shape))
        expect(learner(grad, weights), want(), "softmax_backward(grad, weights)", axes=axes)


soft_back.case(
    "a masked pair and a sure row: exactly 0", np.array([[7.0, -2.0], [1.0, 5.0]]),
    np.array([[1.0, 0.0], [0.5, 0.5]]), want=[[0.0, 0.0], [-1.0, 1.0]],
)  # fmt: skip
soft_back.mistake("diagonal", lambda g, w: g * w * (1 - w))
soft_back.mistake("plain mean", lambda g, w: w * (g - g.mean(axis=-1, keepdims=True)))
soft_back.mistake("sum without weights", lambda g, w: w * (g - g.sum(axis=-1, keepdims=True)))
soft_back.mistake("weights forgotten", lambda g, w: g - (g * w).sum(axis=-1, keepdims=True))
soft_back.mistake("no mean", lambda g, w: g * w)
soft_back.mistake("no keepdims", lambda g, w: w * (g - (g * w).sum(axis=-1)))
soft_back.mistake("mean of products", lambda g, w: w * (g - (g * w).mean(axis=-1, keepdims=True)))
soft_back.mistake("sign", lambda g, w: -softmax_backward(g, w))
soft_back.mistake("all rows", lambda g, w: w * (g - (g * w).sum()))
soft_back.mistake("columns", lambda g, w: w * (g - (g * w).sum(axis=0, keepdims=True)))
soft_back.mistake("softmax again", lambda g, w: softmax_backward(g, _p(w)))
soft_back.mistake("second axis", lambda g, w: w * (g - (g * w).sum(axis=min(1, w.ndim - 1), keepdims=True)))


# 9 · Back through a head


def scaled_dot_product_attention_backward(
    grad: Float[np.ndarray, "*B T K"],
    q: Float[np.ndarray, "*B T K"],
    k: Float[np.ndarray, "*B S K"],
    v: Float[np.ndarray, "*B S K"],
    *,
    mask: Bool[np.ndarray, "..."] | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Maps the gradient of attention's output to those of q, k and v."""
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    weights = _p(scores)
    grad_v = weights.swapaxes(-1, -2) @ grad
    grad_scores = softmax_backward(grad @ v.swapaxes(-1, -2), weights) / math.sqrt(q.shape[-1])
    return grad_scores @ k, grad_scores.swapaxes(-1, -2) @ q, grad_v


head_back = exercise(
    "back.attention_backward",
    scaled_dot_product_attention_backward,
    built_on=(softmax_backward,),
    parts=("grad_q", "grad_k", "grad_v"),
)


def _attention(q, k, v, mask=None):
    scores = np.einsum("...tk,...sk->...ts", q, k) / q.shape[-1] ** 0.5
    return np.einsum(
        "...ts,...sk->...tk", _shares(scores if mask is None else np.where(mask, scores, -np.inf)), v
    )


def _of_head(*lead: int, T: int, S: int, K: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    return tuple(_numbers(*lead, n, K, seed=seed + i) for i, n in enumerate((T, S, S)))


_slopes_case(
    head_back, "one query, two keys", _attention, *_of_head(T=1, S=2, K=3), grad=_numbers(1, 3, seed=31)
)
_slopes_case(
    head_back, "three queries, five keys", _attention, *_of_head(T=3, S=5, K=4, seed=3),
    grad=_numbers(3, 4, seed=32),
)  # fmt: skip
_slopes_case(
    head_back, "T, S and K alike", _attention, *_of_head(T=4, S=4, K=4, seed=6), grad=_numbers(4, 4, seed=33)
)
_slopes_case(
    head_back, "with a causal mask", _attention, *_of_head(T=5, S=5, K=2, seed=9),
    grad=_numbers(5, 2, seed=34), mask=np.tri(5, dtype=bool),
)  # fmt: skip
_slopes_case(
    head_back, "a mask that is not causal", _attention, *_of_head(T=2, S=3, K=2, seed=12),
    grad=_numbers(2, 2, seed=35), mask=np.array([[True, False, True], [False, True, True]]),
)  # fmt: skip
_slopes_case(
    head_back, "three heads at once", _attention, *_of_head(3, T=4, S=4, K=2, seed=15),
    grad=_numbers(3, 4, 2, seed=36), mask=np.tri(4, dtype=bool),
)  # fmt: skip


def _head_wrong(
    through=softmax_backward,
    scale=lambda K: 1 / math.sqrt(K),
    see=True,
    turn=True,
    order=None,
    late=False,
    keys=lambda a, q: a.swapaxes(-1, -2) @ q,
    hidden=None,
    inverted=False,
):
    """A wrong answer: one thing left out or changed."""

    def wrong(grad, q, k, v, *, mask=None):
        scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
        if mask is not None and see and not late:
            scores = np.where(mask ^ inverted, scores, -np.inf)
        with np.errstate(invalid="ignore"):
            weights = _p(scores)
        if mask is not None and late:
            weights = weights * mask
        of_scores = through(grad @ v.swapaxes(-1, -2), weights) * scale(q.shape[-1])
        if mask is not None and hidden is not None:
            of_scores = np.where(mask, of_scores, hidden)
        of_v = (weights.swapaxes(-1, -2) if turn else weights) @ grad
        with np.errstate(invalid="ignore"):
            found = of_scores @ k, keys(of_scores, q), of_v
        return found if order is None else order(*found)

    return wrong


head_back.mistake("no root", _head_wrong(scale=lambda K: 1))
head_back.mistake("by the width", _head_wrong(scale=lambda K: 1 / K))
head_back.mistake("diagonal", _head_wrong(through=lambda g, w: g * w * (1 - w)))
head_back.mistake("no softmax", _head_wrong(through=lambda g, w: g))
head_back.mistake("weights alone", _head_wrong(through=lambda g, w: g * w))
head_back.mistake("weights not turned", _head_wrong(turn=False))
head_back.mistake("queries for keys", _head_wrong(order=lambda a, b, c: (b, a, c)))
head_back.mistake("values first", _head_wrong(order=lambda a, b, c: (c, a, b)))
head_back.mistake("mask forgotten", _head_wrong(see=False))
head_back.mistake("zero after", _head_wrong(late=True))
head_back.mistake("keys not turned", _head_wrong(keys=lambda a, q: a @ q))
head_back.mistake(
    "root for queries alone", _head_wrong(keys=lambda a, q: a.swapaxes(-1, -2) @ q * math.sqrt(q.shape[-1]))
)
head_back.mistake("mask upside down", _head_wrong(inverted=True))
head_back.mistake("slopes of minus infinity", _head_wrong(hidden=-np.inf))


# 10 · Back through all heads


def multi_head_backward(
    grad: Float[np.ndarray, "T D"],
    x: Float[np.ndarray, "T D"],
    W_q: Float[np.ndarray, "D D"],
    W_k: Float[np.ndarray, "D D"],
    W_v: Float[np.ndarray, "D D"],
    W_o: Float[np.ndarray, "D D"],
    n_heads: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Maps the gradient of causal multi-head attention to those of x and of the four matrices."""
    T, D = x.shape

    def split(x):
        return x.reshape(T, n_heads, D // n_heads).swapaxes(0, 1)

    def merge(x):
        return x.swapaxes(0, 1).reshape(T, D)

    mask = np.tri(T, dtype=bool)
    q, k, v = (split(x @ W) for W in (W_q, W_k, W_v))
    scores = np.where(mask, q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1]), -np.inf)
    grad, grad_o = linear_backward(grad, merge(_p(scores) @ v), W_o)
    heads = scaled_dot_product_attention_backward(split(grad), q, k, v, mask=mask)
    (from_q, grad_q), (from_k, grad_k), (from_v, grad_v) = (
        linear_backward(merge(head), x, W) for head, W in zip(heads, (W_q, W_k, W_v), strict=True)
    )
    return from_q + from_k + from_v, grad_q, grad_k, grad_v, grad_o


heads_back = exercise(
    "back.multi_head_backward",
    multi_head_backward,
    built_on=(scaled_dot_product_attention_backward, linear_backward),
    parts=("grad_x", "grad_W_q", "grad_W_k", "grad_W_v", "grad_W_o"),
    axes=("T D", "D D", "D D", "D D", "D D"),
)


def _heads(x, W_q, W_k, W_v, W_o, n_heads):
    of_heads = zip(
        *(np.split(W, n_heads, axis=1) for W in (W_q, W_k, W_v)), np.split(W_o, n_heads), strict=True
    )
    see = np.tri(len(x), dtype=bool)
    return sum(_attention(x @ q, x @ k, x @ v, see) @ out for q, k, v, out in of_heads)


def _heads_case(title: str, T: int, D: int, n_heads: int, seed: int) -> None:
    inputs = _numbers(T, D, seed=seed), *(_numbers(4, D, D, seed=seed + 1) / math.sqrt(D))
    _slopes_case(heads_back, title, _heads, *inputs, n_heads, grad=_numbers(T, D, seed=seed + 2))


_heads_case("one position, one head", 1, 4, 1, 40)
_heads_case("four positions, one head", 4, 3, 1, 43)
_heads_case("two heads", 5, 6, 2, 46)
_heads_case("as many heads as features", 4, 4, 4, 49)


def _heads_wrong(
    uses=(0, 1, 2), mask=True, through_o=True, merged=None, n=None, order=None, share=1, of_o=None
):
    """A wrong answer: one thing left out or changed."""

    def wrong(grad, x, W_q, W_k, W_v, W_o, n_heads):
        T, D = x.shape
        H = n_heads if n is None else n

        def split(x):
            return x.reshape(T, H, D // H).swapaxes(0, 1)

        def merge(x):
            return x.swapaxes(0, 1).reshape(T, D)

        see = np.tri(T, dtype=bool) if mask else np.ones((T, T), dtype=bool)
        q, k, v = (split(x @ W) for W in (W_q, W_k, W_v))
        scores = np.where(see, q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1]), -np.inf)
        grad_o = merge(_p(scores) @ v).T @ grad
        back = grad @ W_o.T if through_o else grad
        found = scaled_dot_product_attention_backward(split(back), q, k, v, mask=see)
        found = [(merged or merge)(one) for one in found]
        grad_x = sum(found[i] @ (W_q, W_k, W_v)[i].T for i in uses) / share
        grad_o = grad_o if of_o is None else of_o(x, grad, grad_o)
        result = grad_x, *(x.T @ one for one in found), grad_o
        return result if order is None else order(result)

    return wrong


heads_back.mistake("values alone", _heads_wrong(uses=(2,)))
heads_back.mistake("queries alone", _heads_wrong(uses=(0,)))
heads_back.mistake("queries forgotten", _heads_wrong(uses=(1, 2)))
heads_back.mistake("no mask", _heads_wrong(mask=False))
heads_back.mistake("not through W_o", _heads_wrong(through_o=False))
heads_back.mistake("one head", _heads_wrong(n=1))
heads_back.mistake("reshaped", _heads_wrong(merged=lambda one: one.reshape(one.shape[1], -1)))
heads_back.mistake("order", _heads_wrong(order=lambda f: (f[0], f[4], f[1], f[2], f[3])))
heads_back.mistake("mean of three", _heads_wrong(share=3))
heads_back.mistake("W_o from x", _heads_wrong(of_o=lambda x, grad, right: x.T @ grad))
heads_back.mistake("W_o turned", _heads_wrong(of_o=lambda x, grad, right: right.T))


# 11 · Back through the block


NORMS = ("norm_attention", "norm_feedforward")


def block_backward(
    grad: Float[np.ndarray, "T D"], x: Float[np.ndarray, "T D"], weights: Weights, n_heads: int
) -> tuple[Float[np.ndarray, "T D"], dict[str, np.ndarray]]:
    """Maps the gradient of a pre-norm block's output to that of x, and of its weights under their names."""

    def some(*names: str) -> Any:
        return [weights[name] for name in names]

    first, second = ([f"{norm}.weight", f"{norm}.bias"] for norm in NORMS)
    matrices = [f"attention.W_{name}.weight" for name in "qkvo"]
    maps = [f"feedforward.W_{name}" for name in ("up.weight", "up.bias", "down.weight", "down.bias")]
    normed = layer_norm(x, *some(*first))
    middle = x + multi_head(normed, *some(*matrices), n_heads=n_heads)

    normed_again = layer_norm(middle, *some(*second))
    back, *of_maps = feed_forward_backward(grad, normed_again, *some(*maps))
    back, *of_second = layer_norm_backward(back, middle, *some(*second))
    grad = grad + back
    back, *of_matrices = multi_head_backward(grad, normed, *some(*matrices), n_heads=n_heads)
    back, *of_first = layer_norm_backward(back, x, *some(*first))
    names = [*first, *matrices, *second, *maps]
    return grad + back, dict(zip(names, [*of_first, *of_matrices, *of_second, *of_maps], strict=True))


block_back = exercise(
    "back.block_backward",
    block_backward,
    built_on=(multi_head_backward, feed_forward_backward, layer_norm_backward),
    parts=("grad_x", "gradients"),
)


def _block(x, w, n_heads):
    def norm(x, name):
        return _norm(x, w[f"{name}.weight"], w[f"{name}.bias"])

    matrices: Any = [w[f"attention.W_{n}.weight"] for n in "qkvo"]
    x = x + _heads(norm(x, NORMS[0]), *matrices, n_heads=n_heads)
    maps = (w[f"feedforward.W_{n}"] for n in ("up.weight", "up.bias", "down.weight", "down.bias"))
    return x + _feed(norm(x, NORMS[1]), *maps)


@cache
def _of_block(T: int, D: int, F: int, n_heads: int, seed: int) -> tuple[Any, ...]:
    """grad, x and weights; and the gradients of x and of the weights."""
    grad, x = _numbers(T, D, seed=seed), _numbers(T, D, seed=seed + 1)
    weights = block_weights(D, F, seed=seed)

    def forward(x, *arrays):
        return _block(x, dict(zip(weights, arrays, strict=True)), n_heads)

    grad_x, *own = _slopes(forward, [x, *weights.values()], grad)
    return grad, x, weights, grad_x, dict(zip(weights, own, strict=True))


for _title, _sizes in {
    "one position, one head": (1, 4, 6, 1),
    "four positions, two heads": (4, 6, 5, 2),
    "as many heads as features": (3, 4, 8, 4),
}.items():

    @block_back.check(_title)
    def _(learner, sizes=_sizes):
        *_, n_heads = sizes
        grad, x, weights, grad_x, own = _of_block(*sizes, 50)
        got = expect_parts(learner(grad, x, weights, n_heads), block_back.parts)
        expect(got[0], grad_x, "grad_x of block_backward(…)", axes="T D")
        _expect_all(got[1], own, "gradients of block_backward(…)")


@block_back.check("sublayers that write nothing: the gradient arrives as it was")
def _(learner):
    grad, x, weights, *_ = _of_block(3, 4, 8, 4, 50)
    silent = {
        name: w * (0 if name.startswith(("attention.W_o", "feedforward.W_down")) else 1)
        for name, w in weights.items()
    }
    got = expect_parts(learner(grad, x, silent, 2), block_back.parts)
    expect(got[0], grad, "grad_x of block_backward(…)", axes="T D")


def _block_wrong(
    around=(True, True),
    through=(True, True),
    at_x=False,
    swapped=False,
    tail=None,
    backwards=True,
    at_output=False,
    early=False,
    plain=False,
):
    """A wrong answer: one thing left out or changed."""

    def wrong(grad, x, weights, n_heads):
        names = NORMS[::-1] if swapped else NORMS
        gains = [[weights[f"{name}.{end}"] for end in ("weight", "bias")] for name in names]
        matrices: Any = [weights[f"attention.W_{name}.weight"] for name in "qkvo"]
        maps = [weights[f"feedforward.W_{n}"] for n in ("up.weight", "up.bias", "down.weight", "down.bias")]
        normed = layer_norm(x, *gains[0])
        middle = x if at_x else x + multi_head(normed, *matrices, n_heads=n_heads)
        own, arrived = {}, grad

        def feed(grad):
            read = middle if plain else layer_norm(middle, *gains[1])
            back, *found = feed_forward_backward(grad, read, *maps)
            for n, g in zip(("up.weight", "up.bias", "down.weight", "down.bias"), found, strict=True):
                own[f"feedforward.W_{n}"] = g
            read = layer_norm(middle, *gains[1]) if at_output else middle
            normal, *of = layer_norm_backward(back, read, *gains[1])
            own.update(zip((f"{names[1]}.weight", f"{names[1]}.bias"), of, strict=True))
            return (normal if through[1] else back) + (grad if around[1] else 0)

        def attend(grad):
            back, *found = multi_head_backward(
                arrived if early else grad, x if plain else normed, *matrices, n_heads=n_heads
            )
            own.update(zip((f"attention.W_{n}.weight" for n in "qkvo"), found, strict=True))
            normal, *of = layer_norm_backward(back, normed if at_output else x, *gains[0])
            own.update(zip((f"{names[0]}.weight", f"{names[0]}.bias"), of, strict=True))
            return (normal if through[0] else back) + (grad if around[0] else 0)

        grad = attend(feed(grad)) if backwards else feed(attend(grad))
        return grad, own if tail is None else tail(own)

    return wrong


block_back.mistake("no way around", _block_wrong(around=(False, False)))
block_back.mistake("one way around", _block_wrong(around=(True, False)))
block_back.mistake("one way around", _block_wrong(around=(False, True)))
block_back.mistake("not through the norms", _block_wrong(through=(False, False)))
block_back.mistake("not through the norms", _block_wrong(through=(True, False)))
block_back.mistake("not through the norms", _block_wrong(through=(False, True)))
block_back.mistake("what the norm gave", _block_wrong(at_output=True))
block_back.mistake("old gradient", _block_wrong(early=True))
block_back.mistake("not normed", _block_wrong(plain=True))
block_back.mistake("norm at the door", _block_wrong(at_x=True))
block_back.mistake("norms swapped", _block_wrong(swapped=True))
block_back.mistake("forwards", _block_wrong(backwards=False))
block_back.mistake(
    "norms forgotten", _block_wrong(tail=lambda own: {n: g for n, g in own.items() if "norm" not in n})
)
block_back.mistake(
    "short names",
    _block_wrong(tail=lambda own: {n.removesuffix(".weight"): g for n, g in own.items()}),
)
block_back.mistake("short names", _block_wrong(tail=lambda own: {f"blocks.0.{n}": g for n, g in own.items()}))


# 12 · The gradient of a GPT


def gpt_gradients(
    ids: Integer[np.ndarray, " T"], targets: Integer[np.ndarray, " T"], weights: Weights, n_heads: int
) -> tuple[np.floating, dict[str, np.ndarray]]:
    """The loss of a tied GPT on one text, and the gradient of every weight under its name."""
    table, places = weights["token_embedding.weight"], weights["decoder.positions.weight"]
    last = ["decoder.norm.weight", "decoder.norm.bias"]
    ends: Any = [weights[name] for name in last]
    n_layers = sum(name.endswith("norm_attention.weight") for name in weights)

    def of_block(i):
        start = f"decoder.blocks.{i}."
        return {n.removeprefix(start): w for n, w in weights.items() if n.startswith(start)}

    stream = [table[ids] + places[: len(ids)]]
    for i in range(n_layers):
        stream.append(block(stream[-1], of_block(i), n_heads))
    normed = layer_norm(stream[-1], *ends)
    logits = normed @ table.T

    grads = {"decoder.positions.weight": np.zeros_like(places)}
    grad, grad_head = linear_backward(cross_entropy_backward(logits, targets), normed, table.T)
    grad, *of_last = layer_norm_backward(grad, stream[-1], *ends)
    grads |= dict(zip(last, of_last, strict=True))
    for i in reversed(range(n_layers)):
        grad, own = block_backward(grad, stream[i], of_block(i), n_heads)
        grads |= {f"decoder.blocks.{i}.{name}": g for name, g in own.items()}
    grads["decoder.positions.weight"][: len(ids)] = grad
    grads["token_embedding.weight"] = grad_head.T.copy()
    np.add.at(grads["token_embedding.weight"], ids, grad)
    return cross_entropy(logits, targets), grads


whole = exercise(
    "back.gpt_gradients",
    gpt_gradients,
    built_on=(block_backward, cross_entropy_backward),
    parts=("loss", "gradients"),
)


@cache
def _of_gpt(T: int, V: int, D: int, n_layers: int, n_heads: int, seed: int) -> tuple[Any, ...]:
    """ids, targets and weights; and the loss and its gradients."""
    rng = np.random.default_rng((99, seed))
    ids, targets = rng.integers(V, size=(2, T))
    ids[-1] = ids[0]  # a token that is read twice
    weights = gpt_weights(V, D, n_layers, seed=seed)

    def forward(*arrays):
        w = dict(zip(weights, arrays, strict=True))
        table = w["token_embedding.weight"]
        x = table[ids] + w["decoder.positions.weight"][:T]
        for i in range(n_layers):
            at = f"decoder.blocks.{i}."
            own = {n.removeprefix(at): a for n, a in w.items() if n.startswith(at)}
            x = _block(x, own, n_heads)
        ends = w["decoder.norm.weight"], w["decoder.norm.bias"]
        return _loss_of(targets)(_norm(x, *ends) @ table.T)

    found = _slopes(forward, list(weights.values()))
    loss = forward(*(w.astype(complex) for w in weights.values())).real
    return ids, targets, weights, float(loss), dict(zip(weights, found, strict=True))


for _title, _sizes in {
    "no blocks: the two ends and the norm": (4, 7, 6, 0, 1),
    "one block of one head": (4, 5, 4, 1, 1),
    "two blocks of two heads, a shorter text than the context": (5, 9, 4, 2, 2),
}.items():

    @whole.check(_title)
    def _(learner, sizes=_sizes):
        *_, n_heads = sizes
        ids, targets, weights, loss, grads = _of_gpt(*sizes, 60)
        got = expect_parts(learner(ids, targets, weights, n_heads), whole.parts)
        expect(got[0], loss, "loss of gpt_gradients(…)")
        _expect_all(got[1], grads, "gradients of gpt_gradients(…)")


def _gpt_wrong(
    lookup="add", head=True, order=reversed, final=True, mean=True, entry=None, tail=None, summed=False, on=0
):
    """A wrong answer: one thing left out or changed."""

    def wrong(ids, targets, weights, n_heads):
        table, places = weights["token_embedding.weight"], weights["decoder.positions.weight"]
        ends = weights["decoder.norm.weight"], weights["decoder.norm.bias"]
        n_layers = sum(name.endswith("norm_attention.weight") for name in weights)

        def of_block(i):
            start = f"decoder.blocks.{i}."
            return {n.removeprefix(start): w for n, w in weights.items() if n.startswith(start)}

        stream = [table[ids] + places[: len(ids)]]
        for i in range(n_layers):
            stream.append(block(stream[-1], of_block(i), n_heads))
        normed = layer_norm(stream[-1], *ends)
        logits = normed @ table.T
        grads = {}
        of_logits = cross_entropy_backward(logits, targets) * (1 if mean else len(ids))
        grad = of_logits @ table
        back, *of_last = layer_norm_backward(grad, stream[-1], *ends)
        grad = back if final else grad
        grads |= dict(zip(("decoder.norm.weight", "decoder.norm.bias"), of_last, strict=True))
        for i in order(range(n_layers)):
            grad, own = block_backward(grad, stream[0 if entry else i + on], of_block(i), n_heads)
            grads |= {f"decoder.blocks.{i}.{name}": g for name, g in own.items()}
        grads["decoder.positions.weight"] = np.zeros_like(places)
        grads["decoder.positions.weight"][: len(ids)] = grad
        both = of_logits.T @ normed if head else np.zeros_like(table)
        if lookup == "add":
            np.add.at(both, ids, grad)
        elif lookup == "overwrite":
            both[ids] += grad
        grads["token_embedding.weight"] = both
        loss = cross_entropy(logits, targets) * (len(ids) if summed else 1)
        return loss, grads if tail is None else tail(grads, len(ids))

    return wrong


def _short_table(grads, T):
    return grads | {"decoder.positions.weight": grads["decoder.positions.weight"][:T]}


def _without_positions(grads, T):
    return {name: g for name, g in grads.items() if name != "decoder.positions.weight"}


whole.mistake("head alone", _gpt_wrong(lookup=None))
whole.mistake("lookup alone", _gpt_wrong(head=False))
whole.mistake("overwritten", _gpt_wrong(lookup="overwrite"))
whole.mistake("mean forgotten", _gpt_wrong(mean=False))
whole.mistake("sum of surprises", _gpt_wrong(summed=True))
whole.mistake("no final norm", _gpt_wrong(final=False))
whole.mistake("forwards", _gpt_wrong(order=lambda r: r))
whole.mistake("first stream again", _gpt_wrong(entry=True))
whole.mistake("what the block wrote", _gpt_wrong(on=1))
whole.mistake("short table", _gpt_wrong(tail=_short_table))
whole.mistake("no positions", _gpt_wrong(tail=_without_positions))


# 13 · The gradient on its way down the stream


def stream_gradient(
    grad: Float[np.ndarray, " D"], matrices: Float[np.ndarray, "N D D"], *, residual: bool = True
) -> Float[np.ndarray, " D"]:
    """The gradient at the stream's beginning, after N linear sublayers x + x @ A, or x @ A without the residual."""
    for A in matrices[::-1]:
        grad = grad * residual + grad @ A.T
    return grad


flow = exercise("back.stream_gradient", stream_gradient, axes="D")
flow.case(
    "one sublayer, with the way around", np.array([1.0, 2.0]), np.array([[[0.0, 1.0], [0.0, 0.0]]]),
    want=[3.0, 2.0],
)  # fmt: skip
flow.case(
    "and without", np.array([1.0, 2.0]), np.array([[[0.0, 1.0], [0.0, 0.0]]]), residual=False, want=[2.0, 0.0]
)
flow.case(
    "sublayers that do nothing, with the way around: all of it arrives", np.array([1.0, -1.0, 2.0]),
    np.zeros((5, 3, 3)), want=[1.0, -1.0, 2.0],
)  # fmt: skip
_A, _g = _numbers(3, 4, 4, seed=70) / 2, _numbers(4, seed=71)
_I = np.eye(4)
flow.case(
    "three sublayers, in the right order", _g, _A, want=(_I + _A[0]) @ ((_I + _A[1]) @ ((_I + _A[2]) @ _g))
)
flow.case("and without the way around", _g, _A, residual=False, want=_A[0] @ (_A[1] @ (_A[2] @ _g)))
flow.case("no sublayers", _g, np.zeros((0, 4, 4)), want=_g)
_small = np.full((40, 1, 1), 0.1)
flow.case(
    "forty sublayers of 0.1: forty times 1.1",
    np.array([1.0]),
    _small,
    want=[1.1**40],
    being="1.1 to the 40th",
)


def _flow_wrong(order=lambda m: m[::-1], turn=True, keep=None):
    def wrong(grad, matrices, *, residual=True):
        for A in order(matrices):
            grad = grad * (residual if keep is None else keep) + grad @ (A.T if turn else A)
        return grad

    return wrong


flow.mistake("not turned", _flow_wrong(turn=False))
flow.mistake("forwards", _flow_wrong(order=lambda m: m))
flow.mistake("always around", _flow_wrong(keep=True))
flow.mistake("never around", _flow_wrong(keep=False))


@flow.mistake("around all at once")
def _(grad, matrices, *, residual=True):
    through = stream_gradient(grad, matrices, residual=False)
    return grad + through if residual else through


@flow.mistake("each by itself")
def _(grad, matrices, *, residual=True):
    return grad * residual + sum((grad @ A.T for A in matrices), np.zeros_like(grad))


# 14 · Count the work


def work(T: int, sizes: Sequence[tuple[int, int]]) -> tuple[int, int, int]:
    """Multiply-adds of maps (n_in, n_out) one after another on T positions: forward, back, and by nudging."""
    each = [T * n_in * n_out for n_in, n_out in sizes]
    n_weights = sum(n_in * n_out for n_in, n_out in sizes)
    return sum(each), 2 * sum(each) - each[0], (1 + n_weights) * sum(each)


counted = exercise("back.work", work, parts=("forward", "back", "nudging"))
counted.case("one map: its input needs no gradient", 5, [(4, 3)], want=(60, 60, 13 * 60))
counted.case("two maps", 5, [(4, 3), (3, 2)], want=(90, 120, 19 * 90))
counted.case("up and down again", 128, [(24, 96), (96, 24)], want=(589_824, 884_736, 4609 * 589_824))
counted.case("one position", 1, [(2, 7), (7, 3), (3, 11)], want=(68, 122, 69 * 68))


def _counted_wrong(back=lambda e: 2 * sum(e) - e[0], nudged=lambda n: 1 + n, forward=sum, weights=None):
    def wrong(T, sizes):
        each = [T * a * b for a, b in sizes]
        n = sum(a * b for a, b in sizes) if weights is None else weights(sizes)
        return forward(each), back(each), nudged(n) * forward(each)

    return wrong


counted.mistake("first input, too", _counted_wrong(back=lambda e: 2 * sum(e)))
counted.mistake("as much as forward", _counted_wrong(back=sum))
counted.mistake("last input left out", _counted_wrong(back=lambda e: 2 * sum(e) - e[-1]))
counted.mistake("no first run", _counted_wrong(nudged=lambda n: n))
counted.mistake("both sides", _counted_wrong(nudged=lambda n: 2 * n))
counted.mistake(
    "operations", _counted_wrong(forward=lambda e: 2 * sum(e), back=lambda e: 4 * sum(e) - 2 * e[0])
)
counted.mistake("one position", lambda T, sizes: work(1, sizes))
counted.mistake("biases", _counted_wrong(weights=lambda sizes: sum((a + 1) * b for a, b in sizes)))
