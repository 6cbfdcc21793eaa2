"""Judges "The k likeliest" (chapter 11): only the k largest logits are kept.

Axis: V vocabulary.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.shapes import Float

from .strategies import FIVE, NO, left_case


def top_k(logits: Float[np.ndarray, "*B V"], k: int) -> Float[np.ndarray, "*B V"]:
    """Returns the k largest logits unchanged, and −inf for all others."""
    k = min(k, logits.shape[-1])
    smallest = np.sort(logits, axis=-1)[..., -k, None]
    return np.where(logits < smallest, -np.inf, logits)


few = exercise("generating.top_k", top_k)

left_case(few, "two of five", FIVE, 2, want=[0, 4 / 7, 0, 3 / 7, 0], said="top_k(logits, 2)")
left_case(few, "one: greedy", FIVE, 1, want=[0.0, 1, 0, 0, 0], said="top_k(logits, 1)")
left_case(
    few, "negative logits, among which 0 would be the largest", FIVE - 5, 3,
    want=[0, 8 / 17, 0, 6 / 17, 3 / 17], said="top_k(negative logits, 3)",
)  # fmt: skip
left_case(few, "k = V, and a larger k", FIVE, 5, want=[0.1, 0.4, 0.05, 0.3, 0.15], said="top_k(logits, 5)")
left_case(few, "", FIVE, 50, want=[0.1, 0.4, 0.05, 0.3, 0.15], said="top_k(logits of 5 ids, 50)", also=True)
left_case(
    few, "a batch: each row has its own", np.stack([FIVE, FIVE[::-1] - 2]), 2,
    want=[[0, 4 / 7, 0, 3 / 7, 0], [0, 3 / 7, 0, 4 / 7, 0]], said="top_k of two rows with k = 2",
)  # fmt: skip


@few.mistake("zero instead")
def _(logits, k):
    return np.where(np.isneginf(top_k(logits, k)), 0.0, logits)


few.mistake("one more", lambda logits, k: top_k(logits, k + 1))


@few.mistake("one fewer")
def _(logits, k):
    smallest = np.sort(logits, axis=-1)[..., -min(k, logits.shape[-1]), None]
    return np.where(logits <= smallest, NO, logits)


@few.mistake("one row alone")
def _(z, k):
    smallest = np.sort(z)[-k]
    return np.where(z < smallest, NO, z)


@few.mistake("smallest")
def _(logits, k):
    largest = np.sort(logits, axis=-1)[..., min(k, logits.shape[-1]) - 1, None]
    return np.where(logits > largest, NO, logits)


few.mistake("k left out", lambda logits, k: top_k(logits, max(1, logits.shape[-1] - k)))


@few.mistake("first ids")
def _(logits, k):
    return np.where(np.arange(logits.shape[-1]) < k, logits, NO)


@few.mistake("of the batch")
def _(logits, k):
    smallest = np.sort(logits, axis=None)[-min(k, logits.size)]
    return np.where(logits < smallest, -1e9, logits)


@few.mistake("sorted")
def _(logits, k):
    best = -np.sort(-logits, axis=-1)
    best[..., k:] = NO
    return best
