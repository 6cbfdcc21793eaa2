"""Judges "Several heads" (chapter 03): causal attention with several heads that share the width.

Axes: T positions asking, D d_model.
"""

import math
from typing import Any

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import expect
from glassformer.exercises.material import numbers
from glassformer.scratch.attention import causal_mask, merge_heads, scaled_dot_product_attention, split_heads
from glassformer.shapes import Float

from .by_hand import attended
from .mistakes import changed_attention, softmax_of_columns


def multi_head(
    x: Float[np.ndarray, "T D"],
    W_q: Float[np.ndarray, "D D"],
    W_k: Float[np.ndarray, "D D"],
    W_v: Float[np.ndarray, "D D"],
    W_o: Float[np.ndarray, "D D"],
    n_heads: int,
) -> Float[np.ndarray, "T D"]:
    """Computes causal attention with several heads, which share the width."""
    q, k, v = (split_heads(x @ W, n_heads) for W in (W_q, W_k, W_v))
    mixed, _ = scaled_dot_product_attention(q, k, v, mask=causal_mask(len(x), len(x)))
    return merge_heads(mixed) @ W_o


several = exercise(
    "attention.multi_head",
    multi_head,
    axes="T D",
)


def _layer(T: int, D: int, seed: int = 0) -> tuple[Any, Any, Any, Any, Any]:
    """Returns the vectors of a text and the four matrices."""
    W_q, W_k, W_v, W_o = numbers(4, D, D, seed=seed + 1) / math.sqrt(D)
    return numbers(T, D, seed=seed), W_q, W_k, W_v, W_o


def head_by_head(x: Any, W_q: Any, W_k: Any, W_v: Any, W_o: Any, n_heads: int) -> np.ndarray:
    """Computes the output as a sum over heads, each from its own columns of three matrices and its own rows of W_o."""
    K = x.shape[1] // n_heads
    total = np.zeros_like(x)
    for columns in (slice(h * K, (h + 1) * K) for h in range(n_heads)):
        q, k, v = (x @ W[:, columns] for W in (W_q, W_k, W_v))
        total += attended(q, k, v, np.tri(len(x), dtype=bool))[0] @ W_o[columns]
    return total


several.shape("the shape of x", *_layer(5, 6), 2, want=(5, 6))
_given = _layer(1, 4)
several.case(
    "a single position sees only itself: its value, times W_o",
    *_given,
    2,
    want=_given[0] @ _given[3] @ _given[4],
)
_given = _layer(5, 4, seed=2)
several.case("one head", *_given, 1, want=head_by_head(*_given, 1))
_given = _layer(4, 6, seed=4)
several.case("three heads", *_given, 3, want=head_by_head(*_given, 3))
several.also(*_given, 6, want=head_by_head(*_given, 6))


@several.check("a later position changes nothing before it")
def _(multi_head):
    x, *matrices = _layer(5, 6, seed=6)
    other = x.copy()
    other[-1] = numbers(6, seed=9)
    W_q, W_k, W_v, W_o = matrices
    right = head_by_head(x, W_q, W_k, W_v, W_o, 2)[:4]
    expect(
        np.asarray(multi_head(other, *matrices, 2))[:4],
        right,
        "the first four rows, after changing the fifth,",
        axes="T D",
    )


def _heads(attend, out=lambda mixed, W_o: merge_heads(mixed) @ W_o, heads=lambda n: n, split=split_heads):
    """A wrong answer: `attend` gives the heads' outputs from q, k, v and the mask, `out` what is made of them."""

    def wrong(x, W_q, W_k, W_v, W_o, n_heads):
        q, k, v = (split(x @ W, heads(n_heads)) for W in (W_q, W_k, W_v))
        return out(attend(q, k, v, causal_mask(len(x))), W_o)

    return wrong


def _right_heads(q, k, v, mask):
    return changed_attention(q, k, v, mask=mask)[0]


several.mistake("no W_o", _heads(_right_heads, lambda mixed, W_o: merge_heads(mixed)))
several.mistake("no mask", _heads(lambda q, k, v, mask: changed_attention(q, k, v)[0]))
several.mistake(
    "root of D",
    _heads(
        lambda q, k, v, mask: changed_attention(q, k, v, mask=mask, scale=(q.shape[0] * q.shape[2]) ** -0.5)[
            0
        ]
    ),
)
several.mistake("no root", _heads(lambda q, k, v, mask: changed_attention(q, k, v, mask=mask, root=False)[0]))
several.mistake(
    "columns",
    _heads(lambda q, k, v, mask: changed_attention(q, k, v, mask=mask, shares=softmax_of_columns)[0]),
)
several.mistake("one head", _heads(_right_heads, heads=lambda n: 1))
several.mistake("no swap", _heads(_right_heads, lambda mixed, W_o: mixed.reshape(mixed.shape[1], -1) @ W_o))
several.mistake("W_o transposed", _heads(_right_heads, lambda mixed, W_o: merge_heads(mixed) @ W_o.T))


@several.mistake("zero after")
@_heads
def _(q, k, v, mask):
    return (changed_attention(q, k, v)[1] * mask) @ v


several.mistake("asked the wrong way", _heads(lambda q, k, v, mask: _right_heads(k, q, v, mask)))
several.mistake(
    "split by reshape", _heads(_right_heads, split=lambda x, n_heads: x.reshape(n_heads, len(x), -1))
)
several.mistake(
    "transposed",
    lambda x, W_q, W_k, W_v, W_o, n_heads: multi_head(x, W_q.T, W_k.T, W_v.T, W_o.T, n_heads),
)
several.mistake(
    "no W_v", lambda x, W_q, W_k, W_v, W_o, n_heads: multi_head(x, W_q, W_k, np.eye(len(W_v)), W_o, n_heads)
)
several.mistake("not merged", _heads(_right_heads, lambda mixed, W_o: mixed @ W_o))


@several.mistake("pair handed on")
def _(x, W_q, W_k, W_v, W_o, n_heads):
    return (x, W_o).shape  # type: ignore


@several.mistake("pair handed on")
def _(x, W_q, W_k, W_v, W_o, n_heads):
    return (x, W_o).swapaxes(-3, -2)  # type: ignore
