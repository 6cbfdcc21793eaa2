"""Attention as the formula has it, on queries, keys and values of the checker's own."""

import numpy as np

_RNG = np.random.default_rng(15)
# All different, K even (a rotation needs pairs) and at least T (so that values can be the unit vectors).
H, T, K = 4, 7, 8
Q, KEYS, V = (_RNG.normal(size=(H, T, K)) * size for size in (2.0, 2.0, 1.0))
AHEAD = np.triu(np.ones((T, T), bool), 1)
BASES = (10_000.0, 500_000.0, 1_000_000.0, 1_000.0, 100.0)  # of rotary positions


def softmax(x: np.ndarray, axis: int | tuple[int, ...] = -1) -> np.ndarray:
    """Computes the softmax over one axis or several."""
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def mixed(q: np.ndarray, k: np.ndarray, v: np.ndarray, hidden: np.ndarray | None = None) -> np.ndarray:
    """Computes attention, with −∞ where `hidden`."""
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    return softmax(scores if hidden is None else np.where(hidden, -np.inf, scores)) @ v


def rotated(x: np.ndarray, layout: str = "half", base: float = 10_000.0) -> np.ndarray:
    """Rotates (H, T, K) by position: pairs are half a width apart, or neighbours."""
    width = x.shape[-1]
    angles = np.arange(x.shape[-2])[:, None] * base ** (-np.arange(0, width, 2) / width)
    cos, sin = np.cos(angles), np.sin(angles)
    first, second = (slice(0, width // 2), slice(width // 2, width)) if layout == "half" else (
        slice(0, width, 2), slice(1, width, 2),
    )  # fmt: skip
    out = np.empty_like(x, dtype=np.float64)
    out[..., first] = x[..., first] * cos - x[..., second] * sin
    out[..., second] = x[..., first] * sin + x[..., second] * cos
    return out
