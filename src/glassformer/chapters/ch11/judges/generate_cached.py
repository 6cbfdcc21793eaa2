"""Judges "The same text, each id read once" (chapter 11).

The same text as without a cache, with every token read once.

Axis: T positions.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import Wrong, expect
from glassformer.exercises.material import Weights
from glassformer.shapes import Integer

from .generate import generate, next_token, text_cases, text_mistakes, text_of_the_package
from .step import CountedTable, step, with_counted_table


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
    """Returns the same text as `generate`, but reads each id once."""
    cache = {}
    text = list(ids)
    logits = [step(int(one), weights, n_heads, cache) for one in text][-1]
    for n in range(n_new):
        text.append(next_token(logits, temperature, k, p, generator))
        if n + 1 < n_new:  # nothing follows the last, so nobody reads it
            logits = step(text[-1], weights, n_heads, cache)
    return np.array(text)


quick = exercise(
    "generating.generate_cached",
    generate_cached,
    built_on=(next_token,),
    axes="T",
)
text_cases(quick)


@quick.check("each id is read once: a text of 12 ids looks up at most 12 positions")
def _(learner):
    ids, options, text = text_of_the_package(4, 8, temperature=0)
    weights = with_counted_table("decoder.positions.weight", 1)
    got = learner(ids, weights, 2, 8, **options)
    expect(got, text, "generate_cached of 4 ids and 8 more", axes="T")
    if CountedTable.looked_up > len(text):
        said = f"your function looked up {CountedTable.looked_up} rows of positions for a text of {len(text)} ids."
        raise Wrong(said, what="rows looked up", got=np.array(float(CountedTable.looked_up)))


def _with_cache(
    prompt=lambda ids: ids, next_=next_token, gives=lambda ids, T: ids, shifted=0, read=lambda ids: ids[-1],
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
            ids.append(next_token(logits, temperature, k, p, generator) if n < n_new else 0)
        return np.array(ids[: T + n_new])

    return wrong


quick.mistake("forgets", _with_fresh(lambda ids: ids[-1:]))
quick.mistake("no memory", generate)
quick.mistake("no memory", _with_fresh(lambda ids: ids, last=True))  # the last id is read, too
quick.mistake("prompt forgotten", _with_cache(prompt=lambda ids: ids[-1:]))
quick.mistake("last of the prompt twice", _with_cache(prompt=lambda ids: [*ids[:-1], ids[-1], ids[-1]][-10:]))
quick.mistake("one behind", _with_cache(read=lambda ids: ids[-2]))
text_mistakes(quick, _with_cache)
