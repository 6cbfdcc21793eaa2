"""Softmax and attention with every sum written out: the right answers in chapter 03."""

import math
from typing import Any

import numpy as np


def softmax_by_hand(row: Any) -> list[float]:
    """Computes softmax of one row from its definition; no entry may be large."""
    powers = [math.exp(x) for x in row]
    return [power / math.fsum(powers) for power in powers]


def attended(q: Any, k: Any, v: Any, mask: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """Computes outputs and weights, head by head, with every score, weight and average as a sum written out."""
    if np.ndim(q) > 2:
        masks = [None] * len(q) if mask is None else np.broadcast_to(mask, (*q.shape[:-1], k.shape[-2]))
        each = [attended(*head) for head in zip(q, k, v, masks, strict=True)]
        return np.array([outputs for outputs, _ in each]), np.array([weights for _, weights in each])
    weights = []
    for t, query in enumerate(q):
        row = [sum(a * b for a, b in zip(query, key, strict=True)) / len(query) ** 0.5 for key in k]
        weights.append(
            softmax_by_hand(x if mask is None or mask[t][s] else -math.inf for s, x in enumerate(row))
        )
    outputs = [
        [math.fsum(w * x for w, x in zip(row, column, strict=True)) for column in zip(*v, strict=True)]
        for row in weights
    ]
    return np.array(outputs), np.array(weights)
