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

_SMALLEST, _LESS = "np.sort(logits, axis=-1)[..., -k, None]", "logits < smallest"
few.slip("zero instead", "-np.inf", "0.0")
few.slip("one more", "min(k,", "min(k + 1,")
few.slip("one fewer", _LESS, "logits <= smallest")
few.slip("one row alone", "min(k, logits.shape[-1])", "k", _SMALLEST, "np.sort(logits)[-k]")
few.slip("smallest", _SMALLEST, "np.sort(logits, axis=-1)[..., k - 1, None]", _LESS, "logits > smallest")
few.slip("k left out", "min(k, logits.shape[-1])", "max(1, logits.shape[-1] - k)")
few.slip("of the batch", _SMALLEST, "np.sort(logits, axis=None)[-k]", "-np.inf", "-1e9")
few.slip("sorted", "    return ", "    logits = -np.sort(-logits, axis=-1)\n    return ")
