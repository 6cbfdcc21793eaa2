"""Judges "Cross-attention by hand" (chapter 12): attention with several heads to another text, with padding hidden.

Axes: T positions, S positions of a source, D d_model.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from glassformer.chapters.ch03.judges.by_hand import attended
from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.scratch.attention import merge_heads, softmax, split_heads
from glassformer.shapes import Bool, Float


def look_across(
    x: Float[np.ndarray, "T D"],
    memory: Float[np.ndarray, "S D"],
    W_q: Float[np.ndarray, "D D"],
    W_k: Float[np.ndarray, "D D"],
    W_v: Float[np.ndarray, "D D"],
    W_o: Float[np.ndarray, "D D"],
    n_heads: int,
    real: Bool[np.ndarray, " S"],
) -> Float[np.ndarray, "T D"]:
    """Attention with several heads to another text, of which the `real` positions may be seen."""
    q = split_heads(x @ W_q, n_heads)
    k, v = split_heads(memory @ W_k, n_heads), split_heads(memory @ W_v, n_heads)
    scores = np.where(real, q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]), -np.inf)
    return merge_heads(softmax(scores) @ v) @ W_o


across = exercise("families.look_across", look_across, axes="T D")


def _two(T: int, S: int, D: int, n_heads: int, hidden: Sequence[int] = (), seed: int = 0) -> tuple[Any, ...]:
    real = ~np.isin(np.arange(S), hidden)
    texts = numbers(T, D, seed=seed), numbers(S, D, seed=seed + 1)
    return *texts, *numbers(4, D, D, seed=seed + 2), n_heads, real


def _across_by_hand(x, memory, W_q, W_k, W_v, W_o, n_heads, real) -> np.ndarray:
    """Returns what each head finds, through its own rows of W_o, added up."""
    mask = [real] * len(x)
    columns = np.split(np.arange(x.shape[1]), n_heads)
    heads = (
        attended(x @ W_q[:, own], memory @ W_k[:, own], memory @ W_v[:, own], mask)[0] for own in columns
    )
    return np.add.reduce([found @ W_o[own] for found, own in zip(heads, columns, strict=True)])


across.shape("one row for each query", *_two(2, 5, 6, 3), want=(2, 6))
_given = _two(3, 1, 4, 2)
across.case(
    "a source of one position gives every query the same result", *_given,
    want=np.repeat(_given[1] @ _given[4] @ _given[5], 3, axis=0),
)  # fmt: skip
for _title, _given in (
    ("one head, and two texts of the same length", _two(4, 4, 3, 1, seed=3)),
    ("two heads, and texts of different lengths", _two(3, 7, 6, 2, seed=5)),
    ("padding at the end is not seen", _two(5, 6, 4, 2, (4, 5), seed=7)),
    ("padding in the middle is not seen either, with three heads", _two(4, 4, 6, 3, (1,), seed=9)),
):
    across.case(_title, *_given, want=_across_by_hand(*_given))
