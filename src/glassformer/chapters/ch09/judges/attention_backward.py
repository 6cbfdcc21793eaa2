"""Judges "Back through a head" (chapter 09): the backward pass of scaled dot-product attention.

Axes: T positions, K d_head.
"""

import math

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.scratch.attention import scaled_dot_product_attention
from glassformer.shapes import Bool, Float

from .forward import complex_attention
from .slopes import drawn, slopes_case, softmax_rows
from .softmax_backward import softmax_backward


def scaled_dot_product_attention_backward(
    grad: Float[np.ndarray, "*B T K"],
    q: Float[np.ndarray, "*B T K"],
    k: Float[np.ndarray, "*B S K"],
    v: Float[np.ndarray, "*B S K"],
    *,
    mask: Bool[np.ndarray, "..."] | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Maps the gradient of attention's output to those of q, k and v."""
    _, weights = scaled_dot_product_attention(q, k, v, mask=mask)
    grad_v = weights.swapaxes(-1, -2) @ grad
    grad_scores = softmax_backward(grad @ v.swapaxes(-1, -2), weights) / math.sqrt(q.shape[-1])
    return grad_scores @ k, grad_scores.swapaxes(-1, -2) @ q, grad_v


head_back = exercise(
    "back.attention_backward",
    scaled_dot_product_attention_backward,
    parts=("grad_q", "grad_k", "grad_v"),
)


def _of_head(*lead: int, T: int, S: int, K: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    return tuple(drawn(*lead, n, K, seed=seed + i) for i, n in enumerate((T, S, S)))


slopes_case(
    head_back, "one query, two keys", complex_attention, *_of_head(T=1, S=2, K=3), grad=drawn(1, 3, seed=31)
)
slopes_case(
    head_back, "three queries, five keys", complex_attention, *_of_head(T=3, S=5, K=4, seed=3),
    grad=drawn(3, 4, seed=32),
)  # fmt: skip
slopes_case(
    head_back,
    "T, S and K equal",
    complex_attention,
    *_of_head(T=4, S=4, K=4, seed=6),
    grad=drawn(4, 4, seed=33),
)
slopes_case(
    head_back, "with a causal mask", complex_attention, *_of_head(T=5, S=5, K=2, seed=9),
    grad=drawn(5, 2, seed=34), mask=np.tri(5, dtype=bool),
)  # fmt: skip
slopes_case(
    head_back, "a mask that is not causal", complex_attention, *_of_head(T=2, S=3, K=2, seed=12),
    grad=drawn(2, 2, seed=35), mask=np.array([[True, False, True], [False, True, True]]),
)  # fmt: skip
slopes_case(
    head_back, "three heads at once", complex_attention, *_of_head(3, T=4, S=4, K=2, seed=15),
    grad=drawn(3, 4, 2, seed=36), mask=np.tri(4, dtype=bool),
)  # fmt: skip


def _head_wrong(
    through=softmax_backward,
    scale=lambda K: 1 / math.sqrt(K),
    see=True,
    turn=True,
    order=None,
    late=False,
    keys=lambda a, q: a.swapaxes(-1, -2) @ q,
    hidden=None,
    inverted=False,
):
    """A wrong answer: one thing left out or changed."""

    def wrong(grad, q, k, v, *, mask=None):
        scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
        if mask is not None and see and not late:
            scores = np.where(mask ^ inverted, scores, -np.inf)
        with np.errstate(invalid="ignore"):
            weights = softmax_rows(scores)
        if mask is not None and late:
            weights = weights * mask
        of_scores = through(grad @ v.swapaxes(-1, -2), weights) * scale(q.shape[-1])
        if mask is not None and hidden is not None:
            of_scores = np.where(mask, of_scores, hidden)
        of_v = (weights.swapaxes(-1, -2) if turn else weights) @ grad
        with np.errstate(invalid="ignore"):
            found = of_scores @ k, keys(of_scores, q), of_v
        return found if order is None else order(*found)

    return wrong


head_back.mistake("no root", _head_wrong(scale=lambda K: 1))
head_back.mistake("by the width", _head_wrong(scale=lambda K: 1 / K))
head_back.mistake("diagonal", _head_wrong(through=lambda g, w: g * w * (1 - w)))
head_back.mistake("no softmax", _head_wrong(through=lambda g, w: g))
head_back.mistake("weights alone", _head_wrong(through=lambda g, w: g * w))
head_back.mistake("weights not turned", _head_wrong(turn=False))
head_back.mistake("queries for keys", _head_wrong(order=lambda a, b, c: (b, a, c)))
head_back.mistake("values first", _head_wrong(order=lambda a, b, c: (c, a, b)))
head_back.mistake("mask forgotten", _head_wrong(see=False))
head_back.mistake("zero after", _head_wrong(late=True))
head_back.mistake("keys not turned", _head_wrong(keys=lambda a, q: a @ q))
head_back.mistake(
    "root for queries alone", _head_wrong(keys=lambda a, q: a.swapaxes(-1, -2) @ q * math.sqrt(q.shape[-1]))
)
head_back.mistake("mask upside down", _head_wrong(inverted=True))
head_back.mistake("slopes of minus infinity", _head_wrong(hidden=-np.inf))
