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


grouped_back = exercise(
    "back.grouped_backward",
    grouped_backward,
    parts=("grad_q", "grad_k", "grad_v"),
    axes=("H T K", "G S K", "G S K"),
)


def _grouped(q, k, v, mask=None):
    """Grouped attention head by head, also of complex numbers."""
    group = [head * len(k) // len(q) for head in range(len(q))]
    return np.stack([complex_attention(q[h], k[g], v[g], mask) for h, g in enumerate(group)])


def _grouped_case(title: str, H: int, G: int, T: int, S: int, K: int, seed: int, mask: Any = None) -> None:
    inputs = drawn(H, T, K, seed=seed), drawn(G, S, K, seed=seed + 1), drawn(G, S, K, seed=seed + 2)
    slopes_case(grouped_back, title, _grouped, *inputs, grad=drawn(H, T, K, seed=seed + 3), mask=mask)


_grouped_case("two heads share one key", 2, 1, 1, 3, 4, 240)
_grouped_case("four heads in two groups", 4, 2, 3, 5, 2, 244)
_grouped_case("six heads in two groups", 6, 2, 4, 4, 3, 248)
_grouped_case("with a causal mask", 6, 3, 5, 5, 2, 252, np.tri(5, dtype=bool))
_grouped_case("a group for every head", 3, 3, 2, 4, 2, 256)


def _grouped_wrong(
    copies=lambda x, times: np.repeat(x, times, axis=0),
    gather=lambda x, G: x.reshape(G, -1, *x.shape[1:]).sum(axis=1),
    see=True,
    of_q=None,
):
    """A wrong answer: one thing left out or changed."""

    def wrong(grad, q, k, v, *, mask=None):
        G, times = len(k), len(q) // len(k)
        found = scaled_dot_product_attention_backward(
            grad, q, copies(k, times), copies(v, times), mask=mask if see else None
        )
        grad_q = found[0] if of_q is None else of_q(found[0], G)
        return grad_q, *(gather(one, G) for one in found[1:])

    return wrong


def _tiled(x, times):
    return np.tile(x, (times, 1, 1))


def _by_turns(x, G):
    return x.reshape(-1, G, *x.shape[1:]).sum(axis=0)


grouped_back.mistake("not summed", _grouped_wrong(gather=lambda x, G: x))
grouped_back.mistake(
    "mean of the group", _grouped_wrong(gather=lambda x, G: x.reshape(G, -1, *x.shape[1:]).mean(axis=1))
)
grouped_back.mistake("by turns", _grouped_wrong(copies=_tiled, gather=_by_turns))
grouped_back.mistake("by turns", _grouped_wrong(copies=_tiled))
grouped_back.mistake("summed by turns", _grouped_wrong(gather=_by_turns))
grouped_back.mistake("one of the group", _grouped_wrong(gather=lambda x, G: x[:: len(x) // G]))
grouped_back.mistake(
    "one of the group", _grouped_wrong(gather=lambda x, G: x[len(x) // G - 1 :: len(x) // G])
)
grouped_back.mistake("mask forgotten", _grouped_wrong(see=False))
