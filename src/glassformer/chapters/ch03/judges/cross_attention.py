"""Judges "Ask another text" (chapter 03): queries come from one text, keys and values from another.

Axes: T positions asking, S positions answering, D d_model, K d_head.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.scratch.attention import scaled_dot_product_attention
from glassformer.shapes import Float

from .by_hand import attended
from .mistakes import changed_attention, softmax_of_columns


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
    *_given,
    want=np.repeat(_given[1] @ _given[4], 3, axis=0),
)
_given = _texts(4, 4, 3, 2, seed=3)
cross.case(
    "two texts of the same length: each position sees all of the other text", *_given, want=_fetched(*_given)
)
_given = _texts(2, 6, 5, 3, seed=6)
cross.case("two texts of different lengths", *_given, want=_fetched(*_given))

cross.mistake("itself", lambda x, m, W_q, W_k, W_v: changed_attention(x @ W_q, x @ W_k, x @ W_v)[0])
cross.mistake("values of x", lambda x, m, W_q, W_k, W_v: changed_attention(x @ W_q, m @ W_k, x @ W_v)[0])
cross.mistake("roles changed", lambda x, m, W_q, W_k, W_v: changed_attention(m @ W_q, x @ W_k, x @ W_v)[0])
cross.mistake(
    "no root", lambda x, m, W_q, W_k, W_v: changed_attention(x @ W_q, m @ W_k, m @ W_v, root=False)[0]
)
cross.mistake(
    "root of D",
    lambda x, m, W_q, W_k, W_v: changed_attention(x @ W_q, m @ W_k, m @ W_v, scale=len(W_q) ** -0.5)[0],
)
cross.mistake(
    "masked",
    lambda x, m, W_q, W_k, W_v: changed_attention(
        x @ W_q, m @ W_k, m @ W_v, mask=np.tri(len(x), len(m), dtype=bool)
    )[0],
)
cross.mistake(
    "columns",
    lambda x, m, W_q, W_k, W_v: changed_attention(x @ W_q, m @ W_k, m @ W_v, shares=softmax_of_columns)[0],
)
cross.mistake("swapped matrices", lambda x, m, W_q, W_k, W_v: changed_attention(x @ W_q, m @ W_v, m @ W_k)[0])
