"""Judges "A window that counts the query" (chapter 16): a causal mask that also hides what is too long ago.

Axes: T positions asking, S positions answering.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import Wrong, as_numbers, expect, expect_shape
from glassformer.shapes import Bool


def window_mask(n_queries: int, n_keys: int, window: int) -> Bool[np.ndarray, "T S"]:
    """Returns True where a query sees itself or one of the window − 1 positions before it."""
    distance = np.arange(n_keys - n_queries, n_keys)[:, None] - np.arange(n_keys)
    return (distance >= 0) & (distance < window)


near = exercise("long.window_mask", window_mask, axes="T S")


@near.check("a window of three: each position and the two before it")
def _(window_mask):
    call = "window_mask(4, 4, 3)"
    got = as_numbers(window_mask(4, 4, 3), call)
    if got.dtype.kind in "if" and (got < 0).any():
        said = f"{call} should be True or False; yours contains {got.min():g}"
        raise Wrong(f"{said}. Compare instead: True where the query sees the key.")
    want = [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1]]
    expect(got, np.array(want, dtype=bool), call, axes="T S")


near.case("a window of one: each position sees only itself", 3, 3, 1, want=np.eye(3, dtype=bool))
near.case(
    "a window longer than the text hides only what follows", 3, 3, 5,
    want=np.array([[1, 0, 0], [1, 1, 0], [1, 1, 1]], dtype=bool),
)  # fmt: skip
near.case(
    "two queries after a cache: they are the last two of five positions", 2, 5, 3,
    want=np.array([[0, 1, 1, 1, 0], [0, 0, 1, 1, 1]], dtype=bool),
)  # fmt: skip
near.also(1, 6, 4, want=np.array([[0, 0, 1, 1, 1, 1]], dtype=bool))


@near.check("late queries see seven positions each, early ones as many as there are")
def _(window_mask):
    for n_queries, wanted in ((12, [7] * 12), (30, [1, 2, 3, 4, 5, 6] + [7] * 24)):
        call = f"window_mask({n_queries}, 30, 7)"
        got = window_mask(n_queries, 30, 7)
        expect_shape(got, (n_queries, 30), call, axes="T S")
        expect(np.asarray(got).sum(axis=1), wanted, f"the number of True in each row of {call}", axes="T")


@near.mistake("negative start")
def _(n_queries, n_keys, window):
    mask = np.zeros((n_queries, n_keys), dtype=bool)
    for i, t in enumerate(range(n_keys - n_queries, n_keys)):
        mask[i, t - window + 1 : t + 1] = True
    return mask
