"""Judges "Back through all heads" (chapter 09): the backward pass of causal attention with several heads.

Axes: T positions, D d_model.
"""

import math

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.scratch.attention import causal_mask, merge_heads, scaled_dot_product_attention, split_heads
from glassformer.shapes import Float

from .attention_backward import scaled_dot_product_attention_backward
from .forward import complex_heads
from .linear_backward import linear_backward
from .slopes import drawn, slopes_case


def multi_head_backward(
    grad: Float[np.ndarray, "T D"],
    x: Float[np.ndarray, "T D"],
    W_q: Float[np.ndarray, "D D"],
    W_k: Float[np.ndarray, "D D"],
    W_v: Float[np.ndarray, "D D"],
    W_o: Float[np.ndarray, "D D"],
    n_heads: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Maps the gradient of causal multi-head attention to those of x and of the four matrices."""
    mask = causal_mask(len(x), len(x))
    q, k, v = (split_heads(x @ W, n_heads) for W in (W_q, W_k, W_v))
    mixed, _ = scaled_dot_product_attention(q, k, v, mask=mask)
    grad, grad_o = linear_backward(grad, merge_heads(mixed), W_o)
    heads = scaled_dot_product_attention_backward(split_heads(grad, n_heads), q, k, v, mask=mask)
    (from_q, grad_q), (from_k, grad_k), (from_v, grad_v) = (
        linear_backward(merge_heads(head), x, W) for head, W in zip(heads, (W_q, W_k, W_v), strict=True)
    )
    return from_q + from_k + from_v, grad_q, grad_k, grad_v, grad_o


_PARTS = ("grad_x", "grad_W_q", "grad_W_k", "grad_W_v", "grad_W_o")
heads_back = exercise(
    "back.multi_head_backward", multi_head_backward, parts=_PARTS, axes=("T D", *["D D"] * 4)
)


def _heads_case(title: str, T: int, D: int, n_heads: int) -> None:
    inputs = drawn(T, D), *(drawn(4, D, D, seed=1) / math.sqrt(D))
    slopes_case(heads_back, title, complex_heads, *inputs, n_heads)


_heads_case("one position, one head", 1, 4, 1)
_heads_case("four positions, one head", 4, 3, 1)
_heads_case("two heads", 5, 6, 2)
_heads_case("as many heads as features", 4, 4, 4)
