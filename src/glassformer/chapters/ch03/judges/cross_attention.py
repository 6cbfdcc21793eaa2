"""Judges "Ask another text" (chapter 03): queries come from one text, keys and values from another.

Axes: T positions asking, S positions answering, D d_model, K d_head.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.scratch.attention import scaled_dot_product_attention
from glassformer.shapes import Float

from .attention import attention
from .by_hand import attended


def cross_attention(
    x: Float[np.ndarray, "T D"],
    memory: Float[np.ndarray, "S D"],
    W_q: Float[np.ndarray, "D K"],
    W_k: Float[np.ndarray, "D K"],
    W_v: Float[np.ndarray, "D K"],
) -> Float[np.ndarray, "T K"]:
    """Computes what each position of x fetches from another text, `memory`."""
    output, _ = scaled_dot_product_attention(x @ W_q, memory @ W_k, memory @ W_v)
    return output


cross = exercise("attention.cross_attention", cross_attention, axes="T K")


def _texts(T: int, S: int, D: int, K: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    return numbers(T, D, seed=seed), numbers(S, D, seed=seed + 1), *numbers(3, D, K, seed=seed + 2)


def _fetched(x, memory, W_q, W_k, W_v):
    return attended(x @ W_q, memory @ W_k, memory @ W_v)[0]


cross.shape(
    "a row for each position that asks, whatever the other text's length", *_texts(2, 5, 4, 3), want=(2, 3)
)
_given = _texts(3, 1, 4, 2)
cross.case(
    "if the other text has one position, every query gets the same output",
    *_given, want=np.repeat(_given[1] @ _given[4], 3, axis=0),
)  # fmt: skip
cross.case(
    "two texts of the same length: each position sees all of the other text",
    *_texts(4, 4, 3, 2, seed=3), want=_fetched,
)  # fmt: skip
cross.case("two texts of different lengths", *_texts(2, 6, 5, 3, seed=6), want=_fetched)

for _attend in (attention.short, attention.reference):
    cross.slip("values of x", "memory @ W_v", "x @ W_v", scaled_dot_product_attention=_attend)
cross.slip("columns", scaled_dot_product_attention=attention.wrong("columns"))
