"""Judges "The k likeliest" (chapter 11): only the k largest logits are kept.

Axis: V vocabulary.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.shapes import Float

from .strategies import FIVE, left_case


def top_k(logits: Float[np.ndarray, "*B V"], k: int) -> Float[np.ndarray, "*B V"]:
    """Returns the k largest logits unchanged, and −inf for all others."""
    k = min(k, logits.shape[-1])
    smallest = np.sort(logits, axis=-1)[..., -k, None]
    return np.where(logits < smallest, -np.inf, logits)


few = exercise("generating.top_k", top_k)

_two, _all = [0, 4 / 7, 0, 3 / 7, 0], [0.1, 0.4, 0.05, 0.3, 0.15]
for _title, _z, _k, _left, _said in (
    ("two of five", FIVE, 2, _two, "top_k(logits, 2)"),
    ("one: greedy", FIVE, 1, [0.0, 1, 0, 0, 0], "top_k(logits, 1)"),
    ("negative logits, among which 0 would be the largest", FIVE - 5, 3,
     [0, 8 / 17, 0, 6 / 17, 3 / 17], "top_k(negative logits, 3)"),
    ("k = V, and a larger k", FIVE, 5, _all, "top_k(logits, 5)"),
    ("", FIVE, 50, _all, "top_k(logits of 5 ids, 50)"),
    ("a batch: each row has its own", np.stack([FIVE, FIVE[::-1] - 2]), 2, [_two, _two[::-1]], "top_k of two rows"),
):  # fmt: skip
    left_case(few, _title, _z, _k, want=_left, said=_said)
