"""Judges "The gradient of a sink" (chapter 16): a learned score in each softmax, whose share is dropped.

Axes: H heads, T positions asking, S positions answering.
"""

import math

import numpy as np

from glassformer.chapters.ch09.judges.slopes import slopes_of, softmax_rows
from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.scratch.attention import softmax
from glassformer.shapes import Float


def sink_gradient(
    scores: Float[np.ndarray, "H T S"],
    sinks: Float[np.ndarray, " H"],
    grad_weights: Float[np.ndarray, "H T S"],
) -> Float[np.ndarray, " H"]:
    """Maps the gradient of the kept weights to that of the sinks, one for each head."""
    column = np.broadcast_to(sinks[:, None, None], (*scores.shape[:-1], 1))
    weights = softmax(np.concatenate([scores, column], axis=-1))
    kept, sink = weights[..., :-1], weights[..., -1]
    return -(sink * (grad_weights * kept).sum(axis=-1)).sum(axis=-1)


drain = exercise("long.sink_gradient", sink_gradient)


def _by_slopes(scores, sinks, grad_weights):
    """Nudges each sink, and sees how the kept weights change."""

    def kept(sinks):
        column = np.broadcast_to(sinks[:, None, None], (*scores.shape[:-1], 1))
        return softmax_rows(np.concatenate([scores, column], axis=-1))[..., :-1]

    return slopes_of(kept, [sinks], grad_weights)[0]


_LN2 = math.log(2)
drain.case(
    "weights of ½ and ¼, and ¼ for the sink: −¼ · (½ · 4 + ¼ · 8)",
    np.array([[[2 * _LN2, _LN2]]]), np.array([_LN2]), np.array([[[4.0, 8.0]]]), want=[-1.0],
    what="the sink's gradient",
)  # fmt: skip
drain.case(
    "a second query with three equal shares adds −⅓ · (⅓ · 3 − ⅓ · 9)",
    np.array([[[2 * _LN2, _LN2], [_LN2, _LN2]]]), np.array([_LN2]), np.array([[[4.0, 8.0], [3.0, -9.0]]]),
    want=[-1 / 3], what="the gradient of the sink of two queries",
)  # fmt: skip
_three = numbers(3, 5, 4), numbers(3, seed=1), numbers(3, 5, 4, seed=2)
drain.case("three heads, each with a sink of its own", *_three, want=_by_slopes)
drain.also(_three[0], _three[1][::-1].copy(), _three[2], want=_by_slopes)
_late = np.where(np.tri(4, 6, 2, dtype=bool), numbers(2, 4, 6, seed=3), -np.inf)
drain.case(
    "hidden keys, whose scores are −∞", _late, numbers(2, seed=4), numbers(2, 4, 6, seed=5), want=_by_slopes,
)  # fmt: skip
drain.case(
    "a query that may see no key adds nothing",
    np.array([[[-np.inf, -np.inf], [_LN2, 0.0]]]), np.array([0.0]), np.array([[[7.0, 5.0], [4.0, 8.0]]]),
    want=[-1.0], what="the gradient of a sink, where one query sees no key",
)  # fmt: skip
drain.case(
    "large scores do not overflow",
    np.array([[[1000 + _LN2, 1000.0]]]), np.array([1000.0]), np.array([[[4.0, 8.0]]]), want=[-1.0],
    what="the gradient of a sink of 1000",
)  # fmt: skip


@drain.mistake("sum of the others")
def _(scores, sinks, grad_weights):
    weights = softmax(scores)
    return -(weights * (grad_weights - (weights * grad_weights).sum(axis=-1, keepdims=True))).sum(axis=(1, 2))
