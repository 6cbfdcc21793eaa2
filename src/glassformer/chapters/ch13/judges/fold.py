"""Judges "Make it a Qwen3" (chapter 13).

The gains of norms and a factor on the scores are folded into other weights.

Axes: D d_model, V vocabulary, K d_head.
"""

import math

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.shapes import Float


def fold(
    table: Float[np.ndarray, "V D"],
    gain: Float[np.ndarray, " D"],
    gain_q: Float[np.ndarray, " K"],
    scale: float,
    eps: float,
) -> tuple[Float[np.ndarray, "V D"], Float[np.ndarray, " K"]]:
    """Returns a table that needs no norm after it, and a gain of the queries that needs no factor on the scores."""
    size = np.sqrt((table**2).mean(axis=-1, keepdims=True) + eps)
    return table / size * gain, gain_q * scale * np.sqrt(len(gain_q))


folded = exercise("real.fold", fold, parts=("table", "gain_q"), axes=("V D", "K"))

folded.case(
    "a row of 3, 4 has a mean square of 12.5", np.array([[3.0, 4.0], [0.0, 2.0]]), np.ones(2), np.ones(4), 0.5, 0.0,
    want=([[3 / 12.5**0.5, 4 / 12.5**0.5], [0.0, 2**0.5]], [1.0] * 4), what="a table of two rows, ε = 0",
)  # fmt: skip
folded.case(
    "a gain for each feature", np.array([[1.0, -1.0], [2.0, 2.0]]), np.array([10.0, 3.0]), np.array([1.0, 2, 3, 4]),
    0.5, 0.0, want=([[10.0, -3], [10, 3]], [1.0, 2, 3, 4]), what="a table with gains 10 and 3",
)  # fmt: skip
folded.case(
    "a factor on the scores: the program divides by √K", np.eye(2), np.ones(2), np.array([2.0, 1, 1, 1, 1, 1, 1, 1, 5]),
    1.0, 0.0, want=np.array([6.0, 3, 3, 3, 3, 3, 3, 3, 15]), part="gain_q", what="K = 9, and a factor of 1",
)  # fmt: skip
folded.also(
    np.eye(2), np.ones(2), np.array([2.0, 3.0, 1.0, 1.0]), 0.25, 0.0, want=[1.0, 1.5, 0.5, 0.5], part="gain_q",
    what="K = 4, and a factor of 1/4",
)  # fmt: skip
folded.case(
    "ε inside the square root", np.array([[0.6, 0.8], [0.0, 0.0]]), np.ones(2), np.ones(2), 1.0, 0.5,
    want=[[0.6, 0.8], [0.0, 0.0]], part="table", what="ε = 0.5",
)  # fmt: skip
_table = numbers(5, 6)
folded.case(
    "random numbers", _table, numbers(6, seed=1), numbers(8, seed=2), 0.7, 0.1,
    want=(
        [[value * g / math.sqrt(math.fsum(one * one for one in row) / 6 + 0.1)
          for value, g in zip(row, numbers(6, seed=1), strict=True)] for row in _table.tolist()],
        [g * 0.7 * math.sqrt(8) for g in numbers(8, seed=2)],
    ),
)  # fmt: skip
