"""Judges "Which positions may be seen?" (chapter 03): each position may see itself and the positions before it.

Axes: T positions asking, S positions answering.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import expect, expect_shape
from glassformer.scratch.attention import causal_mask


def _short(n_queries, n_keys):
    return np.tri(n_queries, n_keys, n_keys - n_queries, dtype=bool)


past = exercise("attention.causal_mask", causal_mask, short=_short, axes="T S")

past.shape("a row for each query, a column for each key", 3, 3, want=(3, 3))
past.case(
    "each position sees itself and the positions before it",
    3, 3, want=[[True, False, False], [True, True, False], [True, True, True]],
)  # fmt: skip
past.case("a single position sees only itself", 1, 1, want=[[True]])
past.case(
    "five keys, and queries from the last two positions",
    2, 5, want=[[True, True, True, True, False], [True, True, True, True, True]],
)  # fmt: skip
past.also(1, 4, want=[[True, True, True, True]])


@past.check("55 of 100 cells remain")
def _(causal_mask):
    got = causal_mask(10, 10)
    expect_shape(got, (10, 10), "causal_mask(10, 10)", axes="T S")
    expect(int(np.asarray(got).sum()), 55, "the number of True in causal_mask(10, 10)")
