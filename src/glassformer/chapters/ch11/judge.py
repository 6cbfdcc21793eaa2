"""Judges the exercises of chapter 11, "Generating"; their prose is in exercises.toml.

For each: the reference; then its checks, in teaching order; then its classic mistakes. What is right comes from
hand-worked numbers, from closed forms, and for whole texts from the package's own `generate`, which shares no code with
what is asked. The axes: T positions, V vocabulary, D d_model, H heads, K d_head.
"""
# ruff: noqa: ANN001, ANN202 - a check is read by its title, a mistake by its sentence

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from glassformer.chapters.ch05.judge import layer_norm
from glassformer.chapters.ch06.judge import feed_forward
from glassformer.chapters.ch08.judge import gpt
from glassformer.exercises.catalogue import exercise
from glassformer.exercises.exercise import Exercise
from glassformer.exercises.expect import Wrong, as_numbers, expect, expect_parts, expect_shape
from glassformer.scratch.attention import merge_heads, softmax, split_heads
from glassformer.shapes import Bool, Float, Integer

Weights = Mapping[str, np.ndarray]
NO = -math.inf


# What strategies leave, as the distribution that is drawn from: logits with −inf are compared as probabilities


def _left(one: Exercise, title: str, *args: Any, want: Any, said: str, also: bool = False) -> None:
    """The next check: softmax of what comes back is `want`. `also`: one more call in the check before."""

    def step(learner: Callable[..., Any]) -> None:
        logits, right = as_numbers(learner(*args), said).astype(np.float64), np.asarray(want)
        if logits.shape != right.shape:
            expect_shape(logits, right.shape, said)
        if np.isnan(logits).any() or (logits == math.inf).any() or (logits.max(axis=-1) == NO).any():
            raise Wrong(
                f"{said} leaves nothing that one could draw from: {logits.tolist()}.", what=said, got=0
            )
        expect(softmax(logits), right, f"softmax of {said}")

    one.check(title)(step) if not also else one.checks[-1].steps.append(step)


def _log(*p: float) -> np.ndarray:
    """Logits whose softmax is p."""
    return np.log(np.array(p))


# 1 · Temperature


def temper(logits: Float[np.ndarray, "*B V"], temperature: float | int) -> Float[np.ndarray, "*B V"]:
    """Logits divided by the temperature; at 0, the likeliest alone, and of several alike the first."""
    if temperature > 0:
        return logits / temperature
    first = logits.argmax(axis=-1, keepdims=True) == np.arange(logits.shape[-1])
    return np.where(first, 0.0, -np.inf)


warm = exercise("generating.temper", temper)

_p = _log(0.75, 0.25)
_left(warm, "at temperature 1 nothing changes", _p, 1.0, want=[0.75, 0.25], said="temper(logits, 1)")
_left(
    warm, "at 1/2 a ratio of 3 to 1 becomes 9 to 1: its square", _p, 0.5,
    want=[0.9, 0.1], said="temper(logits, 0.5)",
)  # fmt: skip
_p = _log(16.0, 4.0, 1.0, 1.0) + 3.0
_left(
    warm, "at 2 ratios become their roots, whatever is added to all logits", _p, 2.0,
    want=np.array([4.0, 2, 1, 1]) / 8, said="temper(logits, 2)",
)  # fmt: skip
_p = np.stack([_log(0.2, 0.8), _log(0.5, 0.5)])
_left(
    warm, "a batch: each row by itself", _p, 0.5,
    want=[[1 / 17, 16 / 17], [0.5, 0.5]], said="temper of two rows at 0.5",
)  # fmt: skip
_left(
    warm, "at 0 the likeliest has everything, and of two alike the first", np.array([1.0, 3.0, 3.0]), 0,
    want=[0.0, 1.0, 0.0], said="temper([1, 3, 3], 0)",
)  # fmt: skip
_left(
    warm, "", np.array([[-4.0, -2.0], [5.0, 1.0]]), 0,
    want=[[0.0, 1.0], [1.0, 0.0]], said="temper of two rows at 0", also=True,
)  # fmt: skip


def _tempered(by):
    return lambda logits, temperature: by(logits, temperature) if temperature else temper(logits, 0)


warm.mistake("multiplied", _tempered(lambda x, T: x * T))
warm.mistake("on probabilities", _tempered(lambda x, T: softmax(x) / T))
warm.mistake("softmax twice", _tempered(lambda x, T: softmax(x / T)))
warm.mistake("ignored", _tempered(lambda x, T: x))
warm.mistake("power of the logits", _tempered(lambda x, T: np.sign(x) * abs(x) ** (1 / T)))


@warm.mistake("all of the largest")
def _(logits, temperature):
    if temperature:
        return logits / temperature
    return np.where(logits == logits.max(axis=-1, keepdims=True), 0.0, NO)


@warm.mistake("zero as one")
def _(logits, temperature):
    return logits / (temperature or 1)


@warm.mistake("largest of the batch")
def _(logits, temperature):
    if temperature:
        return logits / temperature
    first = np.argmax(logits) % logits.shape[-1] == np.arange(logits.shape[-1])
    return np.where(first, np.zeros(logits.shape), NO)


# 2 · The k likeliest


def top_k(logits: Float[np.ndarray, "*B V"], k: int) -> Float[np.ndarray, "*B V"]:
    """The k largest logits as they are; −inf for the others."""
    k = min(k, logits.shape[-1])
    smallest = np.sort(logits, axis=-1)[..., -k, None]
    return np.where(logits < smallest, -np.inf, logits)


few = exercise("generating.top_k", top_k)

_five = _log(0.1, 0.4, 0.05, 0.3, 0.15)
_left(few, "two of five", _five, 2, want=[0, 4 / 7, 0, 3 / 7, 0], said="top_k(logits, 2)")
_left(few, "one: greedy", _five, 1, want=[0.0, 1, 0, 0, 0], said="top_k(logits, 1)")
_left(
    few, "negative logits, too: 0 would be large", _five - 5, 3,
    want=[0, 8 / 17, 0, 6 / 17, 3 / 17], said="top_k(negative logits, 3)",
)  # fmt: skip
_left(
    few, "all, and more than there are", _five, 5, want=[0.1, 0.4, 0.05, 0.3, 0.15], said="top_k(logits, 5)"
)
_left(few, "", _five, 50, want=[0.1, 0.4, 0.05, 0.3, 0.15], said="top_k(logits of 5 ids, 50)", also=True)
_left(
    few, "a batch: each row has its own", np.stack([_five, _five[::-1] - 2]), 2,
    want=[[0, 4 / 7, 0, 3 / 7, 0], [0, 3 / 7, 0, 4 / 7, 0]], said="top_k of two rows with k = 2",
)  # fmt: skip


@few.mistake("zero instead")
def _(logits, k):
    return np.where(np.isneginf(top_k(logits, k)), 0.0, logits)


few.mistake("one more", lambda logits, k: top_k(logits, k + 1))


@few.mistake("one fewer")
def _(logits, k):
    smallest = np.sort(logits, axis=-1)[..., -min(k, logits.shape[-1]), None]
    return np.where(logits <= smallest, NO, logits)


@few.mistake("one row alone")
def _(z, k):
    smallest = np.sort(z)[-k]
    return np.where(z < smallest, NO, z)


@few.mistake("smallest")
def _(logits, k):
    largest = np.sort(logits, axis=-1)[..., min(k, logits.shape[-1]) - 1, None]
    return np.where(logits > largest, NO, logits)


few.mistake("k left out", lambda logits, k: top_k(logits, max(1, logits.shape[-1] - k)))


@few.mistake("first ids")
def _(logits, k):
    return np.where(np.arange(logits.shape[-1]) < k, logits, NO)


@few.mistake("of the batch")
def _(logits, k):
    smallest = np.sort(logits, axis=None)[-min(k, logits.size)]
    return np.where(logits < smallest, -1e9, logits)


@few.mistake("sorted")
def _(logits, k):
    best = -np.sort(-logits, axis=-1)
    best[..., k:] = NO
    return best


# 3 · The nucleus


def top_p(logits: Float[np.ndarray, "*B V"], p: float | int) -> Float[np.ndarray, "*B V"]:
    """The fewest of the likeliest ids that have the probability p together; −inf for the others."""
    order = np.argsort(-logits, axis=-1, kind="stable")
    shares = np.take_along_axis(softmax(logits), order, axis=-1)
    before = np.cumsum(shares, axis=-1) - shares  # what those likelier than it have together
    out = np.empty(logits.shape, dtype=bool)
    np.put_along_axis(out, order, before >= p, axis=-1)
    return np.where(out, -np.inf, logits)


nucleus = exercise("generating.top_p", top_p, built_on=(softmax,))

_left(
    nucleus, "the id that crosses p stays: 0.4 and 0.3 are not yet 0.8", _five, 0.8,
    want=np.array([0, 0.4, 0, 0.3, 0.15]) / 0.85, said="top_p(logits, 0.8)",
)  # fmt: skip
_left(nucleus, "the likeliest always stays", _five, 0.01, want=[0.0, 1, 0, 0, 0], said="top_p(logits, 0.01)")
_left(
    nucleus, "a sure model keeps one, an unsure one many", np.stack([_log(0.9, 0.04, 0.03, 0.02, 0.01), _five]), 0.87,
    want=[[1, 0, 0, 0, 0], np.array([0.1, 0.4, 0, 0.3, 0.15]) / 0.95], said="top_p of two rows with p = 0.87",
)  # fmt: skip
_left(
    nucleus, "logits far from 0 mean the same", _five * 1 - 7, 0.6,
    want=[0, 4 / 7, 0, 3 / 7, 0], said="top_p(negative logits, 0.6)",
)  # fmt: skip
_left(
    nucleus, "at 1 everything stays", _five, 1.0,
    want=[0.1, 0.4, 0.05, 0.3, 0.15], said="top_p(logits, 1)",
)  # fmt: skip


@nucleus.check("no more than it takes: of four alike, two have one half")
def _(learner):
    logits = as_numbers(learner(np.zeros(4), 0.5), "top_p([0, 0, 0, 0], 0.5)")
    kept = np.array(int((softmax(logits) > 0).sum()))
    expect(kept, np.array(2), "how many top_p([0, 0, 0, 0], 0.5) keeps")


def _nucleus(out, key=lambda x: -x):
    """A wrong answer: `out` says of the sorted shares which are cut."""

    def wrong(logits, p):
        order = np.argsort(key(logits), axis=-1, kind="stable")
        shares = np.take_along_axis(softmax(logits), order, axis=-1)
        cut = np.empty(logits.shape, dtype=bool)
        np.put_along_axis(cut, order, out(shares, p), axis=-1)
        return np.where(cut, -1e9, logits)

    return wrong


def _sums_of_logits(logits):
    best = -np.sort(-logits, axis=-1)
    return np.cumsum(best, axis=-1) - best


def _first_stays(cut):
    cut[..., 0] = False
    return cut


nucleus.mistake(
    "crossing one dropped", _nucleus(lambda s, p: _first_stays(np.cumsum(s, -1) > min(p, 1 - 1e-12) + 1e-12))
)
nucleus.mistake("crossing one dropped", _nucleus(lambda s, p: np.cumsum(s, -1) > p + 1e-12))
nucleus.mistake("threshold", _nucleus(lambda s, p: s < p * s.max(-1, keepdims=True)))
nucleus.mistake("threshold", _nucleus(lambda s, p: s < 1 - p))
nucleus.mistake(
    "sum of logits", lambda logits, p: _nucleus(lambda s, p: _sums_of_logits(logits) >= p)(logits, p)
)
nucleus.mistake("from the unlikeliest", _nucleus(lambda s, p: np.cumsum(s, -1) - s >= p, key=lambda x: x))
nucleus.mistake("unsorted", _nucleus(lambda s, p: np.cumsum(s, -1) - s >= p, key=lambda x: 0 * x))
nucleus.mistake("one too many", _nucleus(lambda s, p: np.cumsum(s, -1) - s > p))
nucleus.mistake("one too many", _nucleus(lambda s, p: np.cumsum(s, -1) - s - np.roll(s, 1, -1) >= p))


@nucleus.mistake("order forgotten")
def _(logits, p):
    shares = -np.sort(-softmax(logits), axis=-1)
    return np.where(np.cumsum(shares, axis=-1) - shares >= p, -1e9, logits)


@nucleus.mistake("left sorted")
def _(logits, p):
    best = -np.sort(-logits, axis=-1)
    shares = softmax(best)
    return np.where(np.cumsum(shares, axis=-1) - shares >= p, -1e9, best)


@nucleus.mistake("probabilities")
def _(logits, p):
    return np.where(np.isneginf(top_p(logits, p)), 0.0, softmax(logits))


nucleus.mistake("probabilities", lambda logits, p: softmax(top_p(logits, p)))


@nucleus.mistake("one row alone")
def _(z, p):
    order = np.argsort(-z)
    shares = softmax(z)[order]
    out = order[np.cumsum(shares) - shares >= p]
    z = z.copy()
    z[out] = NO
    return z


# 4 · A draw from one number


def draw(probabilities: Float[np.ndarray, " V"], uniform: float) -> int:
    """Returns the token on whose stretch the number falls when the probabilities are laid end to end."""
    ends = np.cumsum(probabilities)
    return int(np.searchsorted(ends, uniform * ends[-1], side="right"))


one_of = exercise("generating.draw", draw)

_three = np.array([0.2, 0.5, 0.3])


@one_of.check("the same number gives the same id")
def _(learner):
    found = [as_numbers(learner(np.full(8, 0.125), 0.6), "draw from eight alike").tolist() for _ in range(8)]
    if any(one != found[0] for one in found):
        raise Wrong(
            f"with the same number yours gave {', '.join(map(str, found))}: it does not use the number."
        )


one_of.case("a number on the first stretch", _three, 0.1, want=0)
one_of.case("on the second, which begins where the first ends", _three, 0.25, want=1)
one_of.also(_three, 0.69, want=1)
one_of.case("on the last", _three, 0.71, want=2)
one_of.also(_three, 0.999, want=2)
one_of.case(
    "what has no probability is not drawn, not even by 0", np.array([0.0, 0.0, 0.6, 0.4]), 0.0, want=2
)
one_of.case("nor behind all others", np.array([0.6, 0.4, 0.0, 0.0]), 0.9999, want=1)
one_of.case(
    "the stretches may end a rounding error before 1: there is no id 10", np.full(10, 0.1), np.nextafter(1, 0),
    want=9, what="draw from ten alike with the largest number below 1",
)  # fmt: skip
one_of.also(
    np.append(np.full(10, 0.1), 0.0), np.nextafter(1, 0), want=9,
    what="draw from ten alike and one that is impossible, with the largest number below 1",
)  # fmt: skip


def _drawn(by):
    return lambda probabilities, uniform: int(by(np.asarray(probabilities), uniform))


def _within(place, p):
    return min(int(place), len(p) - 1)


one_of.mistake("always the likeliest", _drawn(lambda p, u: np.argmax(p)))
one_of.mistake("from the left", _drawn(lambda p, u: _within(np.searchsorted(np.cumsum(p), u, "left"), p)))
one_of.mistake("back to 0", _drawn(lambda p, u: np.argmax(np.cumsum(p) > u)))
one_of.mistake("clipped", _drawn(lambda p, u: _within(np.searchsorted(np.cumsum(p), u, "right"), p)))
one_of.mistake("falls off", _drawn(lambda p, u: np.searchsorted(np.cumsum(p), u, "right")))
one_of.mistake("one less", _drawn(lambda p, u: max(0, np.searchsorted(np.cumsum(p), u, "right") - 1)))
one_of.mistake("all alike", _drawn(lambda p, u: u * len(p)))
one_of.mistake("no sums", _drawn(lambda p, u: np.argmax(p > u) if (p > u).any() else len(p) - 1))
for _seed in (0, 8, 42):
    one_of.mistake("own numbers", _drawn(lambda p, u, s=_seed: np.random.default_rng(s).choice(len(p), p=p)))


# 5 · The loop


def _next(logits, temperature, k, p, generator) -> int:
    """Returns the next token, from the logits of the last position."""
    logits = temper(logits, temperature)
    if k is not None:
        logits = top_k(logits, k)
    if p is not None:
        logits = top_p(logits, p)
    probabilities = softmax(logits)
    return int(probabilities.argmax()) if temperature == 0 else draw(probabilities, generator.random())


def generate(
    ids: Integer[np.ndarray, " T"],
    weights: Weights,
    n_heads: int,
    n_new: int,
    *,
    temperature: float | int = 1.0,
    k: int | None = None,
    p: float | int | None = None,
    generator: np.random.Generator | None = None,
) -> Integer[np.ndarray, " _"]:
    """Read all that fits, choose, append, and again."""
    context = len(weights["decoder.positions.weight"])
    text = list(ids)
    for _ in range(n_new):
        logits = gpt(np.array(text[-context:]), weights, n_heads)[-1]
        text.append(_next(logits, temperature, k, p, generator))
    return np.array(text)


loop = exercise("generating.generate", generate, built_on=(_next, temper, top_k, top_p, draw, softmax))

CONTEXT = 12


@cache
def _model(n_layers: int = 2) -> Any:
    """A GPT of the package, small and sure enough of itself that every mistake shows."""
    from glassformer import scratch
    from glassformer.published import published

    config = published("gpt2").config.replace(
        vocab_size=9, context_length=CONTEXT, d_model=8, n_layers=n_layers, n_heads=2, d_ff=8,
        attention_bias="none", feedforward="gelu",
    )  # fmt: skip
    model = scratch.Transformer(config, generator=np.random.default_rng(0), dtype=np.float64)
    rng = np.random.default_rng(1)
    for weight in model.named_parameters().values():
        weight += rng.normal(size=weight.shape) * 0.4
    return model


def _weights(n_layers: int = 2) -> dict[str, np.ndarray]:
    return dict(_model(n_layers).named_parameters())


@cache
def _of_the_package(
    T: int, n_new: int, temperature: float | int, seed: int | None, k: int | None, p: float | None
) -> tuple[np.ndarray, np.ndarray]:
    """T ids, and what the package writes after them."""
    from glassformer.generate import generate as written

    ids = np.random.default_rng(T).integers(9, size=T)
    generator = None if seed is None else np.random.default_rng(seed)
    options: dict[str, Any] = {"temperature": temperature, "top_k": k, "top_p": p, "past_context": "slide"}
    [text] = written(_model(1), ids, n_new, generator=generator, **options)
    return ids, text


def _text(
    T: int, n_new: int, seed: int | None = None, **asked: Any
) -> tuple[np.ndarray, dict[str, Any], np.ndarray]:
    """T ids, the options that are asked for, and what the package writes with them."""
    ids, text = _of_the_package(T, n_new, asked.get("temperature", 1.0), seed, asked.get("k"), asked.get("p"))
    return ids, asked | ({} if seed is None else {"generator": np.random.default_rng(seed)}), text


def _text_case(one: Exercise, title: str, T: int, n_new: int, also: bool = False, **asked: Any) -> None:
    words = ", ".join(f"{name} {value}" for name, value in asked.items())
    said = f"{one.reference.__name__} of {T} ids and {n_new} more{words and f' ({words})'}"

    def step(learner: Callable[..., Any]) -> None:
        ids, options, text = _text(T, n_new, **asked)
        expect(learner(ids, _weights(1), 2, n_new, **options), text, said, axes="T")

    one.check(title)(step) if not also else one.checks[-1].steps.append(step)


def _text_cases(one: Exercise) -> None:
    _text_case(one, "greedy: the prompt, and the likeliest after it", 3, 4, temperature=0)
    _text_case(one, "drawn: one number of the generator for each new id", 4, 6, seed=0)
    _text_case(one, "temperature 2", 2, 6, seed=3, temperature=2.0)
    _text_case(one, "the three likeliest, at temperature 3", 3, 8, seed=2, temperature=3.0, k=3)
    _text_case(one, "temperature comes before the nucleus", 2, 9, seed=4, temperature=2.5, p=0.6)
    _text_case(one, "k comes before the nucleus", 2, 9, seed=6, temperature=3.0, k=3, p=0.7)


_text_cases(loop)
_text_case(loop, "past the context the model sees the last ids, from position 0", 4, 13, temperature=0)
_text_case(loop, "", 15, 4, also=True, seed=7)


def _looped(
    read=lambda ids, context: ids[-context:],
    at=lambda logits: logits[-1],
    next_=_next,
    gives=lambda ids, T: ids,
    shifted=0,
):
    """A wrong answer: one choice changed."""

    def wrong(ids, weights, n_heads, n_new, *, temperature=1.0, k=None, p=None, generator=None):
        context, ids, T = len(weights["decoder.positions.weight"]), list(ids), len(ids)
        for _ in range(n_new + shifted):
            logits = at(gpt(np.array(read(ids, context)), weights, n_heads))
            ids.append(next_(logits, temperature, k, p, generator))
        return np.array(gives(ids, T))

    return wrong


def _ordered(*order: str):
    """A wrong choice: strategies in another order, or without one."""

    def next_(logits, temperature, k, p, generator):
        if temperature == 0:
            return _next(logits, 0, k, p, generator)
        for name in order:
            if name == "temper":
                logits = temper(logits, temperature)
            elif name == "k" and k is not None:
                logits = top_k(logits, k)
            elif name == "p" and p is not None:
                logits = top_p(logits, p)
        return draw(softmax(logits), generator.random())

    return next_


def _after_softmax(logits, temperature, k, p, generator):
    if temperature in (0, 1.0):
        return _next(logits, temperature, k, p, generator)
    return _next(softmax(logits), temperature, k, p, generator)


def _always(logits, temperature, k, p, generator):
    uniform = generator.random()
    return _next(logits, 0, k, p, generator) if temperature == 0 else draw(softmax(logits), uniform)


def _without_softmax(logits, temperature, k, p, generator):
    return _next(logits, 0, k, p, generator) if temperature == 0 else draw(logits, generator.random())


def _text_mistakes(one: Exercise, made: Callable[..., Any]) -> None:
    one.mistake("new ids alone", made(gives=lambda ids, T: ids[T:]))
    one.mistake("one too few", made(shifted=-1))
    one.mistake("greedy", made(next_=lambda logits, T, k, p, g: int(logits.argmax())))
    one.mistake("always a number", made(next_=_always))
    one.mistake("no softmax", made(next_=_without_softmax))
    one.mistake("temperature last", made(next_=_ordered("k", "p", "temper")))
    one.mistake("no temperature", made(next_=_ordered("k", "p")))
    one.mistake("nucleus first", made(next_=_ordered("temper", "p", "k")))
    one.mistake("no nucleus", made(next_=_ordered("temper", "k")))
    one.mistake("no k", made(next_=_ordered("temper", "p")))
    one.mistake("after softmax", made(next_=_after_softmax))
    one.mistake("same number", made(next_=lambda x, T, k, p, g: _next(x, T, k, p, np.random.default_rng(0))))


loop.mistake("last id alone", _looped(read=lambda ids, context: ids[-1:]))
loop.mistake("first position", _looped(at=lambda logits: logits[0]))
loop.mistake("all rows", _looped(at=lambda logits: logits, next_=lambda x, *_: int(x.argmax())))
loop.mistake("no window", _looped(read=lambda ids, context: ids))
loop.mistake("first ids", _looped(read=lambda ids, context: ids[:context]))
_text_mistakes(loop, _looped)


# 6 · Beam search


def beam(
    next_log_p: Callable[[tuple[int, ...]], Float[np.ndarray, " V"]], n_new: int, width: int
) -> tuple[list[int], float]:
    """Continues the `width` likeliest texts at every step; returns the likeliest in the end and its log-probability."""
    texts: list[Any] = [((), 0.0)]
    for _ in range(n_new):
        grown = [
            ((*ids, token), total + float(log_p))
            for ids, total in texts
            for token, log_p in enumerate(next_log_p(ids))
        ]
        texts = sorted(grown, key=lambda text: -text[1])[:width]
    ids, total = texts[0]
    return list(ids), total


tree = exercise("generating.beam", beam, parts=("ids", "log-probability"), axes=("T", ""))

Tables = Mapping[tuple[int, ...], Sequence[float]]
_TREE: Tables = {
    (): (0.5, 0.4, 0.1), (0,): (0.4, 0.35, 0.25), (1,): (0.05, 0.9, 0.05), (2,): (0.3, 0.3, 0.4),
}  # fmt: skip
_LONG: Tables = {
    (): (0.45, 0.35, 0.2), (0,): (0.5, 0.3, 0.2), (1,): (0.55, 0.25, 0.2), (2,): (0.94, 0.04, 0.02),
    (0, 0): (0.4, 0.3, 0.3), (1, 0): (0.6, 0.2, 0.2), (2, 0): (0.97, 0.02, 0.01), (0, 1): (0.9, 0.06, 0.04),
}  # fmt: skip

_TWINS: Tables = {(): (0.6, 0.3, 0.1), (0,): (0.5, 0.45, 0.05), (0, 1): (0.9, 0.06, 0.04)}


def _after(tables: Tables) -> Callable[[Any], np.ndarray]:
    """Returns a function from ids to the next token's log-probabilities; the same for all ids without a table."""

    def next_log_p(ids: Any) -> np.ndarray:
        return np.log(tables.get(tuple(int(one) for one in ids), (0.4, 0.3, 0.3)))

    return next_log_p


def _found(
    title: str, tables: Any, n_new: int, width: int, ids: list[int], p: float, also: bool = False
) -> None:
    what = f"beam with {n_new} new ids and a width of {width}"
    add: Any = tree.also if also else lambda *args, **case: tree.case(title, *args, **case)
    add(_after(tables), n_new, width, want=(ids, math.log(p)), what=what)


@tree.check("a pair: the ids, then their log-probability")
def _(learner):
    got = learner(_after(_TREE), 2, 1)
    if isinstance(got, list | tuple) and len(got) == 1:
        raise Wrong("you gave back all of the texts. Give back the first: its ids, and its log-probability.")
    if [np.ndim(one) for one in expect_parts(got, tree.parts)] == [0, 1]:
        raise Wrong("your pair is the other way round: the ids come first.")


_found("one step: the likeliest id", _TREE, 1, 2, [0], 0.5)
_found("a width of 1 is greedy: 0.5 · 0.4", _TREE, 2, 1, [0, 0], 0.2)
_found("two texts find what greedy misses: 0.4 · 0.9", _TREE, 2, 2, [1, 1], 0.36)
_found("three steps, greedy", _LONG, 3, 1, [0, 0, 0], 0.45 * 0.5 * 0.4)
_found("width 2: two of all that grow, whoever they come from", _LONG, 3, 2, [1, 0, 0], 0.35 * 0.55 * 0.6)
_found("width 3", _LONG, 3, 3, [2, 0, 0], 0.2 * 0.94 * 0.97)
_found("two that go on from one text: 0.6 · 0.45 · 0.9", _TWINS, 3, 2, [0, 1, 0], 0.6 * 0.45 * 0.9)
_found("wider than there are texts", _TREE, 2, 50, [1, 1], 0.36)


def _searched(
    score=lambda total, log_p: total + log_p, keep=None, last=lambda texts: texts[0], gives=lambda x: x
):
    def wrong(next_log_p, n_new, width):
        texts = [((), 0.0)]
        for _ in range(n_new):
            grown = [
                [((*ids, i), score(total, float(x))) for i, x in enumerate(next_log_p(ids))]
                for ids, total in texts
            ]
            if keep is None:
                texts = sorted((text for own in grown for text in own), key=lambda text: -text[1])[:width]
            else:
                texts = sorted(keep(grown, width), key=lambda text: -text[1])
        ids, total = last(texts)
        return list(ids), gives(total)

    return wrong


def _best_of_each(grown, width):
    if len(grown) == 1:
        return sorted(grown[0], key=lambda text: -text[1])[:width]
    return [max(own, key=lambda text: text[1]) for own in grown]


def _unlikeliest(grown, width):
    return sorted((text for own in grown for text in own), key=lambda text: text[1])[:width]


tree.mistake("greedy", lambda f, n, width: beam(f, n, 1))
tree.mistake("everything", lambda f, n, width: beam(f, n, 10**6))
tree.mistake("one child each", _searched(keep=_best_of_each))
tree.mistake("last step alone", _searched(score=lambda total, log_p: log_p))
tree.mistake("probabilities added", _searched(score=lambda total, log_p: total + math.exp(log_p)))
tree.mistake("a probability", _searched(gives=math.exp))
tree.mistake("unlikeliest kept", _searched(keep=_unlikeliest))
tree.mistake("unlikeliest kept", _searched(keep=_unlikeliest, last=lambda texts: texts[-1]))
tree.mistake("worst of them", _searched(last=lambda texts: texts[-1]))
tree.mistake("per id", lambda f, n, width: (lambda ids, total: (ids, total / n))(*beam(f, n, width)))


# 7 · What changes when one position changes


def changes(mask: Bool[np.ndarray, "T T"], position: int, n_layers: int) -> Bool[np.ndarray, "L T"]:
    """Returns whose keys and values change, block by block, when the token at one position becomes another."""
    changed = np.arange(len(mask)) == position
    rows = []
    for _ in range(n_layers):
        rows.append(changed)
        changed = changed | (mask & changed).any(axis=-1)
    return np.array(rows)


theory = exercise("generating.changes", changes, axes="L T")

_T, _F = True, False
theory.case(
    "block 0: the keys of that position alone, whoever sees whom",
    np.ones((3, 3), bool),
    1,
    1,
    want=[[_F, _T, _F]],
)
theory.case(
    "causal, the last position: nothing of the past changes, in any block", np.tri(4, dtype=bool), 3, 3,
    want=[[_F, _F, _F, _T]] * 3,
)  # fmt: skip
theory.case(
    "an encoder: from block 1 on everything does", np.ones((4, 4), bool), 3, 3,
    want=[[_F, _F, _F, _T], [_T] * 4, [_T] * 4],
)  # fmt: skip
theory.case(
    "causal, a position in the middle: it, and from block 1 on all that come after it", np.tri(4, dtype=bool), 1, 2,
    want=[[_F, _T, _F, _F], [_F, _T, _T, _T]],
)  # fmt: skip
_band = np.tri(6, dtype=bool) & ~np.tri(6, k=-2, dtype=bool)  # itself and the one before
theory.case(
    "a window of two: one position further with every block", _band, 1, 4,
    want=[[t in range(1, 2 + block) for t in range(6)] for block in range(4)],
)  # fmt: skip
_prefix = np.tri(5, dtype=bool)
_prefix[:3, :3] = True  # the prompt sees itself whole
theory.case(
    "a prompt that sees itself whole: what is written after it leaves it as it is", _prefix, 4, 3,
    want=[[_F] * 4 + [_T]] * 3,
)  # fmt: skip
theory.also(_prefix, 2, 2, want=[[_F, _F, _T, _F, _F], [_T] * 5])
theory.case(
    "who does not see itself keeps its change all the same: the stream goes on", np.tri(3, k=-1, dtype=bool), 2, 2,
    want=[[_F, _F, _T]] * 2,
)  # fmt: skip


def _spread(first=lambda c, m: c, then=lambda c, m: c | (m & c).any(axis=-1), rows=lambda rows: rows):
    def wrong(mask, position, n_layers):
        changed = first(np.arange(len(mask)) == position, mask)
        made = []
        for _ in range(n_layers):
            made.append(changed)
            changed = then(changed, mask)
        return np.array(rows(made))

    return wrong


theory.mistake("block 0 mixed", _spread(first=lambda c, m: c | (m & c).any(axis=-1)))
theory.mistake("transposed", _spread(then=lambda c, m: c | (m & c[:, None]).any(axis=0)))
theory.mistake("never spreads", _spread(then=lambda c, m: c))
theory.mistake("stream forgotten", _spread(then=lambda c, m: (m & c).any(axis=-1)))
theory.mistake(
    "once", lambda mask, position, n: np.array([_rows(mask, position, min(i, 1)) for i in range(n)])
)
theory.mistake("everything later", _spread(then=lambda c, m: np.cumsum(c) > 0))
theory.mistake("what stays", _spread(rows=lambda rows: [~row for row in rows]))


def _rows(mask: np.ndarray, position: int, block: int) -> np.ndarray:
    return changes(mask, position, block + 1)[-1]


# 8 · Cells


def cells(n: int) -> tuple[int, int, int, int]:
    """Score cells of n tokens in a head: the table; what a causal mask leaves; written without a cache; with it."""
    return n * n, n * (n + 1) // 2, n * (n + 1) * (2 * n + 1) // 6, n * (n + 1) // 2


count = exercise(
    "generating.cells", cells, parts=("the table", "under the mask", "without a cache", "with a cache")
)

count.case("one token: one cell, whatever you do", 1, want=(1, 1, 1, 1))
count.case("two tokens: 1, then a table of 2 × 2, without a cache", 2, want=(4, 3, 5, 3))
count.case("three", 3, want=(9, 6, 14, 6))
count.case("ten tokens", 10, want=(100, 55, 385, 55))
count.case("a whole context of GPT-2", 1024, want=(1_048_576, 524_800, 358_438_400, 524_800))


def _cells(**changed: Callable):
    def wrong(n):
        right = dict(zip(("table", "mask", "without", "with_"), cells(n), strict=True))
        return tuple((right | {name: f(n) for name, f in changed.items()}).values())

    return wrong


def _triangle(n):
    return n * (n + 1) // 2


count.mistake("strictly below", _cells(mask=lambda n: n * (n - 1) // 2))
count.mistake("half", _cells(mask=lambda n: n * n // 2))
count.mistake("one pass", _cells(without=lambda n: n * n))
count.mistake("triangles", _cells(without=lambda n: sum(map(_triangle, range(n + 1)))))
count.mistake("cube", _cells(without=lambda n: n**3))
count.mistake("one a step", _cells(with_=lambda n: n))
count.mistake("square with it", _cells(with_=lambda n: n * n))


# 9 · Bytes


def cache_bytes(
    n_layers: int, n_kv_heads: int, d_head: int, length: int, *, bytes_per_number: int = 2, batch: int = 1
) -> int:
    """Returns how much memory keys and values take: 2 · L · G · K · T numbers for each text."""
    return 2 * n_layers * n_kv_heads * d_head * length * batch * bytes_per_number


room = exercise("generating.cache_bytes", cache_bytes)

room.case("one block, one head, one number, one position: a key and a value", 1, 1, 1, 1, want=4)
room.case("the book's model, whole, in float32", 4, 4, 32, 128, bytes_per_number=4, want=524_288)
room.case("GPT-2 small at 1,024 in float16: 36 MiB", 12, 12, 64, 1024, want=36 * 2**20)
room.case("LLaMA-2 7B at 4,096 in float16: 2 GiB", 32, 32, 128, 4096, want=2 * 2**30)
room.case("LLaMA-2 70B: 8 heads that answer for 64", 80, 8, 128, 4096, want=1.25 * 2**30)
room.case("thirty texts at a time", 3, 5, 7, 11, batch=30, bytes_per_number=1, want=2 * 3 * 5 * 7 * 11 * 30)


def _bytes(by):
    return lambda n_layers, n_kv_heads, d_head, length, *, bytes_per_number=2, batch=1: by(
        n_layers, n_kv_heads, d_head, length, bytes_per_number, batch
    )


room.mistake("keys alone", _bytes(lambda L, G, K, T, b, B: L * G * K * T * B * b))
room.mistake("queries too", _bytes(lambda L, G, K, T, b, B: 3 * L * G * K * T * B * b))
room.mistake("one block", _bytes(lambda L, G, K, T, b, B: 2 * G * K * T * B * b))
room.mistake("one text", _bytes(lambda L, G, K, T, b, B: 2 * L * G * K * T * b))
room.mistake("numbers", _bytes(lambda L, G, K, T, b, B: 2 * L * G * K * T * B))
room.mistake("always two", _bytes(lambda L, G, K, T, b, B: 2 * L * G * K * T * B * 2))
room.mistake("scores", _bytes(lambda L, G, K, T, b, B: L * G * T * T * B * b))
room.mistake("heads forgotten", _bytes(lambda L, G, K, T, b, B: 2 * L * K * T * B * b))
room.mistake("bits", _bytes(lambda L, G, K, T, b, B: 2 * L * G * K * T * B * b * 8))


# 10 · One step with a memory


def step(id: int, weights: Weights, n_heads: int, cache: dict[Any, Any]) -> Float[np.ndarray, " V"]:
    """The logits after one more id: it alone is read, and what the past answered with is in the cache."""
    position = cache.get("read", 0)
    x = (weights["token_embedding.weight"][id] + weights["decoder.positions.weight"][position])[
        None
    ]  # (1, D)
    i = 0
    while f"decoder.blocks.{i}.norm_attention.weight" in weights:
        start = f"decoder.blocks.{i}."
        w = {name.removeprefix(start): one for name, one in weights.items() if name.startswith(start)}
        normed = layer_norm(x, w["norm_attention.weight"], w["norm_attention.bias"])
        q, k, v = (
            split_heads(normed @ w[f"attention.W_{name}.weight"], n_heads) for name in "qkv"
        )  # (H, 1, K)
        if position > 0:
            past_k, past_v = cache[i]
            k, v = np.concatenate([past_k, k], axis=1), np.concatenate([past_v, v], axis=1)  # (H, S, K)
        cache[i] = k, v
        shares = softmax(q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1]))  # all of them are its past: no mask
        x = x + merge_heads(shares @ v) @ w["attention.W_o.weight"]
        normed = layer_norm(x, w["norm_feedforward.weight"], w["norm_feedforward.bias"])
        x = x + feed_forward(normed, *(w[f"feedforward.W_{name}"] for name in _FEED))
        i += 1
    cache["read"] = position + 1
    x = layer_norm(x, weights["decoder.norm.weight"], weights["decoder.norm.bias"])
    return (x @ weights["token_embedding.weight"].T)[0]


_FEED = ("up.weight", "up.bias", "down.weight", "down.bias")

remembered = exercise(
    "generating.step", step, built_on=(split_heads, merge_heads, softmax, layer_norm, feed_forward), axes="V"
)


class _Kept(dict):
    """A cache that a function under check may write into: its copy is itself."""

    def __deepcopy__(self, memo: dict) -> "_Kept":
        return self


class _Rows(np.ndarray):
    """A table that counts how many of its rows are looked up; what is made of it does not count."""

    looked_up, counts = 0, False

    def __array_finalize__(self, made_of: Any) -> None:
        self.counts = False

    def __getitem__(self, place: Any) -> Any:
        found = np.asarray(self)[place]
        if self.counts:
            _Rows.looked_up += found.size // self.shape[1]
        return found

    def __deepcopy__(self, memo: Any, /) -> "_Rows":
        return self


def _counted(name: str, n_layers: int) -> dict[str, np.ndarray]:
    """The weights, of which one table counts its look-ups, from 0."""
    weights = _weights(n_layers)
    weights[name] = table = weights[name].view(_Rows)
    table.counts, _Rows.looked_up = True, 0
    return weights


def _stepped(learner: Callable[..., Any], ids: Sequence[int], kept: _Kept) -> list[Any]:
    return [learner(int(one), _weights(), 2, kept) for one in ids]


def _read_case(title: str, ids: list[int], at: Sequence[int]) -> None:
    @remembered.check(title)
    def _(learner):
        want = _model()(np.array(ids))
        got = _stepped(learner, ids, _Kept())
        for t in at:
            expect(got[t], want[t], f"the logits of step {t}", axes="V")


_read_case("the first id, which sees itself alone", [3], [0])


@remembered.check("what is needed later is kept in the cache")
def _(learner):
    _stepped(learner, [3], kept := _Kept())
    if not kept:
        said = (
            "after an id the cache is as empty as before. Keep in it, and nowhere else, what later ids need."
        )
        raise Wrong(said, what="the cache", got=0)


_read_case("the second id sees the first", [3, 5], [1])
_read_case("the same id again stands at another position", [4, 4, 4, 4], [1, 2, 3])
_read_case("a whole context, at every step", [1, 7, 0, 2, 8, 3, 3, 5, 6, 4, 1, 0], range(CONTEXT))


@remembered.check("two texts at a time, each with a cache of its own")
def _(learner):
    one, two = [2, 6, 1], [5, 5, 8]
    kept = _Kept(), _Kept()
    got = [
        [learner(text[t], _weights(), 2, own) for text, own in zip((one, two), kept, strict=True)]
        for t in range(3)
    ]
    for place, text in enumerate((one, two)):
        expect(got[2][place], _model()(np.array(text))[-1], f"the logits of text {place}", axes="V")


@remembered.check("each id is read once: keys and values are kept, not ids")
def _(learner):
    weights, kept = _counted("token_embedding.weight", 2), _Kept()
    for one in (3, 1, 4, 1):
        learner(one, weights, 2, kept)
    if _Rows.looked_up > 4:
        said = f"your function looked up {_Rows.looked_up} token vectors to read 4 ids."
        raise Wrong(said, what="token vectors looked up", got=np.array(float(_Rows.looked_up)))


def _varied_step(
    place=lambda position: position,
    keeps=lambda past, k, v: (np.concatenate([past[0], k], axis=1), np.concatenate([past[1], v], axis=1)),
    room=lambda i: i,
    scale=lambda K: math.sqrt(K),
    final=True,
    mixes=lambda shares, v: shares @ v,
    add=1,
):
    """A wrong answer: one choice changed."""

    def wrong(id, weights, n_heads, cache):
        position = cache.get("read", 0)
        table = weights["decoder.positions.weight"]
        x = (weights["token_embedding.weight"][id] + table[place(position) % len(table)])[None]
        for i in range(2):
            start = f"decoder.blocks.{i}."
            w = {name.removeprefix(start): one for name, one in weights.items() if name.startswith(start)}
            normed = layer_norm(x, w["norm_attention.weight"], w["norm_attention.bias"])
            q, k, v = (split_heads(normed @ w[f"attention.W_{name}.weight"], n_heads) for name in "qkv")
            if room(i) in cache:
                k, v = keeps(cache[room(i)], k, v)
            cache[room(i)] = k, v
            shares = softmax(q @ k.swapaxes(-1, -2) / scale(q.shape[-1]))
            x = add * x + merge_heads(mixes(shares, v)) @ w["attention.W_o.weight"]
            normed = layer_norm(x, w["norm_feedforward.weight"], w["norm_feedforward.bias"])
            x = x + feed_forward(normed, *(w[f"feedforward.W_{name}"] for name in _FEED))
        cache["read"] = position + 1
        if final:
            x = layer_norm(x, weights["decoder.norm.weight"], weights["decoder.norm.bias"])
        return (x @ weights["token_embedding.weight"].T)[0]

    return wrong


@remembered.mistake("reads again")
def _(id, weights, n_heads, cache):
    cache.setdefault("ids", []).append(id)
    return gpt(np.array(cache["ids"]), weights, n_heads)[-1]


remembered.mistake(
    "nothing kept", lambda id, weights, n_heads, cache: gpt(np.array([id]), weights, n_heads)[-1]
)
remembered.mistake("off by one", _varied_step(place=lambda position: position + 1))
remembered.mistake("one too low", _varied_step(place=lambda position: max(position - 1, 0)))
remembered.mistake("always position 0", _varied_step(place=lambda position: 0))
remembered.mistake("forgets", _varied_step(keeps=lambda past, k, v: (k, v)))
remembered.mistake("last one alone", _varied_step(keeps=lambda past, k, v: tuple(
    np.concatenate([old[:, -1:], new], axis=1) for old, new in zip(past, (k, v), strict=True)
)))  # fmt: skip
remembered.mistake("one memory", _varied_step(room=lambda i: "all"))
remembered.mistake("newest first", _varied_step(keeps=lambda past, k, v: (
    np.concatenate([past[0], k], axis=1), np.concatenate([v, past[1]], axis=1)
)))  # fmt: skip
remembered.mistake("without itself", _varied_step(keeps=lambda past, k, v: past))
remembered.mistake("no final norm", _varied_step(final=False))
remembered.mistake("no root", _varied_step(scale=lambda K: 1.0))
remembered.mistake("root of the whole width", _varied_step(scale=lambda K: math.sqrt(2 * K)))
remembered.mistake("values not kept", _varied_step(keeps=lambda past, k, v: (
    np.concatenate([past[0], k], axis=1), v
)))  # fmt: skip
remembered.mistake("along the heads", _varied_step(keeps=lambda past, k, v: (
    np.concatenate([past[0], k], axis=0), np.concatenate([past[1], v], axis=0)
)))  # fmt: skip
remembered.mistake("not added", _varied_step(add=0))


# 11 · The same text, with a memory


def generate_cached(
    ids: Integer[np.ndarray, " T"],
    weights: Weights,
    n_heads: int,
    n_new: int,
    *,
    temperature: float | int = 1.0,
    k: int | None = None,
    p: float | int | None = None,
    generator: np.random.Generator | None = None,
) -> Integer[np.ndarray, " _"]:
    """The same text as `generate`, each id read once."""
    cache: dict[Any, Any] = {}
    text = list(ids)
    logits = [step(int(one), weights, n_heads, cache) for one in text][-1]
    for n in range(n_new):
        text.append(_next(logits, temperature, k, p, generator))
        if n + 1 < n_new:  # nothing follows the last, so nobody reads it
            logits = step(text[-1], weights, n_heads, cache)
    return np.array(text)


quick = exercise(
    "generating.generate_cached",
    generate_cached,
    built_on=(step, _next, temper, top_k, top_p, draw),
    axes="T",
)
_text_cases(quick)


@quick.check("each id is read once: a text of 12 ids looks up 12 positions at the most")
def _(learner):
    ids, options, text = _text(4, 8, temperature=0)
    weights = _counted("decoder.positions.weight", 1)
    got = learner(ids, weights, 2, 8, **options)
    expect(got, text, "generate_cached of 4 ids and 8 more", axes="T")
    if _Rows.looked_up > len(text):
        said = f"your function looked up {_Rows.looked_up} rows of positions for a text of {len(text)} ids."
        raise Wrong(said, what="rows looked up", got=np.array(float(_Rows.looked_up)))


def _with_cache(
    prompt=lambda ids: ids, next_=_next, gives=lambda ids, T: ids, shifted=0, read=lambda ids: ids[-1],
):  # fmt: skip
    """A wrong answer: one choice changed."""

    def wrong(ids, weights, n_heads, n_new, *, temperature=1.0, k=None, p=None, generator=None):
        cache, T = {}, len(ids)
        logits = [step(int(one), weights, n_heads, cache) for one in prompt(ids)][-1]
        ids = list(ids)
        for n in range(n_new + shifted):
            ids.append(next_(logits, temperature, k, p, generator))
            if n + 1 < n_new:
                logits = step(int(read(ids)), weights, n_heads, cache)
        return np.array(gives(ids, T))

    return wrong


def _with_fresh(read, last=False):
    """A wrong answer: a fresh cache for each new id, which reads the prompt, and from then on `read`."""

    def wrong(ids, weights, n_heads, n_new, *, temperature=1.0, k=None, p=None, generator=None):
        ids, T = list(ids), len(ids)
        for n in range(n_new + last):
            cache = {}
            logits = [step(int(one), weights, n_heads, cache) for one in (read(ids) if n else ids)][-1]
            ids.append(_next(logits, temperature, k, p, generator) if n < n_new else 0)
        return np.array(ids[: T + n_new])

    return wrong


quick.mistake("forgets", _with_fresh(lambda ids: ids[-1:]))
quick.mistake("no memory", generate)
quick.mistake("no memory", _with_fresh(lambda ids: ids, last=True))  # the last id is read, too
quick.mistake("prompt forgotten", _with_cache(prompt=lambda ids: ids[-1:]))
quick.mistake("last of the prompt twice", _with_cache(prompt=lambda ids: [*ids[:-1], ids[-1], ids[-1]][-10:]))
quick.mistake("one behind", _with_cache(read=lambda ids: ids[-2]))
_text_mistakes(quick, _with_cache)


# 12 · Which of three


def diagnose(
    read: Callable[[np.ndarray], np.ndarray],
    write: Callable[[np.ndarray], np.ndarray],
    ids: Integer[np.ndarray, " T"],
) -> str:
    """Returns which of three mistakes a model has that trains and writes badly, or that it has none."""
    ids = np.asarray(ids)
    other = ids.copy()
    other[-1] = ids[0] if ids[-1] != ids[0] else ids[1]
    logits = read(ids)
    if not np.allclose(logits[:-1], read(other)[:-1], rtol=0, atol=1e-3):
        return "leak"
    if not np.allclose(logits, write(ids), rtol=0, atol=1e-3):
        return "cache"
    right = (logits[:-1].argmax(axis=-1) == ids[1:]).mean()
    copied = (logits.argmax(axis=-1) == ids).mean()
    return "targets" if copied > right else "fine"


clinic = exercise("generating.diagnose", diagnose)

_V = 7
_BEFORE = np.random.default_rng(11).normal(size=(_V, _V)) * 0.2
_PLACES = np.random.default_rng(12).normal(size=(40, _V)) * 0.2
_ROUND = np.array([0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3])


def _reads(says: int = 1, ahead: int = 0, place: int = 0) -> Callable[[Any], np.ndarray]:
    """A model that has learned to count in a circle; it says `says` on, sees `ahead` and stands `place` too far."""

    def read(ids: Any) -> np.ndarray:
        ids = np.asarray(ids)
        rows = _BEFORE[ids]
        T = len(ids)
        mean = np.stack([rows[: min(T, t + 1 + ahead)].mean(axis=0) for t in range(T)])
        return 6 * np.eye(_V)[(ids + says) % _V] + mean + _PLACES[np.arange(T) + place]

    return read


def _patient(title: str, read: Any, write: Any, want: str, also: bool = False) -> None:
    add = clinic.also if also else lambda *args, **case: clinic.case(title, *args, **case)
    add(read, write, _ROUND, want=want, what=f"diagnose ({title.split(':')[0]})")


_patient("nothing is wrong: it counts on, and writes what it reads", _reads(), _reads(), "fine")
_patient("targets not shifted: it says what it has just read", _reads(says=0), _reads(says=0), "targets")
_patient("a cache: it writes otherwise than it reads", _reads(), _reads(place=1), "cache")
_patient(
    "a cache that changes no argmax", _reads(), lambda ids: _reads()(ids) + 0.01 * np.eye(_V)[0], "cache", also=True
)  # fmt: skip
_patient(
    "a cache that is right again in the end", _reads(),
    lambda ids: np.concatenate([_reads(place=1)(ids)[:-1], _reads()(ids)[-1:]]), "cache", also=True,
)  # fmt: skip
_patient("a leak: the last token moves what stands before it", _reads(ahead=1), _reads(), "leak")
_patient("a leak of a whole text", _reads(ahead=50), _reads(), "leak")
clinic.also(
    _reads(ahead=1),
    _reads(says=2),
    _ROUND,
    want="leak",
    what="diagnose (a leak, and it writes something else)",
)
clinic.also(
    _reads(ahead=1), _reads(), (_ROUND + 4) % _V, want="leak", what="diagnose (a leak, a text that ends in 0)"
)


def _answers(
    leak=True, cache_=True, targets=True, order="lc",
    differs=lambda a, b: abs(a - b).max() > 1e-6, another=lambda token: (token + 1) % _V,
):  # fmt: skip
    def wrong(read, write, ids):
        found = []
        other = np.array(ids)
        other[-1] = another(ids[-1])
        logits = read(ids)
        if leak and abs(logits[:-1] - read(other)[:-1]).max() > 1e-6:
            found.append("leak")
        if cache_ and differs(logits, write(ids)):
            found.append("cache")
        if order == "cl":
            found.sort()
        if targets and (logits.argmax(axis=-1) == ids).mean() > 0.5:
            found.append("targets")
        return found[0] if found else "fine"

    return wrong


clinic.mistake("cache first", _answers(order="cl"))
clinic.mistake("no cache", _answers(cache_=False))
clinic.mistake("no targets", _answers(targets=False))
clinic.mistake("no cache", _answers(differs=lambda a, b: (a.argmax(-1) != b.argmax(-1)).any()))
clinic.mistake("one row alone", _answers(differs=lambda a, b: abs(a[-1] - b[-1]).max() > 1e-6))
clinic.mistake("the same token", _answers(another=lambda token: 0))
clinic.mistake("fine", lambda read, write, ids: "fine")


@clinic.mistake("last row too")
def _(read, write, ids):
    other = np.array(ids)
    other[-1] = (ids[-1] + 1) % _V
    return "leak" if abs(read(ids) - read(other)).max() > 1e-6 else _answers()(read, write, ids)


@clinic.mistake("shifted too far")
def _(read, write, ids):
    found = _answers(targets=False)(read, write, ids)
    return "targets" if found == "fine" and (read(ids).argmax(axis=-1) != ids).mean() > 0.5 else found
