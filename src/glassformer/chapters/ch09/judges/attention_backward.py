"""Judges "Back through a head" (chapter 09): the backward pass of scaled dot-product attention.

Axes: T positions, K d_head.
"""

import math
from typing import Any

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.scratch.attention import scaled_dot_product_attention
from glassformer.shapes import Bool, Float

from .forward import complex_attention
from .slopes import drawn, slopes_case
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
    "back.attention_backward", scaled_dot_product_attention_backward, parts=("grad_q", "grad_k", "grad_v")
)


def _head_case(title: str, T: int, S: int, K: int, *lead: int, **masked: Any) -> None:
    inputs = (drawn(*lead, n, K, seed=i) for i, n in enumerate((T, S, S)))
    slopes_case(head_back, title, complex_attention, *inputs, **masked)


_head_case("one query, two keys", 1, 2, 3)
_head_case("three queries, five keys", 3, 5, 4)
_head_case("T, S and K equal", 4, 4, 4)
_head_case("with a causal mask", 5, 5, 2, mask=np.tri(5, dtype=bool))
_head_case("a mask that is not causal", 2, 3, 2, mask=np.array([[True, False, True], [False, True, True]]))
_head_case("three heads at once", 4, 4, 2, 3, mask=np.tri(4, dtype=bool))
