"""Judges the exercises of chapter 10, "Training"; their prose is in exercises.toml.

For each: the reference, where the package has none; then its checks, in teaching order; then its classic mistakes.
What is right comes from hand-worked numbers, from PyTorch's own optimizer and functions, and for Newton and Schulz's
iteration from the singular values. The axes: B texts of a batch, T positions, V vocabulary, D d_model.
"""
# ruff: noqa: ANN001, ANN202 - a check is read by its title, a mistake by its sentence

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import islice
from typing import Any

import numpy as np

from glassformer.chapters.ch08.judge import gpt_by_hand, gpt_weights
from glassformer.chapters.ch09.judge import gpt_gradients
from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import Wrong, expect, expect_parts, expect_shape
from glassformer.exercises.material import numbers
from glassformer.shapes import Float, Integer

Weights = dict[str, np.ndarray]
Batch = tuple[Integer[np.ndarray, "B T"], Integer[np.ndarray, "B T"]]


# 1 · Batches


def batches(
    ids: Integer[np.ndarray, " N"], size: int, length: int, generator: np.random.Generator
) -> Iterator[Batch]:
    """Endless batches: inputs and targets, (size, length) each, of windows that begin anywhere in the text."""
    while True:
        starts = generator.integers(len(ids) - length, size=size)
        windows = ids[starts[:, None] + np.arange(length + 1)]
        yield windows[:, :-1], windows[:, 1:]


batched = exercise("training.batches", batches)


def _drawn(learner: Callable, n: int, *args: Any, seed: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
    """Returns n batches as arrays, or raises `Wrong`."""
    found = learner(*args, np.random.default_rng(seed))
    if not isinstance(found, Iterable) or isinstance(found, tuple | np.ndarray):
        raise Wrong(
            "batches(…) should be a generator: `yield` the pair of inputs and targets, again and again."
        )
    drawn = []
    try:
        for pair in islice(found, n):
            inputs, targets = expect_parts(pair, ("inputs", "targets"))
            drawn.append((np.asarray(inputs), np.asarray(targets)))
    except (
        IndexError,
        ValueError,
    ) as error:  # a window that is shorter than the others, or ids that are not there
        said = (
            f"batches(…) raised {type(error).__name__}: {error}. Does a window run past the end of the text? "
            "It needs length + 1 ids."
        )
        raise Wrong(said, what=type(error).__name__, got=0) from error
    if len(drawn) < n:
        said = f"batches(…) ended after {len(drawn)} batches; it should go on for as long as it is asked."
        raise Wrong(said, what="how many batches come", got=len(drawn))
    return drawn


_COUNTED = np.arange(200)  # the id of a place is its number


@batched.check("inputs and targets, (size, length) each")
def _(batches):
    for name, one in zip(("inputs", "targets"), _drawn(batches, 1, _COUNTED, 3, 5)[0], strict=True):
        expect_shape(one, (3, 5), f"the {name} of a batch of 3 windows of 5", axes="B T")


@batched.check("a window is a piece of the text as it stands")
def _(batches):
    inputs, _ = _drawn(batches, 1, _COUNTED, 4, 6)[0]
    expect(
        np.diff(inputs, axis=1), np.ones((4, 5), int), "by how many places neighbours in a window are apart"
    )


@batched.check("the target is the next id")
def _(batches):
    inputs, targets = _drawn(batches, 1, _COUNTED, 4, 6)[0]
    expect(targets - inputs, np.ones((4, 6), int), "by how many places the targets are after the inputs")


@batched.check("it goes on")
def _(batches):
    _drawn(batches, 12, _COUNTED, 2, 3)


def _starts(batches: Callable) -> list[int]:
    """Returns where 600 windows of 6 begin in a text of 9 ids."""
    return [int(start) for inputs, _ in _drawn(batches, 150, np.arange(9), 4, 6) for start in inputs[:, 0]]


@batched.check("every place can be a start, the first and the last, too")
def _(batches):
    starts = _starts(batches)
    expect(sorted(set(starts)), [0, 1, 2], "where windows of 6 begin in a text of 9 ids, in 150 batches,")


@batched.check("and all places equally often")
def _(batches):
    counts = np.bincount(_starts(batches), minlength=3)
    what = "whether 600 windows of 6 in a text of 9 ids begin about 200 times at each of its three places"
    expect(bool((abs(counts - 200) < 60).all()), True, what)  # five standard deviations


@batched.check("the windows of a batch begin at places of their own")
def _(batches):
    inputs, _ = _drawn(batches, 1, np.arange(5000), 32, 4)[0]
    few = len(set(inputs[:, 0].tolist())) <= 16
    expect(few, False, "whether many of 32 windows begin at the same place")


@batched.check("the generator decides: the same seed gives the same batches, another one others")
def _(batches):
    text = np.arange(5000)
    one, again, other = (_drawn(batches, 2, text, 4, 3, seed=seed)[1][0][:, 0] for seed in (5, 5, 6))
    expect(bool((one == again).all()), True, "whether the same seed gives the same batches")
    expect(bool((one == other).all()), False, "whether another seed gives the same batches")
    first, second = (inputs[:, 0] for inputs, _ in _drawn(batches, 2, text, 4, 3))
    expect(bool((first == second).all()), False, "whether the second batch is the first again")


def _batching(
    shift=1, starts=lambda g, n, size: g.integers(n, size=size), spread=0, once=False, turned=False
):
    """A wrong answer: one choice changed."""

    def wrong(ids, size, length, generator):
        while True:
            chosen = starts(generator, len(ids) - length + spread, size)
            places = np.asarray(chosen)[:, None] + np.arange(length)
            inputs, targets = ids[places], ids[np.minimum(places + shift, len(ids) - 1)]
            yield (inputs.T, targets.T) if turned else (inputs, targets)
            if once:
                return

    return wrong


batched.mistake("not shifted", _batching(shift=0))
batched.mistake("shifted twice", _batching(shift=2))
batched.mistake("shifted back", _batching(shift=-1))
batched.mistake("one batch", _batching(once=True))
batched.mistake("turned", _batching(turned=True))
batched.mistake("last start", _batching(spread=-1))
batched.mistake(
    "crowd at the end", _batching(starts=lambda g, n, size: np.minimum(g.integers(n + 6, size=size), n - 1))
)
batched.mistake("one window", _batching(starts=lambda g, n, size: np.full(size, g.integers(n))))
batched.mistake(
    "own seed", _batching(starts=lambda g, n, size: np.random.default_rng(0).integers(n, size=size))
)


@batched.mistake("one window")
def _(ids, size, length, generator):
    while True:
        start = generator.integers(len(ids) - length)
        window = np.stack([ids[start : start + length + 1]] * size)
        yield window[:, :-1], window[:, 1:]


@batched.mistake("random ids")
def _(ids, size, length, generator):
    while True:
        places = generator.integers(len(ids) - 1, size=(size, length))
        yield ids[places], ids[places + 1]


# 2 · Clipping


def clip(gradients: Mapping[str, np.ndarray], max_norm: float) -> tuple[Weights, float]:
    """All gradients, scaled by one factor if together they are longer than max_norm; and how long they were."""
    norm = math.sqrt(sum(float((g * g).sum()) for g in gradients.values()))
    factor = min(1.0, max_norm / (norm + 1e-6))
    return {name: g * factor for name, g in gradients.items()}, norm


clipped = exercise("training.clip", clip)


def _named(value: Any, names: Iterable[str], what: str) -> Mapping[str, Any]:
    """A dictionary with these names, or `Wrong`."""
    if not isinstance(value, Mapping):
        raise Wrong(f"{what} should be a dictionary with an array for each name.")
    if set(value) != set(names):
        theirs = sorted(map(str, value))
        said = f"{what} should have the names {', '.join(names)}; yours has {', '.join(theirs)}."
        raise Wrong(said, what=f"{what}: its names", got=(" ".join(theirs),))
    return value


def _clip_case(title: str, gradients: Weights, max_norm: float, want: dict[str, Any], norm: float) -> None:
    call = f"clip(gradients of length {norm:g}, {max_norm:g})"

    @clipped.check(title)
    def _(clip):
        found = clip(gradients, max_norm)
        if not isinstance(found, tuple | list) or len(found) != 2:
            raise Wrong(
                f"{call} should be a pair: the dictionary of clipped gradients, and the length they had."
            )
        named = _named(found[0], gradients, f"the first part of {call}")
        for name, right in want.items():
            expect(named[name], right, f"{name} of {call}")
        expect(found[1], norm, f"the length that {call} gives")


_SHORT = {"a": np.array([0.3]), "b": np.array([[0.0, 0.4]])}
_LONG = {"a": np.array([1e4, 2e4]), "b": np.array([[0.0, -2e4]])}  # what PyTorch adds, 1e-6, is nothing here
_clip_case("a short gradient stays as it is", _SHORT, 1.0, _SHORT, 0.5)
_clip_case("a long one becomes half as long", _LONG, 1.5e4, {"a": [5e3, 1e4], "b": [[0.0, -1e4]]}, 3e4)
_clip_case("or a quarter", _LONG, 7.5e3, {"a": [2.5e3, 5e3], "b": [[0.0, -5e3]]}, 3e4)
_clip_case(
    "each is short, together they are long: it is the whole that counts",
    {name: np.array([8e4, -8e4, 8e4, 8e4]) for name in "abcd"}, 1.6e5,
    {name: [4e4, -4e4, 4e4, 4e4] for name in "abcd"}, 3.2e5,
)  # fmt: skip
_clip_case("a gradient of zeros", {"a": np.zeros(3)}, 1.0, {"a": np.zeros(3)}, 0.0)


def _length(gradients):
    return math.sqrt(sum(float((g * g).sum()) for g in gradients.values()))


def _clipping(factor, norm=_length, gives=lambda before, after: _length(before)):
    """A wrong answer: another factor for each gradient."""

    def wrong(gradients, max_norm):
        after = {
            name: g * factor(g, norm(gradients), max_norm, max(_length({"": g}), 1e-9))
            for name, g in gradients.items()
        }
        return after, gives(gradients, after)

    return wrong


def _at_most(g, whole, limit, own):
    return min(1.0, limit / (whole + 1e-6))


clipped.mistake("each alone", _clipping(lambda g, whole, limit, own: min(1.0, limit / own)))
clipped.mistake("always", _clipping(lambda g, whole, limit, own: limit / (whole + 1e-6)))
clipped.mistake("not at all", _clipping(lambda g, whole, limit, own: 1.0))
clipped.mistake("squared", _clipping(_at_most, norm=lambda g: _length(g) ** 2))
clipped.mistake(
    "squared", _clipping(_at_most, lambda g: _length(g) ** 2, lambda before, after: _length(before) ** 2)
)
clipped.mistake("length given", _clipping(_at_most, gives=lambda before, after: _length(before) ** 2))
clipped.mistake("length after", _clipping(_at_most, gives=lambda before, after: _length(after)))
clipped.mistake("largest", _clipping(_at_most, norm=lambda g: max(abs(one).max() for one in g.values())))
clipped.mistake(
    "sum of lengths", _clipping(_at_most, norm=lambda g: sum(_length({"": one}) for one in g.values()))
)
clipped.mistake("to nothing", _clipping(lambda g, whole, limit, own: float(whole <= limit)))


@clipped.mistake("number by number")
def _(gradients, max_norm):
    return {name: np.clip(g, -max_norm, max_norm) for name, g in gradients.items()}, _length(gradients)


# 3 · The rate


def rate_at(step: int, peak: float, warmup: int, steps: int, final_share: float = 0.1) -> float:
    """The learning rate of step 0, 1, …: up in a line for `warmup` steps, then along half a cosine."""
    if step < warmup:
        return peak * (step + 1) / (warmup + 1)
    p = (step - warmup) / (steps - warmup)
    return peak * (final_share + (1 - final_share) * (1 + math.cos(math.pi * p)) / 2)


rated = exercise("training.rate_at", rate_at)

rated.case("the first step has a rate above 0", 0, 0.01, 4, 100, want=0.002)
rated.also(3, 0.01, 4, 100, want=0.008)
rated.case("after the warm-up comes the peak", 4, 0.01, 4, 100, want=0.01)
rated.case("half-way down: half-way between the peak and what is left", 52, 0.01, 4, 100, want=0.0055)
rated.also(28, 0.01, 4, 100, want=0.01 * (0.1 + 0.9 * (1 + math.sqrt(0.5)) / 2))
rated.case("at the end a tenth is left", 100, 0.01, 4, 100, want=0.001)
rated.case("or another share", 60, 0.3, 20, 100, final_share=0.5, want=0.225)
rated.also(60, 0.3, 20, 100, final_share=0.0, want=0.15)
rated.case("without a warm-up it begins at the peak", 0, 0.02, 0, 10, want=0.02)
rated.also(5, 0.02, 0, 10, want=0.011)


def _course(up=lambda s, w: (s + 1) / (w + 1), p=lambda s, w, n: (s - w) / (n - w), fall=None, share=None):
    """A wrong answer: another way up or down."""

    def wrong(step, peak, warmup, steps, final_share=0.1):
        if step < warmup:
            return peak * up(step, warmup)
        left = final_share if share is None else share
        down = (fall or (lambda p: (1 + math.cos(math.pi * p)) / 2))(p(step, warmup, steps))
        return peak * (left + (1 - left) * down)

    return wrong


rated.mistake("from zero", _course(up=lambda s, w: s / w))
rated.mistake("from zero", _course(up=lambda s, w: s / (w + 1)))
rated.mistake("peak early", _course(up=lambda s, w: (s + 1) / w))
rated.mistake("from the start", _course(p=lambda s, w, n: s / n))
rated.mistake("from the start", _course(p=lambda s, w, n: (s - w) / n))
rated.mistake("end early", _course(p=lambda s, w, n: (s - w) / (n - w - 1)))
rated.mistake("line", _course(fall=lambda p: 1 - p))
rated.mistake("whole wave", _course(fall=lambda p: (1 + math.cos(2 * math.pi * p)) / 2))
rated.mistake("degrees", _course(fall=lambda p: (1 + math.cos(180 * p)) / 2))
rated.mistake("quarter wave", _course(fall=lambda p: math.cos(math.pi * p / 2)))
rated.mistake("to zero", _course(share=0.0))
rated.mistake("upwards", _course(fall=lambda p: (1 - math.cos(math.pi * p)) / 2))
rated.mistake("no warm-up", _course(up=lambda s, w: 1.0))


@rated.mistake("cut off")
def _(step, peak, warmup, steps, final_share=0.1):
    if step < warmup:
        return peak * (step + 1) / (warmup + 1)
    p = (step - warmup) / (steps - warmup)
    return peak * max(final_share, (1 + math.cos(math.pi * p)) / 2)


@rated.mistake("share added")
def _(step, peak, warmup, steps, final_share=0.1):
    if step < warmup:
        return peak * (step + 1) / (warmup + 1)
    p = (step - warmup) / (steps - warmup)
    return peak * (final_share + (1 + math.cos(math.pi * p)) / 2)


# 4 · AdamW


def adamw(
    weight: np.ndarray,
    grad: np.ndarray,
    m: np.ndarray | float,
    v: np.ndarray | float,
    step: int,
    rate: float,
    betas: tuple[float, float] = (0.9, 0.95),
    eps: float = 1e-8,
    decay: float = 0.1,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One step, the first is number 1: the new weight, and the new means of the gradient and of its square."""
    m = betas[0] * m + (1 - betas[0]) * grad
    v = betas[1] * v + (1 - betas[1]) * grad**2
    mean, square = m / (1 - betas[0] ** step), v / (1 - betas[1] ** step)
    weight = weight - rate * decay * weight
    return weight - rate * mean / (np.sqrt(square) + eps), m, v


stepped = exercise("training.adamw", adamw, parts=("weight", "m", "v"))

stepped.case(
    "the means move a tenth and a twentieth of the way",
    np.array([1.0, 1.0]), np.array([2.0, -4.0]), np.array([1.0, 0.0]), np.array([1.0, 8.0]), 1, 0.5,
    part="m", want=[1.1, -0.4],
)  # fmt: skip
stepped.also(
    np.array([1.0, 1.0]), np.array([2.0, -4.0]), np.array([1.0, 0.0]), np.array([1.0, 8.0]), 1, 0.5,
    part="v", want=[1.15, 8.4],
)  # fmt: skip
stepped.case(
    "the first step is as long as the rate, whatever the gradient",
    np.zeros(3), np.array([500.0, -5e4, 3e6]), np.zeros(3), np.zeros(3), 1, 0.25, decay=0.0,
    part="weight", want=[-0.25, 0.25, -0.25],
)  # fmt: skip
stepped.case(
    "a gradient of 0 moves nothing",
    np.array([1.0, 2.0]), np.zeros(2), np.zeros(2), np.zeros(2), 1, 0.25, decay=0.0, part="weight", want=[1.0, 2.0],
)  # fmt: skip
stepped.case(
    "decay: a share of the weight, times the rate",
    np.array([10.0, -2.0]), np.zeros(2), np.zeros(2), np.zeros(2), 1, 0.5, decay=0.2, part="weight", want=[9.0, -1.8],
)  # fmt: skip


def _adamw_by_hand(
    w: float, g: float, m: float, v: float, t: int, rate: float, betas=(0.9, 0.95), eps=1e-8, decay=0.1
) -> tuple[float, float, float]:
    """Returns one weight and its memory after step t, in the order of Loshchilov and Hutter 2019, algorithm 2."""
    m += (1 - betas[0]) * (g - m)
    v += (1 - betas[1]) * (g * g - v)
    size = math.sqrt(v) / math.sqrt(1 - betas[1] ** t) + eps
    return w * (1 - rate * decay) - rate / (1 - betas[0] ** t) * m / size, m, v


def _each_by_hand(
    weight: Any, grad: Any, m: Any, v: Any, t: int, rate: float, **given: Any
) -> list[np.ndarray]:
    """Returns the arrays after step t: each number by itself."""
    each = zip(weight.flat, grad.flat, m.flat, v.flat, strict=True)
    found = np.array([_adamw_by_hand(*one, t, rate, **given) for one in each])
    return [one.reshape(weight.shape) for one in found.T]


@cache
def _adamw_run(n: int, betas: tuple[float, float], eps: float, decay: float, rate: float) -> tuple:
    """Returns weight, m and v before the last of so many steps; its gradient; and the three after it."""
    now = [numbers(3, 4), np.zeros((3, 4)), np.zeros((3, 4))]
    before, grad = now, np.zeros(0)
    for step in range(n):
        before, grad = now, numbers(3, 4, seed=step + 1) * 10.0 ** ((step % 3) - 1)
        weight, m, v = now
        now = _each_by_hand(weight, grad, m, v, step + 1, rate, betas=betas, eps=eps, decay=decay)
    return before, grad, now


def _adamw_case(title: str, n: int, *, betas=(0.9, 0.95), eps=1e-8, decay=0.1, rate=0.01) -> None:
    @stepped.check(title)
    def _(adamw):
        (weight, m, v), grad, want = _adamw_run(n, betas, eps, decay, rate)
        given = {"betas": betas, "eps": eps, "decay": decay}
        found = expect_parts(adamw(weight, grad, m, v, n, rate, **given), ("weight", "m", "v"))
        for name, value, right in zip(("weight", "m", "v"), found, want, strict=True):
            expect(value, right, f"{name} at step {n}, where PyTorch's AdamW has made the steps before,")


_adamw_case("as PyTorch's, at the seventh step", 7)
_adamw_case("with other numbers for everything", 4, betas=(0.8, 0.99), eps=0.1, decay=0.5, rate=0.2)


def _adam(
    means=lambda m, g, b: b * m + (1 - b) * g,
    squares=lambda v, g, b: b * v + (1 - b) * g**2,
    correct=lambda one, b, t: one / (1 - b**t),
    move=lambda mean, square, eps: mean / (np.sqrt(square) + eps),
    shrink=lambda w, rate, decay: w - rate * decay * w,
    sees=lambda g, w, decay: g,
    sign=1,
    keeps=lambda m, v, mean, square: (m, v),
    order=lambda betas: betas,
    corrects=lambda betas: betas,
    late=False,
):
    """A wrong answer: one line changed."""

    def wrong(weight, grad, m, v, step, rate, betas=(0.9, 0.95), eps=1e-8, decay=0.1):
        betas, grad = order(betas), sees(grad, weight, decay)
        m, v = means(m, grad, betas[0]), squares(v, grad, betas[1])
        one, other = corrects(betas)
        mean, square = correct(m, one, step), correct(v, other, step)
        moved = sign * rate * move(mean, square, eps)
        weight = shrink(weight - moved, rate, decay) if late else shrink(weight, rate, decay) - moved
        return weight, *keeps(m, v, mean, square)

    return wrong


stepped.mistake("no correction", _adam(correct=lambda one, b, t: one))
stepped.mistake("one too many", _adam(correct=lambda one, b, t: one / (1 - b ** (t + 1))))
stepped.mistake("decay in the gradient", _adam(sees=lambda g, w, d: g + d * w, shrink=lambda w, rate, d: w))
stepped.mistake("decay without the rate", _adam(shrink=lambda w, rate, d: w - d * w))
stepped.mistake("no decay", _adam(shrink=lambda w, rate, d: w))
stepped.mistake("decay adds", _adam(shrink=lambda w, rate, d: w + rate * d * w))
stepped.mistake("decay last", _adam(late=True))
stepped.mistake("corrections swapped", _adam(corrects=lambda betas: betas[::-1]))


@stepped.mistake("times the step")
def _(*args: Any, **given: Any):
    with np.errstate(invalid="ignore"):
        return _adam(correct=lambda one, b, t: one / (1 - b * t))(*args, **given)


stepped.mistake("eps inside", _adam(move=lambda mean, square, eps: mean / np.sqrt(square + eps)))
stepped.mistake("no root", _adam(move=lambda mean, square, eps: mean / (square + eps)))
stepped.mistake("no squares", _adam(move=lambda mean, square, eps: mean))
stepped.mistake("uphill", _adam(sign=-1))
stepped.mistake("sum", _adam(means=lambda m, g, b: b * m + g))
stepped.mistake("swapped shares", _adam(means=lambda m, g, b: (1 - b) * m + b * g))
stepped.mistake("swapped shares", _adam(squares=lambda v, g, b: (1 - b) * v + b * g**2))
stepped.mistake("betas swapped", _adam(order=lambda betas: betas[::-1]))
stepped.mistake("not squared", _adam(squares=lambda v, g, b: b * v + (1 - b) * abs(g)))
stepped.mistake("corrected kept", _adam(keeps=lambda m, v, mean, square: (mean, square)))
stepped.mistake("fixed betas", _adam(order=lambda betas: (0.9, 0.95)))


# 5 · Pieces of a batch


def accumulated(pieces: Sequence[tuple[np.ndarray, int]]) -> np.ndarray:
    """The gradient of a whole batch, from that of each piece and how many targets the piece has."""
    total = sum(n for _, n in pieces)
    return sum((gradient * (n / total) for gradient, n in pieces), np.zeros_like(pieces[0][0]))


added = exercise("training.accumulated", accumulated)

_two = np.array([1.0, -2.0]), np.array([3.0, 6.0])
added.case(
    "two equal pieces: the mean",
    [(_two[0], 5), (_two[1], 5)],
    want=[2.0, 2.0],
    what="accumulated of two pieces of 5 targets,",
)
added.case(
    "a piece with three times as many targets counts three times",
    [(_two[0], 3), (_two[1], 1)],
    want=[1.5, 0.0],
    what="accumulated of pieces with 3 targets and 1,",
)
added.case("one piece is the batch", [(_two[1], 7)], want=[3.0, 6.0], what="accumulated of one piece,")
added.case(
    "a matrix, and three pieces of which one is padding alone",
    [(np.full((2, 3), 4.0), 6), (np.zeros((2, 3)), 0), (np.full((2, 3), -2.0), 2)],
    want=np.full((2, 3), 2.5), what="accumulated of pieces with 6, 0 and 2 targets,",
)  # fmt: skip

added.mistake("plain mean", lambda pieces: sum(g for g, _ in pieces) / len(pieces))
added.mistake("sum", lambda pieces: sum(g for g, _ in pieces))
added.mistake("weighed sum", lambda pieces: sum(g * n for g, n in pieces))
added.mistake("last piece", lambda pieces: pieces[-1][0] * 1.0)
added.mistake(
    "divided twice", lambda pieces: sum(g * n for g, n in pieces) / sum(n for _, n in pieces) / len(pieces)
)
added.mistake("by pieces", lambda pieces: sum(g * n for g, n in pieces) / len(pieces))
added.mistake("already summed", lambda pieces: sum(g for g, _ in pieces) / sum(n for _, n in pieces))


# 6 · The loop


def train(
    weights: Weights,
    n_heads: int,
    batches: Iterable[Batch],
    steps: int,
    *,
    peak: float = 1e-2,
    warmup: int = 20,
    max_norm: float = 1.0,
) -> Iterator[float]:
    """Trains a GPT, and yields the loss of each step; the dictionary then has the new arrays."""
    memory: dict[str, tuple[Any, Any]] = {name: (0.0, 0.0) for name in weights}
    for step, (inputs, targets) in zip(range(steps), batches, strict=False):
        found = [
            gpt_gradients(ids, wanted, weights, n_heads) for ids, wanted in zip(inputs, targets, strict=True)
        ]
        mean = {name: np.mean([g[name] for _, g in found], axis=0) for name in weights}
        mean, _ = clip(mean, max_norm)
        rate = rate_at(step, peak, warmup, steps)
        for name, grad in mean.items():
            decay = 0.1 if grad.ndim == 2 else 0.0
            m, v = memory[name]
            weights[name], m, v = adamw(weights[name], grad, m, v, step + 1, rate, decay=decay)
            memory[name] = m, v
        yield float(np.mean([loss for loss, _ in found]))


looped = exercise("training.train", train, built_on=(clip, rate_at, adamw))


class _Given(dict):
    """Weights that an answer gets as they are, so that one can see what training made of them."""

    def __deepcopy__(self, memo: dict) -> "_Given":
        return self


_V, _D, _T = 7, 8, 5


@cache
def _some_batches(n: int, size: int) -> list[Batch]:
    ids = np.random.default_rng(n).integers(_V, size=(n, size, _T + 1))
    return [(one[:, :-1], one[:, 1:]) for one in ids]


@cache
def _trained_by_hand(
    n: int, size: int, n_layers: int, n_heads: int, peak: float, warmup: int, max_norm: float, exactly: bool
) -> tuple[list[float], list[Weights]]:
    """Returns the losses, and the weights after each step. The gradients are chapter 09's, which has them checked.

    `exactly`: clipped without the 1e-6 that PyTorch adds to the length.
    """
    weights = {name: w.copy() for name, w in _start(n_layers).items()}
    memory = {name: [np.zeros_like(w), np.zeros_like(w)] for name, w in weights.items()}
    losses, after = [], []
    for step, (inputs, targets) in enumerate(_some_batches(n, size)):
        texts = [
            gpt_gradients(ids, wanted, weights, n_heads) for ids, wanted in zip(inputs, targets, strict=True)
        ]
        grads = {name: np.add.reduce([of_text[name] for _, of_text in texts]) / size for name in weights}
        long = math.sqrt(math.fsum(one * one for grad in grads.values() for one in grad.flat))
        short = min(1.0, max_norm / (long if exactly else long + 1e-6))
        up = (step + 1) / (warmup + 1) if step < warmup else None
        down = 0.1 + 0.45 * (1 + math.cos(math.pi * (step - warmup) / (n - warmup)))
        rate = peak * (down if up is None else up)
        for name, w in weights.items():
            decay = 0.1 if w.ndim == 2 else 0.0
            m, v = memory[name]
            weights[name], *memory[name] = _each_by_hand(
                w, short * grads[name], m, v, step + 1, rate, decay=decay
            )
        losses.append(math.fsum(loss for loss, _ in texts) / size)
        after.append(dict(weights))
    return losses, after


@cache
def _start(n_layers: int) -> Weights:
    return gpt_weights(_V, _D, n_layers, seed=n_layers)


_LOOKED_AT = ("decoder.norm.weight", "token_embedding.weight", "decoder.norm.bias")


def _apart(losses: list[float], seen: list[Weights], want: list[float], after: list[Weights]) -> float:
    """Returns how far a run is from another: clipping with and without 1e-6 are both right, and close."""
    if len(losses) != len(want) or any(
        one[name].shape != other[name].shape
        for one, other in zip(seen, after, strict=True)
        for name in _LOOKED_AT
    ):
        return math.inf
    weights = [
        abs(one[name] - other[name]).max()
        for one, other in zip(seen, after, strict=True)
        for name in _LOOKED_AT
    ]
    return float(max(*weights, *abs(np.subtract(losses, want))))


def _train_case(
    title: str, n: int, size: int, n_layers: int, *, n_heads=2, peak=0.05, warmup=2, max_norm=1.0
) -> None:
    said = f"{n} step{'s' * (n > 1)}, {size} texts in a batch, peak {peak:g}, warm-up {warmup}, max_norm {max_norm:g}"

    @looped.check(title)
    def _(train):
        weights = _Given({name: w.copy() for name, w in _start(n_layers).items()})
        more = [*_some_batches(n, size), *_some_batches(3, size)]  # it is not to take them all
        given = {"peak": peak, "warmup": warmup, "max_norm": max_norm}
        found = train(weights, n_heads, more, n, **given)
        if isinstance(found, np.ndarray) or not isinstance(found, Iterable):
            raise Wrong("train(…) should be a generator: `yield` the loss of each step.")
        losses, seen = [], []
        for loss in islice(found, n + 2):
            losses.append(float(np.asarray(loss)))
            seen.append({name: np.array(weights.get(name)) for name in _LOOKED_AT})
        ways = [
            _trained_by_hand(n, size, n_layers, n_heads, peak, warmup, max_norm, exactly)
            for exactly in (False, True)
        ]
        want, after = min(ways, key=lambda way: _apart(losses, seen, *way))
        expect(np.array(losses), want, f"the losses of train ({said})")
        for name in _LOOKED_AT:
            expect(weights.get(name), after[-1][name], f"{name} after train ({said})")
            expect(seen[0][name], after[0][name], f"{name} after the first step of train ({said})")


_train_case("one step: the mean loss of the batch, and the weights are in the dictionary", 1, 2, 1, warmup=0)
_train_case("four steps: rate, clipping and memory", 4, 2, 1)
_train_case("four steps whose mean gradients are short enough", 4, 2, 1, max_norm=4.5)
_train_case("two blocks, and gradients that are clipped hard", 3, 2, 2, max_norm=0.05, warmup=0)


def _loop(
    rule=None,
    rate=rate_at,
    limit=lambda mean, max_norm: clip(mean, max_norm)[0],
    decays=lambda grad: 0.1 if grad.ndim == 2 else 0.0,
    forget=False,
    texts=lambda found: found,
    counts=lambda step: step + 1,
    total=np.mean,
    again=False,
    keep=True,
    later=False,
    piles=False,
    divide=True,
    longer=0,
    clips_each=False,
):
    """A wrong answer: one choice changed."""

    def wrong(weights, n_heads, batches, steps, *, peak=1e-2, warmup=20, max_norm=1.0):
        if not keep:
            weights = dict(weights)
        memory: dict[str, tuple[Any, Any]] = {name: (0.0, 0.0) for name in weights}
        pile = {name: 0.0 for name in weights}
        first = None
        for step, batch in zip(range(steps + longer), batches, strict=False):
            first = first or batch
            inputs, targets = first if again else batch
            found = texts(
                [gpt_gradients(*one, weights, n_heads) for one in zip(inputs, targets, strict=True)]
            )
            if clips_each:
                found = [(loss, clip(g, max_norm)[0]) for loss, g in found]
            share = 1 / len(found) if divide else 1
            mean = {name: share * sum(g[name] for _, g in found) for name in weights}
            if piles:
                pile = {name: pile[name] + mean[name] for name in mean}
                mean = pile
            mean = limit(mean, max_norm)
            for name, grad in mean.items():
                m, v = (0.0, 0.0) if forget else memory[name]
                if rule is not None:
                    weights[name] = rule(weights[name], grad, rate(step, peak, warmup, steps))
                    continue
                now = rate(step, peak, warmup, steps)
                weights[name], m, v = adamw(weights[name], grad, m, v, counts(step), now, decay=decays(grad))
                memory[name] = m, v
            if later:
                found = [gpt_gradients(*one, weights, n_heads) for one in zip(inputs, targets, strict=True)]
            yield float(total([loss for loss, _ in found]))

    return wrong


looped.mistake("weights kept apart", _loop(keep=False))
looped.mistake("loss summed", _loop(total=np.sum))
looped.mistake("first text", _loop(texts=lambda found: found[:1]))
looped.mistake("loss after", _loop(later=True))
looped.mistake("same batch", _loop(again=True))
looped.mistake("constant rate", _loop(rate=lambda step, peak, warmup, steps: peak))
looped.mistake("rate one late", _loop(rate=lambda step, *rest: rate_at(step + 1, *rest)))
looped.mistake("not clipped", _loop(limit=lambda mean, max_norm: mean))
looped.mistake("no memory", _loop(forget=True, counts=lambda step: 1))
looped.mistake("no memory", _loop(forget=True))
looped.mistake("count stands", _loop(counts=lambda step: 1))
looped.mistake("decay everywhere", _loop(decays=lambda grad: 0.1))
looped.mistake("no decay", _loop(decays=lambda grad: 0.0))
looped.mistake("gradients pile up", _loop(piles=True))
looped.mistake("sum for the mean", _loop(divide=False))
looped.mistake("each text clipped", _loop(clips_each=True))
looped.mistake("too long", _loop(longer=1))
looped.mistake("plain descent", _loop(rule=lambda weight, grad, rate: weight - rate * grad))


@looped.mistake("step for step")
def _(weights, n_heads, batches, steps, **given: Any):
    own = dict(weights)
    yield from train(own, n_heads, batches, steps, **given)
    weights.update(own)


# 7 · What is wrong with this run?

FINE, START, BROKEN, TARGETS, LEAK, OVERFIT = "fine", "start", "broken", "targets", "leak", "overfitting"


def diagnose(
    first: float, one_batch: float, training: float, validation: float, vocab_size: int, unigram: float
) -> str:
    """Returns what a run's few numbers show, with the cheapest test first."""
    if first > math.log(vocab_size) + 0.5:
        return "start"
    if one_batch > 0.1:
        return "broken"
    if training > unigram - 0.05:
        return "targets"
    if validation < 0.5:
        return "leak"
    if validation > training + 0.3:
        return "overfitting"
    return "fine"


judged = exercise("training.diagnose", diagnose)

judged.case("a good run", 4.2, 0.03, 1.52, 1.61, 65, 3.35, want=FINE)
judged.case("it begins far above ln V", 9.7, 0.02, 1.9, 1.95, 65, 3.35, want=START)
judged.also(5.5, 0.02, 1.9, 1.95, 65, 3.35, want=START)
judged.also(4.6, 0.02, 1.9, 1.95, 65, 3.35, want=FINE)
judged.also(10.9, 0.02, 3.1, 3.2, 50_257, 7.7, want=FINE)
judged.case("one batch is not learned by heart", 4.2, 1.3, 2.4, 2.45, 65, 3.35, want=BROKEN)
judged.case("it knows no more than how often characters occur", 4.2, 0.02, 3.34, 3.36, 65, 3.35, want=TARGETS)
judged.also(7.0, 0.02, 2.9, 2.95, 700, 2.92, want=TARGETS)
judged.case("too good to be true", 4.2, 0.01, 0.03, 0.02, 65, 3.35, want=LEAK)
judged.case("good on its own text, bad on another", 4.2, 0.02, 0.92, 3.7, 65, 3.35, want=OVERFIT)
judged.also(4.2, 0.02, 0.03, 4.9, 65, 3.35, want=OVERFIT)
judged.also(4.2, 0.02, 1.5, 1.75, 65, 3.35, want=FINE)
judged.also(4.2, 0.02, 2.0, 2.35, 65, 3.35, want=OVERFIT)
judged.also(4.2, 0.02, 0.6, 0.85, 65, 3.35, want=FINE)
judged.case("a first loss below ln V is no fault", 3.0, 0.02, 1.9, 1.95, 65, 3.35, want=FINE)
judged.case("the limits are those of the list", 4.2, 0.3, 1.9, 1.95, 65, 3.35, want=BROKEN)
judged.also(4.2, 0.02, 3.32, 3.33, 65, 3.35, want=TARGETS)
judged.also(4.2, 0.02, 3.27, 3.3, 65, 3.35, want=FINE)
judged.also(4.2, 0.02, 1.0, 0.7, 65, 3.35, want=FINE)
judged.also(4.2, 0.02, 0.6, 0.45, 65, 3.35, want=LEAK)
judged.case("of several, the first in the list", 9.7, 2.0, 3.4, 3.4, 65, 3.35, want=START)
judged.also(4.2, 2.0, 3.4, 3.4, 65, 3.35, want=BROKEN)
judged.also(4.2, 0.02, 3.4, 4.0, 65, 3.35, want=TARGETS)
judged.also(4.2, 0.02, 3.4, 0.3, 65, 3.35, want=TARGETS)
judged.also(4.2, 0.02, 0.05, 0.45, 65, 3.35, want=LEAK)


def _judging(
    begins=lambda first, V: first > math.log(V) + 0.5,
    stuck=lambda training, unigram: training > unigram - 0.05,
    good=lambda training, validation: validation < 0.5,
    apart=lambda training, validation: validation > training + 0.3,
    order=(START, BROKEN, TARGETS, LEAK, OVERFIT),
    by_heart=lambda one_batch: one_batch > 0.1,
):
    """A wrong answer: one rule changed."""

    def wrong(first, one_batch, training, validation, vocab_size, unigram):
        says = {
            START: begins(first, vocab_size),
            BROKEN: by_heart(one_batch),
            TARGETS: stuck(training, unigram),
            LEAK: good(training, validation),
            OVERFIT: apart(training, validation),
        }
        return next((name for name in order if says[name]), FINE)

    return wrong


judged.mistake("fixed start", _judging(begins=lambda first, V: first > math.log(65) + 0.5))
judged.mistake("exact start", _judging(begins=lambda first, V: first > math.log(V)))
judged.mistake("log2", _judging(begins=lambda first, V: first > math.log2(V) + 0.5))
judged.mistake("fixed unigram", _judging(stuck=lambda training, unigram: training > 3.3))
judged.mistake("training leak", _judging(good=lambda training, validation: training < 0.5))
judged.mistake("any gap", _judging(apart=lambda training, validation: validation > training))
judged.mistake("order", _judging(order=(OVERFIT, LEAK, TARGETS, BROKEN, START)))
judged.mistake("order", _judging(order=(BROKEN, START, TARGETS, LEAK, OVERFIT)))
judged.mistake("order", _judging(order=(START, BROKEN, OVERFIT, TARGETS, LEAK)))
judged.mistake("order", _judging(order=(START, BROKEN, LEAK, TARGETS, OVERFIT)))
judged.mistake("order", _judging(order=(START, BROKEN, TARGETS, OVERFIT, LEAK)))
judged.mistake("both sides", _judging(begins=lambda first, V: abs(first - math.log(V)) > 0.5))
judged.mistake("lenient", _judging(by_heart=lambda one_batch: one_batch > 1))
judged.mistake("a share", _judging(apart=lambda training, validation: validation > 1.3 * training))
judged.mistake("above the line", _judging(stuck=lambda training, unigram: training > unigram + 0.05))
judged.mistake("gap turned", _judging(apart=lambda training, validation: training > validation + 0.3))


# 8 · Going on


def restore(arrays: Mapping[str, np.ndarray]) -> tuple[Weights, Weights, Weights, int]:
    """The weights, the means m and v, each by the weights' own names, and how many steps are done."""
    weights, m, v = (
        {name.removeprefix(start): a.copy() for name, a in arrays.items() if name.startswith(start)}
        for start in ("weights/", "m/", "v/")
    )
    return weights, m, v, int(arrays["step"])


restored = exercise("training.restore", restore)


def _kept(names: Sequence[str], step: int) -> Weights:
    drawn = {
        f"{part}/{name}": numbers(2, 3, seed=100 * i + k)
        for k, name in enumerate(names)
        for i, part in enumerate(("weights", "m", "v"))
    }
    return drawn | {"step": np.array(step)}


def _restore_case(title: str, names: Sequence[str], step: int) -> None:
    arrays = _kept(names, step)

    @restored.check(title)
    def _(restore):
        found = restore(arrays)
        if not isinstance(found, tuple | list) or len(found) != 4:
            raise Wrong("restore(arrays) should be four things: weights, m, v, and the number of steps.")
        for part, value in zip(("weights", "m", "v"), found[:3], strict=True):
            named = _named(value, names, f"{part} of restore(arrays)")
            for name in names:
                expect(named[name], arrays[f"{part}/{name}"], f"{part}[{name!r}] of restore(arrays)")
        expect(found[3], step, "the number of steps of restore(arrays)")
        if isinstance(found[3], np.ndarray | float):
            raise Wrong(
                f"the number of steps should be a whole number, int(…); yours is {type(found[3]).__name__}."
            )


_restore_case("one weight", ("W",), 3)
_restore_case("names with dots and slashes of their own", ("decoder.norm.weight", "a/b", "m/W", "mm"), 12)
_restore_case("before the first step", ("W", "weights/W"), 0)


@restored.check("what is restored is no window into the file's arrays")
def _(restore):
    arrays = _kept(("W",), 3)
    given = _Given(arrays)
    found = restore(given)
    for part in found[:3]:
        with suppress(TypeError):  # a list has no numbers that others look at
            part["W"][...] = 99.0
    changed = any(bool((arrays[f"{part}/W"] == 99.0).any()) for part in ("weights", "m", "v"))
    expect(changed, False, "whether training on changes the arrays of the file")


def _restoring(
    parts=("weights/", "m/", "v/"), cut=lambda name, start: name[len(start) :], step=int, of=np.copy
):
    """A wrong answer: one choice changed."""

    def wrong(arrays):
        found = ({cut(n, s): of(a) for n, a in arrays.items() if n.startswith(s)} for s in parts)
        return *found, step(arrays["step"])

    return wrong


restored.mistake("m and v", _restoring(parts=("weights/", "v/", "m/")))
restored.mistake("names uncut", _restoring(cut=lambda name, start: name))
restored.mistake("last part of the name", _restoring(cut=lambda name, start: name.rsplit("/", 1)[-1]))
restored.mistake("letters", _restoring(cut=lambda name, start: name.lstrip(start)))
restored.mistake("every prefix", _restoring(cut=lambda name, start: name.replace(start, "")))
restored.mistake("one more", _restoring(step=lambda step: int(step) + 1))
restored.mistake("one less", _restoring(step=lambda step: int(step) - 1))
restored.mistake("views", _restoring(of=lambda a: a))


@restored.mistake("views")
def _(arrays):
    weights, m, v, step = restore(arrays)
    return weights, {name: arrays[f"m/{name}"] for name in m}, {name: arrays[f"v/{name}"] for name in v}, step


@restored.mistake("memory lost")
def _(arrays):
    weights, m, v, step = restore(arrays)
    return weights, *({name: np.zeros_like(a) for name, a in one.items()} for one in (m, v)), step


@restored.mistake("steps lost")
def _(arrays):
    return *restore(arrays)[:3], 0


# 9 · In PyTorch


def gpt_torch(ids: Any, weights: Mapping[str, Any], n_heads: int) -> Any:
    """Ids (T,) to logits (T, V), all of it in PyTorch: whoever calls `backward` gets every gradient."""
    from torch.nn import functional

    table = weights["token_embedding.weight"]
    x = table[ids] + weights["decoder.positions.weight"][: len(ids)]
    n_layers = sum(name.endswith("norm_attention.weight") for name in weights)
    for i in range(n_layers):
        at = f"decoder.blocks.{i}."
        w = {name.removeprefix(at): one for name, one in weights.items() if name.startswith(at)}
        normed = functional.layer_norm(x, x.shape[-1:], w["norm_attention.weight"], w["norm_attention.bias"])
        q, k, v = (
            (normed @ w[f"attention.W_{name}.weight"]).unflatten(-1, (n_heads, -1)).transpose(0, 1)
            for name in "qkv"
        )
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + mixed.transpose(0, 1).flatten(1) @ w["attention.W_o.weight"]
        normed = functional.layer_norm(
            x, x.shape[-1:], w["norm_feedforward.weight"], w["norm_feedforward.bias"]
        )
        wide = functional.gelu(normed @ w["feedforward.W_up.weight"] + w["feedforward.W_up.bias"])
        x = x + wide @ w["feedforward.W_down.weight"] + w["feedforward.W_down.bias"]
    x = functional.layer_norm(x, x.shape[-1:], weights["decoder.norm.weight"], weights["decoder.norm.bias"])
    return x @ table.T


in_torch = exercise("training.gpt_torch", gpt_torch, axes="T V", needs=("torch",))


def _as_tensors(weights: Weights) -> dict[str, Any]:
    import torch

    return {name: torch.tensor(w, requires_grad=True) for name, w in weights.items()}


def _in_torch_case(title: str, T: int, n_layers: int, n_heads: int) -> None:
    what = f"gpt_torch of {T} ids, {n_layers} block{'s' * (n_layers != 1)} and {n_heads} heads,"

    @in_torch.check(title)
    def _(gpt_torch):
        import torch

        ids = np.random.default_rng(T).integers(_V, size=T)
        found = gpt_torch(torch.tensor(ids), _as_tensors(_start(n_layers)), n_heads)
        expect(found, gpt_by_hand(ids, _start(n_layers), n_heads), what, axes="T V")


_in_torch_case("no block: look up, norm, head", 3, 0, 2)
_in_torch_case("one token and one block", 1, 1, 2)
_in_torch_case("one block, two heads", 5, 1, 2)
_in_torch_case("two blocks, four heads", 6, 2, 4)


@in_torch.check("a tensor that knows where it comes from: every weight gets the gradient of chapter 09")
def _(gpt_torch):
    import torch
    from torch.nn import functional

    ids = np.random.default_rng(9).integers(_V, size=_T + 1)
    weights = _as_tensors(_start(1))
    # What the checks hand back is an array: to go backwards, the tensor itself is needed.
    logits = getattr(gpt_torch, "function", gpt_torch)(torch.tensor(ids[:-1]), weights, 2)
    _, want = gpt_gradients(ids[:-1], ids[1:], _start(1), 2)
    if not isinstance(logits, torch.Tensor):
        raise Wrong(
            "gpt_torch(…) should be a tensor: compute in PyTorch from beginning to end.", what="kind", got=0
        )
    if not logits.requires_grad:
        raise Wrong(
            "gpt_torch(…) does not know where it comes from: without .detach(), .numpy(), .item() or no_grad.",
            what="where it comes from", got=0,
        )  # fmt: skip
    functional.cross_entropy(logits, torch.tensor(ids[1:])).backward()
    for name in sorted(want):
        grad = weights[name].grad
        if grad is None:
            raise Wrong(f"{name} gets no gradient from gpt_torch(…).", what=f"the gradient of {name}", got=0)
        expect(grad, want[name], f"the gradient of {name}")


def _gpt_of_torch(
    gelu=lambda x: 0.5 * x * (1 + (x / math.sqrt(2)).erf()),
    scale=lambda K: math.sqrt(K),
    causal=True,
    table=lambda one: one,
    stream=lambda x: x,
    end=lambda x: x,
    heads=lambda y, H: y.reshape(len(y), H, -1).transpose(0, 1),
    merged=lambda y: y.transpose(0, 1).reshape(y.shape[1], -1),
    final=True,
    add=True,
    places=True,
    biases=True,
):
    """A wrong answer: one choice changed."""

    def norm(x, w, name):
        centred = x - x.mean(-1, keepdim=True)
        return (
            centred / (centred.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt() * w[f"{name}.weight"]
            + w[f"{name}.bias"]
        )

    def wrong(ids, weights, n_heads):
        E = weights["token_embedding.weight"]
        x = table(E)[ids]
        if places:
            x = x + weights["decoder.positions.weight"][: len(ids)]
        i = 0
        while f"decoder.blocks.{i}.attention.W_q.weight" in weights:
            at = f"decoder.blocks.{i}."
            w = {name[len(at) :]: one for name, one in weights.items() if name.startswith(at)}
            normed = norm(x, w, "norm_attention")
            q, k, v = (heads(normed @ w[f"attention.W_{name}.weight"], n_heads) for name in "qkv")
            scores = q @ k.transpose(1, 2) / scale(q.shape[-1])
            if causal:
                ahead = scores.new_ones(scores.shape[-2:]).triu(1).bool()
                scores = scores.masked_fill(ahead, -math.inf)
            mixed = merged(scores.softmax(-1) @ v) @ w["attention.W_o.weight"]
            x = x + mixed if add else mixed
            wide = (
                norm(x, w, "norm_feedforward") @ w["feedforward.W_up.weight"]
                + biases * w["feedforward.W_up.bias"]
            )
            x = stream(
                x + gelu(wide) @ w["feedforward.W_down.weight"] + biases * w["feedforward.W_down.bias"]
            )
            i += 1
        if final:
            x = norm(x, weights, "decoder.norm")
        return end(x @ E.T)

    return wrong


in_torch.mistake("not causal", _gpt_of_torch(causal=False))
in_torch.mistake(
    "tanh", _gpt_of_torch(gelu=lambda x: 0.5 * x * (1 + (0.7978845608 * (x + 0.044715 * x**3)).tanh()))
)
in_torch.mistake("no root", _gpt_of_torch(scale=lambda K: 1.0))
in_torch.mistake("detached", _gpt_of_torch(end=lambda x: x.detach()))
in_torch.mistake("detached", _gpt_of_torch(end=lambda x: x.detach().numpy()))
in_torch.mistake("cut in the middle", _gpt_of_torch(stream=lambda x: x.detach()))
in_torch.mistake("embedding cut", _gpt_of_torch(table=lambda one: one.detach()))
in_torch.mistake("softmax", _gpt_of_torch(end=lambda x: x.softmax(-1)))
in_torch.mistake("no final norm", _gpt_of_torch(final=False))
in_torch.mistake("no residual", _gpt_of_torch(add=False))
in_torch.mistake("no positions", _gpt_of_torch(places=False))
in_torch.mistake("no biases", _gpt_of_torch(biases=0.0))
in_torch.mistake("heads by reshape", _gpt_of_torch(heads=lambda y, H: y.reshape(H, len(y), -1)))
in_torch.mistake("merged by reshape", _gpt_of_torch(merged=lambda y: y.reshape(y.shape[1], -1)))


# 10 · Muon's matrix


def orthogonal(G: Float[np.ndarray, "N M"], iterations: int = 4) -> Float[np.ndarray, "N M"]:
    """The directions of G, all about equally long: so many rounds of a polynomial in X and X Xᵀ."""
    a, b, c = 3.4445, -4.7750, 2.0315
    X = G / np.linalg.norm(G)
    for _ in range(iterations):
        Z = X @ X.T
        X = a * X + (b * Z + c * Z @ Z) @ X
    return X


squared = exercise("training.orthogonal", orthogonal, axes="N M")


def _by_singular_values(G: np.ndarray, iterations: int) -> np.ndarray:
    """Each singular value by itself through the polynomial; the directions as they are."""
    U, S, Vt = np.linalg.svd(G, full_matrices=False)
    S = S / math.sqrt(math.fsum(S**2))
    for _ in range(iterations):
        S = 3.4445 * S - 4.7750 * S**3 + 2.0315 * S**5
    return U * S @ Vt


squared.case("one number: 3.4445 − 4.7750 + 2.0315", np.array([[5.0]]), 1, want=[[0.701]])
squared.case(
    "no rounds: divided by the length of the whole matrix",
    np.array([[3.0, 0.0], [0.0, 4.0]]),
    0,
    want=[[0.6, 0.0], [0.0, 0.8]],
)
_G = np.array([[3.0, 0.0], [0.0, -4.0]])
squared.case("a diagonal, one round", _G, 1, want=_by_singular_values(_G, 1))
for _title, _shape, _rounds, _seed in (  # where float32 loses less than the seventh digit
    ("a wide matrix, two rounds", (3, 5), 2, 2),
    ("a tall one, four", (6, 2), 4, 19),
    ("a square one, five", (4, 4), 5, 23),
):
    _G = numbers(*_shape, seed=_seed)
    squared.case(_title, _G, _rounds, want=_by_singular_values(_G, _rounds))
_G = numbers(4, 6, seed=9) * 1e3
squared.case("how long the gradient is makes no difference", _G, want=_by_singular_values(_G, 4))


def _rounds_of(
    size=np.linalg.norm,
    coefficients=(3.4445, -4.7750, 2.0315),
    step=lambda X, a, b, c: a * X + (b * X @ X.T + c * X @ X.T @ X @ X.T) @ X,
    count=lambda n: n,
    between=lambda X: X,
):
    """A wrong answer: one choice changed."""

    def wrong(G, iterations=4):
        X = G / size(G)
        for _ in range(count(iterations)):
            X = between(step(X, *coefficients))
        return X

    return wrong


squared.mistake("not divided", _rounds_of(size=lambda G: 1.0))
squared.mistake("largest number", _rounds_of(size=lambda G: abs(G).max()))
squared.mistake("largest direction", _rounds_of(size=lambda G: np.linalg.norm(G, 2)))
squared.mistake("squared length", _rounds_of(size=lambda G: np.linalg.norm(G) ** 2))
squared.mistake("row by row", _rounds_of(size=lambda G: np.linalg.norm(G, axis=1, keepdims=True)))
squared.mistake("one round", _rounds_of(count=lambda n: min(n, 1)))
squared.mistake("one round more", _rounds_of(count=lambda n: n + 1))
squared.mistake("divided again", _rounds_of(between=lambda X: X / np.linalg.norm(X)))
squared.mistake("coefficients swapped", _rounds_of(coefficients=(3.4445, 2.0315, -4.7750)))
squared.mistake("no fifth power", _rounds_of(coefficients=(3.4445, -4.7750, 0.0)))
squared.mistake("first term", _rounds_of(step=lambda X, a, b, c: (b * X @ X.T + c * X @ X.T @ X @ X.T) @ X))
squared.mistake(
    "squared number by number",
    _rounds_of(step=lambda X, a, b, c: a * X + (b * X @ X.T + c * (X @ X.T) ** 2) @ X),
)
squared.mistake("number by number", _rounds_of(step=lambda X, a, b, c: a * X + b * X**3 + c * X**5))


@squared.mistake("square kept")
def _(G, iterations=4):
    X = G / np.linalg.norm(G)
    Z = X @ X.T
    for _ in range(iterations):
        X = 3.4445 * X + (-4.7750 * Z + 2.0315 * Z @ Z) @ X
    return X


squared.mistake(
    "exactly", lambda G, iterations=4: (lambda U, S, Vt: U @ Vt)(*np.linalg.svd(G, full_matrices=False))
)
