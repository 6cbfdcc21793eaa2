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

from .attention import attention
from .by_hand import attended


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


several = exercise("attention.multi_head", multi_head, axes="T D")


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
_x, *_W = _layer(1, 4)
several.case("a single position sees only itself: its value, times W_o", _x, *_W, 2, want=_x @ _W[2] @ _W[3])
several.case("one head", *_layer(5, 4, seed=2), 1, want=head_by_head)
several.case("three heads", *_layer(4, 6, seed=4), 3, want=head_by_head)
several.also(*_layer(4, 6, seed=4), 6, want=head_by_head)


@several.check("a later position changes nothing before it")
def _(multi_head):
    x, W_q, W_k, W_v, W_o = _layer(5, 6, seed=6)
    other = x.copy()
    other[-1] = numbers(6, seed=9)
    right = head_by_head(x[:4], W_q, W_k, W_v, W_o, 2)
    got = np.asarray(multi_head(other, W_q, W_k, W_v, W_o, 2))[:4]
    expect(got, right, "the first four rows, after changing the fifth,", axes="T D")


several.slip("columns", scaled_dot_product_attention=attention.wrong("columns"))
several.slip("zero after", scaled_dot_product_attention=attention.wrong("zero after"))
several.slip("split by reshape", split_heads=lambda x, n_heads: x.reshape(n_heads, len(x), -1))
