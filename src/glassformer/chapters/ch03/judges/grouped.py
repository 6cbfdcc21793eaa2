"""Judges "Heads that share their keys" (chapter 03): neighbouring query heads share one key head and one value head.

Axes: T positions asking, S positions answering, H heads, G key and value heads, K d_head.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.scratch.attention import repeat_heads, scaled_dot_product_attention
from glassformer.shapes import Float

from .by_hand import attended


def grouped_attention(
    q: Float[np.ndarray, "H T K"], k: Float[np.ndarray, "G S K"], v: Float[np.ndarray, "G S K"]
) -> Float[np.ndarray, "H T K"]:
    """Computes attention in which H/G neighbouring query heads share each key head and value head."""
    times = len(q) // len(k)
    k, v = np.repeat(k, times, axis=0), np.repeat(v, times, axis=0)
    output, _ = scaled_dot_product_attention(q, k, v)
    return output


grouped = exercise("attention.grouped", grouped_attention, built_on=(repeat_heads,), axes="H T K")


def _shared(H: int, G: int, T: int, S: int, K: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    return numbers(H, T, K, seed=seed), numbers(G, S, K, seed=seed + 1), numbers(G, S, K, seed=seed + 2)


def _in_groups(q, k, v):
    heads = [h * len(k) // len(q) for h in range(len(q))]
    return attended(q, k[heads], v[heads])[0]


grouped.shape("an output for each query head", *_shared(6, 2, 4, 5, 3), want=(6, 4, 3))
grouped.case(
    "as many key heads as query heads, so each query head has its own",
    *_shared(3, 3, 2, 4, 2), want=_in_groups,
)  # fmt: skip
grouped.case(
    "two key heads for six query heads: 0, 1 and 2 share the first",
    *_shared(6, 2, 3, 4, 2, seed=3), want=_in_groups,
)  # fmt: skip
grouped.case("one key head for all the query heads", *_shared(4, 1, 3, 2, 5, seed=6), want=_in_groups)
