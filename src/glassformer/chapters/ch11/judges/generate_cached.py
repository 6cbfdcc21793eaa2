"""Judges "The same text, each id read once" (chapter 11).

The same text as without a cache, with every token read once.

Axis: T positions.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import Wrong, expect
from glassformer.shapes import Integer

from .generate import CHOICE, Ids, generate, next_token, text_cases, text_mistakes, text_of_the_package
from .small_gpt import CountedTable, with_counted_table
from .step import step


def generate_cached(
    ids: Ids, weights, n_heads, n_new, *, temperature=1.0, k=None, p=None, generator=None
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


quick = exercise("generating.generate_cached", generate_cached, built_on=(next_token,), axes="T")
text_cases(quick)


@quick.check("each id is read once: a text of 12 ids looks up at most 12 positions")
def _(learner):
    ids = np.array([6, 0, 8, 2])
    text = text_of_the_package(ids, 8, temperature=0)
    weights = with_counted_table("decoder.positions.weight", 1)
    got = learner(ids, weights, 2, 8, temperature=0)
    expect(got, text, "generate_cached of 4 ids and 8 more", axes="T")
    if CountedTable.looked_up > len(text):
        said = f"your function looked up {CountedTable.looked_up} rows of positions for a text of {len(text)} ids."
        raise Wrong(said, what="rows looked up", got=np.array(float(CountedTable.looked_up)))


_AGAIN = "step(text[-1], weights, n_heads, cache)"
quick.slip("forgets", _AGAIN, "step(text[-1], weights, n_heads, {})", **CHOICE)
quick.mistake("no memory", generate)
quick.slip("prompt forgotten", "one in text", "one in text[-1:]", **CHOICE)
quick.slip("one behind", "step(text[-1]", "step(text[-2]", **CHOICE)
text_mistakes(quick)
