"""Judges "A chunk at once" (chapter 17): linear attention with one decay per position, by products of matrices.

Axes: C positions of the chunk, K features of a key, U features of a value.
"""

import math

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.scratch.recurrence import recurrent_chunks
from glassformer.shapes import Float


def linear_chunk(
    q: Float[np.ndarray, "C K"],
    k: Float[np.ndarray, "C K"],
    v: Float[np.ndarray, "C U"],
    log_decay: Float[np.ndarray, " C"],
    state: Float[np.ndarray, "K U"],
) -> tuple[Float[np.ndarray, "C U"], Float[np.ndarray, "K U"]]:
    """Returns what the queries of one chunk read, and the state after it."""
    total = np.cumsum(log_decay)
    earlier = np.tri(len(q), dtype=bool)
    between = np.where(earlier, total[:, None] - total, -np.inf)
    scores = (q @ k.T) * np.exp(between)
    outputs = np.exp(total)[:, None] * (q @ state) + scores @ v
    left = np.exp(total[-1] - total)[:, None] * k
    return outputs, np.exp(total[-1]) * state + left.T @ v


chunk = exercise(
    "state.chunk", linear_chunk,
    built_on=(recurrent_chunks,), parts=("read", "state"), axes=("C U", "K U"),
)  # fmt: skip


def _step_by_step(q, k, v, log_decay, state):
    """Lets the state decay, writes and reads, one position after another."""
    read = []
    for one, key, value, log in zip(q, k, v, log_decay, strict=True):
        state = math.exp(log) * state + np.multiply.outer(key, value)
        read.append([math.fsum(one * column) for column in state.T])
    return np.array(read), state


_HALF, _QUARTER = math.log(1 / 2), math.log(1 / 4)
_q, _k = np.array([[1.0, 0], [1, 1], [0, 1]]), np.array([[1.0, 0], [0, 1], [1, 1]])
chunk.case(
    "no decay: each query reads what the chunk has written up to its own position",
    _q, _k, np.array([[1.0], [10], [100]]), np.zeros(3), np.zeros((2, 1)),
    want=([[1.0], [11], [110]], [[101.0], [110]]), what="a chunk of three positions without decay",
)  # fmt: skip
_same, _decays = np.array([[1.0, 0]] * 3), np.array([_HALF, _QUARTER, _HALF])
chunk.case(
    "decays of ½, ¼ and ½: each one shrinks what earlier positions have written",
    _same, _same.copy(), np.full((3, 1), 16.0), _decays, np.zeros((2, 1)),
    want=([[16.0], [20], [26]], [[26.0], [0]]), what="16 written three times, with decays of ½, ¼ and ½",
)  # fmt: skip
chunk.case(
    "the old state decays before each query reads it",
    _same, _same.copy(), np.zeros((3, 1)), _decays, np.array([[64.0], [0]]),
    want=([[32.0], [8], [4]], [[4.0], [0]]), what="a chunk that finds 64, with decays of ½, ¼ and ½",
)  # fmt: skip


def _drawn(C: int, K: int, U: int, strong: float = 0.4) -> tuple[np.ndarray, ...]:
    """Returns a random chunk; a log decay is about −`strong`."""
    arrays = (numbers(C, size, seed=(17, i)) for i, size in enumerate((K, K, U)))
    return *arrays, -strong * abs(numbers(C, seed=(17, 3))), numbers(K, U, seed=(17, 4))


_five = _drawn(5, 3, 2)
chunk.case("step by step gives the same", *_five, want=_step_by_step, what="a chunk of five positions")
chunk.also(*_five[:3], 2 * _five[3], _five[4], want=_step_by_step, what="the same chunk, stronger decays")
chunk.also(*_five[:4], -_five[4], want=_step_by_step, what="the same chunk after another state")
chunk.case("more features than positions", *_drawn(4, 7, 6), want=_step_by_step, what="a chunk of four")
chunk.also(*_drawn(1, 2, 3), want=_step_by_step, what="a chunk of one position")
chunk.case(
    "strong decays stay finite", *_drawn(6, 3, 2, 1000.0), want=_step_by_step,
    what="a chunk that forgets all", advice="Here, exp(total[t]) is 0. Subtract first, then take the exponential.",
)  # fmt: skip
