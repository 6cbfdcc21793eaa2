"""Attention as the formula has it, on queries, keys and values of the checker's own."""

import numpy as np

from glassformer.scratch import rotate, rotation_angles, scaled_dot_product_attention

_RNG = np.random.default_rng(15)
# All different, K even (a rotation needs pairs) and at least T (so that values can be the unit vectors).
H, T, K = 4, 7, 8
Q, KEYS, V = (_RNG.normal(size=(H, T, K)) * size for size in (2.0, 2.0, 1.0))
AHEAD = np.triu(np.ones((T, T), bool), 1)
BASES = (10_000.0, 500_000.0, 1_000_000.0, 1_000.0, 100.0)  # of rotary positions


def mixed(q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool = False) -> np.ndarray:
    """Computes attention."""
    return scaled_dot_product_attention(q, k, v, causal=causal)[0]


def rotated(x: np.ndarray, layout: str, base: float) -> np.ndarray:
    """Rotates (H, T, K) by position."""
    return rotate(x, rotation_angles(np.arange(T), K, base=base), layout=layout)
