"""The table of mistakes that an attention may have, on the queries, keys and values of `measures.formula`."""

from collections.abc import Iterator

import numpy as np

from ..measures.formula import AHEAD, BASES, KEYS, H, K, Q, T, V, mixed, rotated, softmax
from .engine import Suspect

SLOPES = 2.0 ** (-8 * np.arange(1, H + 1) / H)[:, None, None]
DISTANCE = np.arange(T)[:, None] - np.arange(T)
ALIBI = {False: -SLOPES * np.abs(DISTANCE), True: -SLOPES * DISTANCE}  # by whether the future is hidden


def of_scores(bias: np.ndarray | float = 0.0) -> Iterator[Suspect]:
    """Yields mistakes that can happen without a mask; `bias` is what a right design adds to its scores."""
    plain = Q @ KEYS.swapaxes(-1, -2) / np.sqrt(K)
    z = plain + bias
    weights = softmax(z)
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    apart = ((Q[:, :, None] - KEYS[:, None]) ** 2).sum(axis=-1)
    rows = [
        ("softmax-axis", softmax(z, -2) @ V), ("softmax-axis", softmax(z, -3) @ V),
        ("softmax-axis", e / e.sum(axis=-2, keepdims=True) @ V),  # the largest of each row, and the wrong sum
        ("softmax-axis", np.ones((H, T, T)) @ V),  # over an axis of length one, such as that of texts
        *(("softmax-of-all", softmax(z, axes) @ V) for axes in ((-3, -2, -1), (-2, -1))),
        ("keys-ask", softmax(plain.swapaxes(-1, -2) + bias) @ V),
        ("no-softmax", z @ V), ("softmax-unsummed", e @ V), ("softmax-unsummed", np.exp(z) @ V),
        ("sigmoid-weights", 1 / (1 + np.exp(-z)) @ V),
        ("one-for-two", mixed(Q, Q, V)), ("one-for-two", mixed(KEYS, KEYS, V)),
        ("values-missing", weights @ KEYS), ("values-missing", weights @ Q),
        ("heads-averaged", np.broadcast_to(weights.mean(axis=0), weights.shape) @ V),
        ("heads-averaged", np.broadcast_to(softmax(z.mean(axis=0)), z.shape) @ V),
        ("scores-without-sign", softmax(np.abs(z)) @ V), ("scores-without-sign", softmax(np.maximum(z, 0)) @ V),
        ("weights-transposed", weights.swapaxes(-1, -2) @ V),
        *(("scores-by-distance", softmax(-apart / size) @ V) for size in (1, np.sqrt(K), 2 * np.sqrt(K), 2)),
        ("values-added", weights @ V + V), ("values-added", weights @ V + Q),
        ("always-causal", softmax(np.where(AHEAD, -np.inf, z)) @ V),
    ]  # fmt: skip
    yield from (Suspect(mistake, value) for mistake, value in rows)
    yield from _values_rotated(None)


def of_masks(bias: np.ndarray | float = 0.0) -> Iterator[Suspect]:
    """Yields mistakes in the causal mask, or under it."""
    z = Q @ KEYS.swapaxes(-1, -2) / np.sqrt(K) + bias
    with np.errstate(all="ignore"):
        hidden = np.where(AHEAD, -np.inf, z)
        itself = softmax(np.where(AHEAD | np.eye(T, dtype=bool), -np.inf, z)) @ V
        first = softmax(z)[:, :1] @ V  # a number such as -1e9 in the whole row hides nothing from it
        rows = [
            ("no-mask", softmax(z) @ V),
            ("mask-transposed", softmax(np.where(AHEAD.T, -np.inf, z)) @ V),
            ("mask-transposed", softmax(np.where(~AHEAD, -np.inf, z)) @ V),
            ("mask-one-ahead", softmax(np.where(np.triu(AHEAD, 2), -np.inf, z)) @ V),
            ("mask-after-softmax", np.where(AHEAD, 0, softmax(z)) @ V),
            ("mask-of-self", itself), ("mask-of-self", np.nan_to_num(itself)),
            ("mask-of-self", np.where(np.isnan(itself), V.mean(axis=1, keepdims=True), itself)),
            ("mask-of-self", np.concatenate([first, itself[:, 1:]], axis=1)),
            ("mask-of-zeros", softmax(np.where(AHEAD, 0, z)) @ V),
            ("scores-lost", softmax(np.where(AHEAD, -np.inf, 0.0 * z)) @ V),
            ("softmax-axis", np.nan_to_num(softmax(hidden, -2)) @ V),
            *(("softmax-of-all", softmax(hidden, axes) @ V) for axes in ((-3, -2, -1), (-2, -1))),
        ]  # fmt: skip
    yield from (Suspect(mistake, value) for mistake, value in rows)
    yield from _values_rotated(AHEAD)


def _values_rotated(hidden: np.ndarray | None) -> Iterator[Suspect]:
    """Yields attention whose values were rotated along with queries and keys."""
    for layout in ("half", "neighbours"):
        for base in BASES:
            q, k, v = (rotated(x, layout, base) for x in (Q, KEYS, V))
            yield Suspect("attention-values-rotated", mixed(q, k, v, hidden))


def of_zeros() -> Iterator[Suspect]:
    """Yields mistakes that show where all scores are 0, and must not be taken for hidden ones."""
    everything = np.broadcast_to(V.mean(axis=1, keepdims=True), V.shape)
    yield from (Suspect("mask-by-value", one) for one in (np.full(V.shape, np.nan), 0 * V, everything))
