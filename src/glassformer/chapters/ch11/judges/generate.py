"""Judges "The loop" (chapter 11): a text is continued, token by token.

Axis: T positions.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from glassformer.chapters.ch08.judges.gpt import gpt
from glassformer.exercises.catalogue import exercise
from glassformer.exercises.exercise import Exercise
from glassformer.exercises.expect import expect
from glassformer.exercises.material import Weights
from glassformer.scratch.attention import softmax
from glassformer.shapes import Integer

from .draw import draw
from .small_gpt import small_gpt, small_weights
from .temper import temper
from .top_k import top_k
from .top_p import top_p


def next_token(logits, temperature, k, p, generator) -> int:
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
    """Reads what fits, chooses, appends, and repeats."""
    context = len(weights["decoder.positions.weight"])
    text = list(ids)
    for _ in range(n_new):
        logits = gpt(np.array(text[-context:]), weights, n_heads)[-1]
        text.append(next_token(logits, temperature, k, p, generator))
    return np.array(text)


loop = exercise("generating.generate", generate, built_on=(next_token,))


@cache
def _of_the_package(
    T: int, n_new: int, temperature: float | int, seed: int | None, k: int | None, p: float | None
) -> tuple[np.ndarray, np.ndarray]:
    """T ids, and what the package writes after them."""
    from glassformer.generate import generate as written

    ids = np.random.default_rng(T).integers(9, size=T)
    generator = None if seed is None else np.random.default_rng(seed)
    options: dict[str, Any] = {"temperature": temperature, "top_k": k, "top_p": p, "past_context": "slide"}
    [text] = written(small_gpt(1), ids, n_new, generator=generator, **options)
    return ids, text


def text_of_the_package(
    T: int, n_new: int, seed: int | None = None, **asked: Any
) -> tuple[np.ndarray, dict[str, Any], np.ndarray]:
    """T ids, the options that are asked for, and what the package writes with them."""
    ids, text = _of_the_package(T, n_new, asked.get("temperature", 1.0), seed, asked.get("k"), asked.get("p"))
    return ids, asked | ({} if seed is None else {"generator": np.random.default_rng(seed)}), text


def _text_case(one: Exercise, title: str, T: int, n_new: int, also: bool = False, **asked: Any) -> None:
    words = ", ".join(f"{name} {value}" for name, value in asked.items())
    said = f"{one.reference.__name__} of {T} ids and {n_new} more{words and f' ({words})'}"

    def step(learner: Callable[..., Any]) -> None:
        ids, options, text = text_of_the_package(T, n_new, **asked)
        expect(learner(ids, small_weights(1), 2, n_new, **options), text, said, axes="T")

    one.check(title)(step) if not also else one.checks[-1].steps.append(step)


def text_cases(one: Exercise) -> None:
    """Adds the checks that hold with a cache and without."""
    _text_case(one, "greedy: the prompt, then the likeliest ids", 3, 4, temperature=0)
    _text_case(one, "drawn: one number from the generator for each new id", 4, 6, seed=0)
    _text_case(one, "temperature 2", 2, 6, seed=3, temperature=2.0)
    _text_case(one, "the three likeliest, at temperature 3", 3, 8, seed=2, temperature=3.0, k=3)
    _text_case(one, "temperature comes before the nucleus", 2, 9, seed=4, temperature=2.5, p=0.6)
    _text_case(one, "k comes before the nucleus", 2, 9, seed=6, temperature=3.0, k=3, p=0.7)


text_cases(loop)
_text_case(loop, "beyond the context, the model sees the last ids, from position 0", 4, 13, temperature=0)
_text_case(loop, "", 15, 4, also=True, seed=7)


def _looped(
    read=lambda ids, context: ids[-context:],
    at=lambda logits: logits[-1],
    next_=next_token,
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
            return next_token(logits, 0, k, p, generator)
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
        return next_token(logits, temperature, k, p, generator)
    return next_token(softmax(logits), temperature, k, p, generator)


def _always(logits, temperature, k, p, generator):
    uniform = generator.random()
    return next_token(logits, 0, k, p, generator) if temperature == 0 else draw(softmax(logits), uniform)


def _without_softmax(logits, temperature, k, p, generator):
    return next_token(logits, 0, k, p, generator) if temperature == 0 else draw(logits, generator.random())


def text_mistakes(one: Exercise, made: Callable[..., Any]) -> None:
    """Adds the mistakes that can be made with a cache and without; `made` puts each into a wrong answer."""
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
    one.mistake(
        "same number", made(next_=lambda x, T, k, p, g: next_token(x, T, k, p, np.random.default_rng(0)))
    )


loop.mistake("last id alone", _looped(read=lambda ids, context: ids[-1:]))
loop.mistake("first position", _looped(at=lambda logits: logits[0]))
loop.mistake("all rows", _looped(at=lambda logits: logits, next_=lambda x, *_: int(x.argmax())))
loop.mistake("no window", _looped(read=lambda ids, context: ids))
loop.mistake("first ids", _looped(read=lambda ids, context: ids[:context]))
text_mistakes(loop, _looped)
