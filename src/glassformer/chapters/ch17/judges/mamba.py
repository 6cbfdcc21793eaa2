"""Judges "Mamba-2 in our words" (chapter 17): one head of Mamba-2, with the paper's letters.

Axes: T positions, K the size of the state, U features of a head.
"""

import math

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.shapes import Float


def mamba2(
    x: Float[np.ndarray, "T U"],
    B: Float[np.ndarray, "T K"],
    C: Float[np.ndarray, "T K"],
    dt: Float[np.ndarray, " T"],
    A_log: float,
    D: float,
) -> Float[np.ndarray, "T U"]:
    """Returns what one head of Mamba-2 returns for a text, from an empty state."""
    state, y = np.zeros((B.shape[1], x.shape[1])), np.zeros(x.shape)
    for t in range(len(x)):
        state = np.exp(-np.exp(A_log) * dt[t]) * state
        state = state + np.outer(B[t], dt[t] * x[t])
        y[t] = state.T @ C[t] + D * x[t]
    return y


head = exercise("state.mamba", mamba2, axes="T U")


def _as_attention(x, B, C, dt, A_log, D):
    """Mixes the values with scores C·B, each with its decay, as attention would: there is no state."""
    y = []
    for t in range(len(x)):
        mixed = D * x[t]
        for i in range(t + 1):
            score = math.fsum(C[t] * B[i])
            mixed = mixed + score * math.exp(-math.exp(A_log) * math.fsum(dt[i + 1 : t + 1])) * dt[i] * x[i]
        y.append(mixed)
    return np.array(y)


_HALVES = math.log(math.log(2))  # a step of 1 halves the state
_one = np.array([[3.0, 5]]), np.array([[1.0, 2, 0]]), np.array([[1.0, 1, 1]]), np.array([2.0]), _HALVES
head.case(
    "one position writes Δ = 2 times its value under B, and C reads it: C · B is 3",
    *_one, 0.0, want=[[18.0, 30]], what="y for x = [3, 5] with Δ = 2, C · B = 3 and D = 0",
)  # fmt: skip
head.case(
    "D = 10 passes on ten times x itself", *_one, 10.0, want=[[48.0, 80]],
    what="y for x = [3, 5] with Δ = 2, C · B = 3 and D = 10",
)  # fmt: skip
_same = np.array([[1.0, 0]] * 3)
head.case(
    "with exp(A_log) = log 2, a step of 1 halves the state, and a step of 2 quarters it",
    np.array([[8.0], [0], [0]]), _same, _same.copy(), np.array([1.0, 2, 1]), _HALVES, 0.0,
    want=[[8.0], [2], [1]], what="y for x = 8, 0, 0 with Δ = 1, 2, 1",
)  # fmt: skip
head.case(
    "B writes and C reads",
    np.array([[8.0], [4]]), np.array([[1.0, 0], [0, 1]]), np.array([[0.0, 3], [1, 0]]), np.array([1.0, 1]),
    _HALVES, 0.0, want=[[0.0], [4]], what="y for x = 8, 4 and B ≠ C",
)  # fmt: skip


def _drawn(T: int, K: int, U: int) -> tuple[np.ndarray, ...]:
    arrays = (numbers(T, size, seed=(17, i)) for i, size in enumerate((U, K, K)))
    return *arrays, abs(numbers(T, seed=(17, 3)))


_text = _drawn(5, 3, 2)
head.case("a text, computed as attention", *_text, 0.3, 0.7, want=_as_attention, what="y for five positions")
head.also(*_text, -1.2, 0.7, want=_as_attention, what="y for the same with A_log = −1.2")
head.also(
    *_text[:3], _text[3][::-1].copy(), 0.3, 0.7, want=_as_attention, what="y for the same with other steps"
)
head.case("more features than positions", *_drawn(4, 6, 5), 0.5, -2.0, want=_as_attention)
