"""Attention as the formula has it, and as mistakes make it, on queries, keys and values of the checker's own."""

from collections.abc import Iterator, Sequence

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


def mixed(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    hidden: np.ndarray | None = None,
    *,
    scale: float | None = None,
    axis: int | tuple[int, ...] = -1,
) -> np.ndarray:
    """Computes attention; with `scale`, `axis` or `hidden`, as a mistake would."""
    scores = q @ k.swapaxes(-1, -2) * (1 / np.sqrt(q.shape[-1]) if scale is None else scale)
    if hidden is not None:
        scores = np.where(hidden, -np.inf, scores)
    return softmax(scores, axis) @ v


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


def of_scores(widths: Sequence[int] = ()) -> Iterator[tuple[str, np.ndarray]]:
    """Yields mistakes that can happen without a mask, with their results."""
    plain = Q @ KEYS.swapaxes(-1, -2)
    yield "no-scale", mixed(Q, KEYS, V, scale=1.0)
    yield "scale-k", mixed(Q, KEYS, V, scale=1 / K)
    yield "scale-times", mixed(Q, KEYS, V, scale=np.sqrt(K))
    yield "scale-length", mixed(Q, KEYS, V, scale=1 / np.sqrt(T))
    for width in (H * K, *widths):
        yield "scale-model", mixed(Q, KEYS, V, scale=1 / np.sqrt(width))
    for axis in (-2, -3):
        yield "softmax-axis", mixed(Q, KEYS, V, axis=axis)
    yield from of_whole_tables(Q, KEYS, V, None)
    e = np.exp(plain / np.sqrt(K) - (plain / np.sqrt(K)).max(axis=-1, keepdims=True))
    yield "softmax-axis", e / e.sum(axis=-2, keepdims=True) @ V  # the largest of each row, and the wrong sum
    yield "keys-ask", mixed(KEYS, Q, V)
    yield "no-softmax", plain / np.sqrt(K) @ V
    for z in (plain / np.sqrt(K), plain / np.sqrt(K) - (plain / np.sqrt(K)).max(axis=-1, keepdims=True)):
        yield "softmax-unsummed", np.exp(z) @ V
    yield "softmax-axis", np.ones((H, T, T)) @ V  # over an axis of length one, such as that of texts
    yield "sigmoid-weights", 1 / (1 + np.exp(-plain / np.sqrt(K))) @ V
    yield "one-for-two", mixed(Q, Q, V)
    yield "one-for-two", mixed(KEYS, KEYS, V)
    yield "values-missing", mixed(Q, KEYS, KEYS)
    yield "values-missing", mixed(Q, KEYS, Q)
    yield "heads-averaged", np.broadcast_to(softmax(plain / np.sqrt(K)).mean(axis=0), (H, T, T)) @ V
    yield "scores-without-sign", softmax(np.abs(plain) / np.sqrt(K)) @ V
    yield "scores-cut", softmax(np.maximum(plain, 0) / np.sqrt(K)) @ V
    yield "weights-transposed", softmax(plain / np.sqrt(K)).swapaxes(-1, -2) @ V
    yield "heads-averaged", np.broadcast_to(softmax(plain.mean(axis=0) / np.sqrt(K)), (H, T, T)) @ V
    apart = ((Q[:, :, None] - KEYS[:, None]) ** 2).sum(axis=-1)
    for scores in (-apart, -np.sqrt(apart), -apart / np.sqrt(K), -apart / 2 / np.sqrt(K), -apart / 2):
        yield "scores-by-distance", softmax(scores) @ V
    lengths = np.linalg.norm(softmax(plain / np.sqrt(K)), axis=-1, keepdims=True)
    yield "softmax-unsummed", softmax(plain / np.sqrt(K)) / lengths @ V
    right = mixed(Q, KEYS, V)
    yield "values-added", right + V
    yield "values-added", right + Q
    for by in range(1, H):
        yield "other-head", mixed(Q, KEYS, np.roll(V, by, axis=0))
    yield "other-head", mixed(Q, KEYS, V[::-1])
    yield "always-causal", mixed(Q, KEYS, V, AHEAD)
    yield from values_rotated(Q, KEYS, V, None)


def values_rotated(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, hidden: np.ndarray | None
) -> Iterator[tuple[str, np.ndarray]]:
    """Yields attention whose values were rotated, too."""
    for layout in ("half", "neighbours"):
        for base in BASES:
            of_v = rotated(v, layout, base)
            yield "attention-values-rotated", mixed(q, k, of_v, hidden)
            yield (
                "attention-values-rotated",
                mixed(rotated(q, layout, base), rotated(k, layout, base), of_v, hidden),
            )


def of_whole_tables(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, hidden: np.ndarray | None
) -> Iterator[tuple[str, np.ndarray]]:
    """Yields attention whose softmax runs over more than the keys."""
    for axes in ((-3, -2, -1), (-2, -1), (-3, -1)):
        yield "softmax-of-all", mixed(q, k, v, hidden, axis=axes)


def of_masks() -> Iterator[tuple[str, np.ndarray]]:
    """Yields mistakes in the causal mask, with their results."""
    scores = Q @ KEYS.swapaxes(-1, -2) / np.sqrt(K)
    with np.errstate(all="ignore"):
        strictly = mixed(Q, KEYS, V, np.triu(np.ones((T, T), bool)))
        yield "no-mask", mixed(Q, KEYS, V)
        yield "mask-transposed", mixed(Q, KEYS, V, AHEAD.T)
        yield "mask-transposed", mixed(Q, KEYS, V, ~AHEAD)
        yield "mask-one-ahead", mixed(Q, KEYS, V, np.triu(np.ones((T, T), bool), 2))
        yield "mask-after-softmax", np.where(AHEAD, 0, softmax(scores)) @ V
        yield "mask-of-self", strictly
        yield "mask-of-self", np.nan_to_num(strictly)
        yield "mask-of-self", np.where(np.isnan(strictly), V.mean(axis=1, keepdims=True), strictly)
        first = softmax(scores)[:, :1] @ V  # a number such as -1e9 in the whole row hides nothing from it
        yield "mask-of-self", np.concatenate([first, strictly[:, 1:]], axis=1)
        yield "mask-of-zeros", softmax(np.where(AHEAD, 0, scores)) @ V
        yield "softmax-axis", np.nan_to_num(mixed(Q, KEYS, V, AHEAD, axis=-2))
    yield from of_whole_tables(Q, KEYS, V, AHEAD)
    yield from values_rotated(Q, KEYS, V, AHEAD)
