"""Judges "One matrix, or two that are equal?" (chapter 08).

The learner writes a test that finds out whether the embedding and the head are one matrix.
"""

from collections.abc import Callable

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers


def is_tied(make: Callable[[], tuple[np.ndarray, np.ndarray]]) -> bool:
    """Returns whether embedding (V, D) and head (D, V) are one matrix: writes into one and reads the other."""
    embedding, head = make()
    embedding[...] = np.arange(embedding.size).reshape(embedding.shape)
    return np.array_equal(head, embedding.T)


one = exercise("gpt.is_tied", is_tied)


def _pair(V: int, D: int, of: Callable) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
    def make() -> tuple[np.ndarray, np.ndarray]:
        embedding = numbers(V, D, seed=80_808) * 0.02  # no numbers that an answer writes itself
        return of(embedding)

    return make


def _of_one_store(embedding: np.ndarray) -> np.ndarray:
    """Another view of the same memory: `embedding` itself is a view of what both look at."""
    return np.frombuffer(embedding.data, embedding.dtype).reshape(embedding.shape).T


def _in_one_row(embedding: np.ndarray, row: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns two views of one store; only row number `row` of each is the same memory."""
    V = len(embedding)
    store = np.concatenate([embedding, embedding])
    return store[row : row + V], store[::2][:V].T


_TITLES = {
    "the transposed embedding: one matrix": (5, 3, lambda E: (E, E.T), True),
    "a separate matrix": (5, 3, lambda E: (E, numbers(3, 5, seed=9)), False),
    "a copy: the same numbers, until one is changed": (5, 3, lambda E: (E, E.T.copy()), False),
    "the same memory, not transposed": (4, 4, lambda E: (E, E), False),
    "the same memory in another order": (5, 3, lambda E: (E, E[::-1].T), False),
    "the same memory in the first row only": (5, 3, lambda E: _in_one_row(E, 0), False),
    "the same memory in the last row only": (5, 3, lambda E: _in_one_row(E, 4), False),
    "the same memory, through another view": (6, 2, lambda E: (E, _of_one_store(E)), True),
}
for _title, (_V, _D, _of, _is) in _TITLES.items():
    one.case(
        _title, _pair(_V, _D, _of), want=_is, what=f"`is_tied` where the head is {_title.split(':')[0]},"
    )
