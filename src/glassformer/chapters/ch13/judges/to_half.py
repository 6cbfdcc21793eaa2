"""Judges "Meta's files into Hugging Face's" (chapter 13).

Matrices for rotary pairs of neighbours become matrices for pairs of halves.

Axes: D d_model, H heads, G heads that answer, K d_head.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.shapes import Float


def to_half(
    W_q: Float[np.ndarray, "D HK"],
    W_k: Float[np.ndarray, "D GK"],
    W_v: Float[np.ndarray, "D GK"],
    W_o: Float[np.ndarray, "HK D"],
    n_heads: int,
    n_kv_heads: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Converts the matrices of an attention that rotates neighbouring dimensions for one that rotates two halves."""

    def turned(W, heads):
        return W.reshape(len(W), heads, -1, 2).swapaxes(-1, -2).reshape(W.shape)

    return turned(W_q, n_heads), turned(W_k, n_kv_heads), W_v, W_o


halves = exercise(
    "real.to_half", to_half, parts=("W_q", "W_k", "W_v", "W_o"), axes=("D HK", "D GK", "D GK", "HK D")
)


def _seats(heads: int, K: int) -> list[int]:
    """Returns the order of the old columns: in every head, first the even ones, then the odd ones."""
    return [head * K + i for head in range(heads) for i in (*range(0, K, 2), *range(1, K, 2))]


def _attention(D: int, H: int, G: int, K: int, seed: int) -> tuple[np.ndarray, ...]:
    shapes = ((D, H * K), (D, G * K), (D, G * K), (H * K, D))
    return tuple(numbers(*shape, seed=seed + i) for i, shape in enumerate(shapes))


def _moved(matrices: tuple[np.ndarray, ...], H: int, G: int, K: int) -> tuple[np.ndarray, ...]:
    W_q, W_k, W_v, W_o = matrices
    return W_q[:, _seats(H, K)], W_k[:, _seats(G, K)], W_v, W_o


_row = np.arange(12.0)[None]
halves.case(
    "two heads of six: 0 2 4, then 1 3 5", _row, _row, _row, _row.T, 2, 2,
    want=([[0.0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11]],) * 2 + (_row, _row.T),
    what="matrices with a single row, 0 to 11, and two heads",
)  # fmt: skip
for _title, _what, _D, _H, _G, _K, _seed in (
    ("more rows", "four heads of 6", 10, 4, 4, 6, 0),
    ("two key/value heads for four query heads", "four heads that share two", 12, 4, 2, 8, 10),
    ("one key/value head for all", "three heads that share one", 8, 3, 1, 10, 20),
):
    _four = _attention(_D, _H, _G, _K, _seed)
    halves.case(_title, *_four, _H, _G, want=_moved(_four, _H, _G, _K), what=_what)
