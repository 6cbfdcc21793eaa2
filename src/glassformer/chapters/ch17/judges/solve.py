"""Judges "What one chunk writes" (chapter 17): the delta rule's writes of a chunk, from a triangular system.

Axes: C positions of the chunk, K features of a key, U features of a value.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.scratch.recurrence import recurrent_chunks
from glassformer.shapes import Float


def chunk_writes(
    k: Float[np.ndarray, "C K"],
    v: Float[np.ndarray, "C U"],
    strength: Float[np.ndarray, " C"],
    state: Float[np.ndarray, "K U"],
) -> Float[np.ndarray, "C U"]:
    """Returns what each position of a chunk writes under its key, by the delta rule without decay."""
    beta = strength[:, None]
    system = np.eye(len(k)) + np.tril(beta * (k @ k.T), -1)
    return np.linalg.solve(system, beta * (v - k @ state))


writes = exercise("state.solve", chunk_writes, built_on=(recurrent_chunks,), axes="C U")


def _step_by_step(k, v, strength, state):
    """Writes at one position after another, into a state that each finds as the last one left it."""
    written = []
    for key, value, beta in zip(k, v, strength, strict=True):
        written.append(beta * (value - (key[:, None] * state).sum(axis=0)))
        state = state + np.multiply.outer(key, written[-1])
    return np.array(written)


writes.case(
    "one position writes its strength times the error: ½ · (10 − 4)",
    np.array([[1.0, 0, 0]]), np.array([[10.0, 20]]), np.array([0.5]), np.array([[4.0, 8], [9, 9], [9, 9]]),
    want=[[3.0, 6]], what="u of a position that finds [4, 8] and should find [10, 20]",
)  # fmt: skip
writes.case(
    "position 1 finds 0.6 of what position 0 wrote: ½ · 10, then 20 − 0.6 · 5",
    np.array([[1.0, 0, 0], [0.6, 0.8, 0]]), np.array([[10.0], [20]]), np.array([0.5, 1]), np.zeros((3, 1)),
    want=[[5.0], [17]], what="u for two keys with the product 0.6, and strengths of ½ and 1",
)  # fmt: skip
writes.case(
    "the same key three times: each position halves the error that is left",
    np.array([[1.0, 0]] * 3), np.full((3, 1), 8.0), np.full(3, 0.5), np.zeros((2, 1)),
    want=[[4.0], [2], [1]], what="u for 8 under one key three times, with a strength of ½",
)  # fmt: skip
_drawn = numbers(5, 3), numbers(5, 2, seed=1), abs(np.sin(numbers(5, seed=2))), numbers(3, 2, seed=3)
writes.case("step by step gives the same", *_drawn, want=_step_by_step, what="u for five positions")
writes.also(
    *_drawn[:2], _drawn[2][::-1].copy(), _drawn[3], want=_step_by_step,
    what="u for the same with other strengths",
)  # fmt: skip
writes.also(*_drawn[:3], -_drawn[3], want=_step_by_step, what="u for the same with another state")
_more = numbers(4, 6), numbers(4, 3, seed=1), np.array([2.0, 0, 1, 1.5]), numbers(6, 3, seed=3)
writes.case(
    "strengths from 0 to 2, and fewer positions than features", *_more, want=_step_by_step,
    what="u for four positions",
)  # fmt: skip
writes.also(*(one[:1] for one in _more[:3]), _more[3], want=_step_by_step, what="u for one position")
