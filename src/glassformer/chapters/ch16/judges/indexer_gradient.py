"""Judges "The term that an indexer learns from" (chapter 16): its gradient with respect to the scores.

Axes: H heads, T positions asking, S positions answering.
"""

import math
from functools import partial

import numpy as np

from glassformer.chapters.ch09.judges.slopes import slopes_of, softmax_rows
from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import expect, expect_shape
from glassformer.exercises.material import numbers
from glassformer.scratch.attention import softmax
from glassformer.scratch.indexer import divergence_backward
from glassformer.shapes import Bool, Float


def indexer_gradient(
    weights: Float[np.ndarray, "H T S"], scores: Float[np.ndarray, "T S"], seen: Bool[np.ndarray, "T S"]
) -> Float[np.ndarray, "T S"]:
    """Returns the gradient of the mean KL(attention ‖ softmax of what is seen), for each score."""
    attention = weights.mean(axis=0)
    guess = softmax(np.where(seen, scores, -np.inf))
    return (guess - attention) / len(scores)


learning = exercise("long.indexer_gradient", indexer_gradient, built_on=(divergence_backward,), axes="T S")


def _term(attention, seen, scores):
    """Returns the term, also for complex scores."""
    total = 0
    for p, row, sees in zip(attention, scores, seen, strict=True):
        guess = softmax_rows(row[sees])
        total += sum(a * (math.log(a) - np.log(g)) for a, g in zip(p[sees], guess, strict=True) if a > 0)
    return total / len(scores)


def _slopes(weights, scores, seen):
    return slopes_of(partial(_term, sum(weights) / len(weights), seen), [scores])[0]


_three = math.log(3)
_all = np.ones((1, 2), bool)
learning.case(
    "two keys that attention takes for equal",
    np.array([[[0.5, 0.5]]]), np.array([[_three, 0]]), _all, want=[[0.25, -0.25]],
    what="the gradient for attention of ½ and ½, and a guess of ¾ and ¼",
)  # fmt: skip
learning.case(
    "the mean over heads",
    np.array([[[1.0, 0]], [[0, 1.0]], [[0.25, 0.75]]]), np.array([[_three, 0]]), _all, want=[[1 / 3, -1 / 3]],
    what="the gradient for three heads and a guess of ¾ and ¼",
)  # fmt: skip
learning.case(
    "the mean over queries",
    np.array([[[0.75, 0.25], [0.75, 0.25]]]), np.array([[0, 0], [0, _three]]), np.ones((2, 2), bool),
    want=[[-0.125, 0.125], [-0.25, 0.25]], what="the gradient for two queries",
)  # fmt: skip
learning.case(
    "a key that is not seen has no part in it, however high its score",
    np.array([[[0.75, 0, 0.25], [0, 1.0, 0]]]), np.array([[0, 4.0, 0], [9.0, 2.0, 2.0]]),
    np.array([[True, False, True], [False, True, True]]), want=[[-0.125, 0, 0.125], [0, -0.25, 0.25]],
    what="the gradient for two queries that see two of three keys",
)  # fmt: skip
learning.also(
    np.array([[[0.75, 0, 0.25]]]), np.array([[900.0, 1000.0, 900.0]]), np.array([[True, False, True]]),
    want=[[-0.25, 0, 0.25]], what="the gradient for scores of 900 and a hidden one of 1000",
)  # fmt: skip
learning.also(
    np.array([[[0.75, 0, 0.25]]]), np.array([[-20_000.0, 5.0, -20_000.0]]), np.array([[True, False, True]]),
    want=[[-0.25, 0, 0.25]], what="the gradient for scores of −20,000 and a hidden one of 5",
)  # fmt: skip


def _read(H, T, S):
    """Returns weights of attention, scores, and what the queries, the last T of S positions, may see."""
    seen = np.tri(T, S, S - T, dtype=bool) & (numbers(T, S, seed=2) > -1)
    seen[:, 0] = True
    raw = np.where(seen, numbers(H, T, S), -np.inf)
    return softmax_rows(raw), numbers(T, S, seed=1), seen


learning.case(
    "the slope of the term, one score at a time",
    *_read(3, 4, 6),
    want=_slopes,
    what="the gradient for H = 3, T = 4, S = 6",
)
learning.also(*_read(1, 5, 5), want=_slopes, what="the gradient for H = 1, T = S = 5")


@learning.check("the same number added to all scores of a query changes nothing")
def _(indexer_gradient):
    got = indexer_gradient(*_read(2, 3, 8))
    expect_shape(got, (3, 8), "the gradient for H = 2, T = 3, S = 8", axes="T S")
    expect(np.asarray(got).sum(axis=-1), np.zeros(3), "the sum of each row of the gradient", axes="T")


@learning.mistake("other way round")
def _(weights, scores, seen):
    attention = np.where(seen, weights.mean(axis=0), 1)
    guess = softmax(np.where(seen, scores, -np.inf))
    slopes = np.where(seen, np.log(np.where(seen, guess, 1)) - np.log(attention), 0)
    return guess * (slopes - (guess * slopes).sum(axis=-1, keepdims=True)) / len(scores)
