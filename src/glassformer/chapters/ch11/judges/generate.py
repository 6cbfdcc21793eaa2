"""Judges "The loop" (chapter 11): a text is continued, token by token.

Axis: T positions.
"""

from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np

from glassformer.chapters.ch08.judges.gpt import gpt
from glassformer.exercises.catalogue import exercise
from glassformer.exercises.exercise import Exercise
from glassformer.scratch.attention import softmax
from glassformer.shapes import Integer

from .draw import draw
from .small_gpt import small_gpt, small_weights
from .temper import temper
from .top_k import top_k
from .top_p import top_p

Ids = Integer[np.ndarray, " T"]


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
    ids: Ids, weights, n_heads, n_new, *, temperature=1.0, k=None, p=None, generator=None
) -> Integer[np.ndarray, " _"]:
    """Reads what fits, chooses, appends, and repeats."""
    context = len(weights["decoder.positions.weight"])
    text = list(ids)
    for _ in range(n_new):
        logits = gpt(np.array(text[-context:]), weights, n_heads)[-1]
        text.append(next_token(logits, temperature, k, p, generator))
    return np.array(text)


loop = exercise("generating.generate", generate, built_on=(next_token,))


def text_of_the_package(ids: np.ndarray, n_new: int, **asked: Any) -> np.ndarray:
    """Returns what the package writes after these ids, with the options that `generate` has here."""
    from glassformer.generate import generate as written

    theirs = {{"k": "top_k", "p": "top_p"}.get(name, name): value for name, value in asked.items()}
    return written(small_gpt(1), ids, n_new, past_context="slide", **theirs)[0]


def _text_case(one: Exercise, title: str, T: int, n_new: int, seed: int | None = None, **asked: Any) -> None:
    """The next check; without a title, one more call in the check before."""
    drawn, given = {}, asked
    if seed is not None:
        drawn, given = {"seed": seed}, asked | {"generator": np.random.default_rng(seed)}
    words = ", ".join(f"{name} {value}" for name, value in (drawn | asked).items())
    said = f"{one.reference.__name__} of {T} ids and {n_new} more{words and f' ({words})'}"
    ids = np.random.default_rng(T).integers(9, size=T)

    def want(ids, weights, n_heads, n_new, **given):
        return text_of_the_package(ids, n_new, **deepcopy(given))  # the generator's numbers are the answers'

    one.case(title, ids, small_weights(1), 2, n_new, want=want, what=said, axes="T", **given)


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
_text_case(loop, "", 15, 4, seed=7)


# What `next_token` looks up
CHOICE = {"temper": temper, "top_k": top_k, "top_p": top_p, "softmax": softmax, "draw": draw}
_TEMPER = "    logits = temper(logits, temperature)\n"
_TOP_K = "    if k is not None:\n        logits = top_k(logits, k)\n"
_TOP_P = "    if p is not None:\n        logits = top_p(logits, p)\n"


def text_mistakes(one: Exercise) -> None:
    """Adds the mistakes that can be made with a cache and without."""
    slip = partial(one.slip, **CHOICE)
    slip("new ids alone", "return np.array(text)", "return np.array(text[len(ids) :])")
    slip("greedy", " if temperature == 0 else draw(probabilities, generator.random())", "")
    slip(
        "always a number", _TEMPER, f"    uniform = generator.random()\n{_TEMPER}",
        "generator.random())", "uniform)",
    )  # fmt: skip
    slip("no softmax", "draw(probabilities", "draw(logits")
    slip("temperature last", _TEMPER, "", _TOP_P, f"{_TOP_P}{_TEMPER}")
    slip("no temperature", _TEMPER, "")
    slip("nucleus first", _TOP_K + _TOP_P, _TOP_P + _TOP_K)
    slip("no nucleus", _TOP_P, "")
    slip("no k", _TOP_K, "")
    slip("after softmax", "temper(logits", "temper(logits if temperature in (0, 1) else softmax(logits)")
    slip("same number", "generator.random()", "np.random.default_rng(0).random()")


text_mistakes(loop)
