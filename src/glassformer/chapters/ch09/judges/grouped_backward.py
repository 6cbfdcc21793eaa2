"""Judges "Grouped heads" (chapter 09): the backward pass of attention in which heads share keys and values.

Axes: H n_heads, G n_kv_heads, T positions asking, S positions answering, K d_head.
"""

from typing import Any

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.shapes import Bool, Float

from .attention_backward import scaled_dot_product_attention_backward
from .forward import complex_attention
from .slopes import drawn, slopes_case


def grouped_backward(
    grad: Float[np.ndarray, "H T K"],
    q: Float[np.ndarray, "H T K"],
    k: Float[np.ndarray, "G S K"],
    v: Float[np.ndarray, "G S K"],
    *,
    mask: Bool[np.ndarray, "..."] | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Maps the gradient of grouped attention's output to those of q, k and v."""
    times = len(q) // len(k)
    every_k, every_v = (np.repeat(x, times, axis=0) for x in (k, v))
    grad_q, *copies = scaled_dot_product_attention_backward(grad, q, every_k, every_v, mask=mask)
    grad_k, grad_v = (one.reshape(len(k), times, *one.shape[1:]).sum(axis=1) for one in copies)
    return grad_q, grad_k, grad_v


_PARTS, _AXES = ("grad_q", "grad_k", "grad_v"), ("H T K", "G S K", "G S K")
grouped_back = exercise("back.grouped_backward", grouped_backward, parts=_PARTS, axes=_AXES)


def _grouped(q, k, v, mask=None):
    """Grouped attention head by head, also of complex numbers."""
    group = [head * len(k) // len(q) for head in range(len(q))]
    return np.stack([complex_attention(q[h], k[g], v[g], mask) for h, g in enumerate(group)])


def _grouped_case(title: str, H: int, G: int, T: int, S: int, K: int, **masked: Any) -> None:
    inputs = drawn(H, T, K), drawn(G, S, K, seed=1), drawn(G, S, K, seed=2)
    slopes_case(grouped_back, title, _grouped, *inputs, **masked)


_grouped_case("two heads share one key", 2, 1, 1, 3, 4)
_grouped_case("four heads in two groups", 4, 2, 3, 5, 2)
_grouped_case("six heads in two groups", 6, 2, 4, 4, 3)
_grouped_case("with a causal mask", 6, 3, 5, 5, 2, mask=np.tri(5, dtype=bool))
_grouped_case("a group for every head", 3, 3, 2, 4, 2)
