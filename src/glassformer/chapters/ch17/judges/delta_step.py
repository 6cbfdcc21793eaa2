"""Judges "Write the difference" (chapter 17): one position of the delta rule.

Axes: K features of a key, U features of a value.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers, product_by_hand
from glassformer.shapes import Float


def delta_step(
    state: Float[np.ndarray, "K U"],
    q: Float[np.ndarray, " K"],
    k: Float[np.ndarray, " K"],
    v: Float[np.ndarray, " U"],
    strength: float,
) -> tuple[Float[np.ndarray, " U"], Float[np.ndarray, "K U"]]:
    """Returns what the query reads after the delta rule has written this position, and the new state."""
    error = v - k @ state
    state = state + strength * np.outer(k, error)
    return q @ state, state


step = exercise("state.delta_step", delta_step, parts=("read", "state"), axes=("U,", "K U"))


def _by_matrix(state, q, k, v, strength):
    """Multiplies the state by I − β k kᵀ and adds β k vᵀ: the same step, written another way."""
    erase = [[(i == j) - strength * a * b for j, b in enumerate(k)] for i, a in enumerate(k)]
    new = product_by_hand(erase, state) + [[strength * a * c for c in v] for a in k]
    return product_by_hand(q, new), new


def _case(title, state, q, k, v, strength, want, what):
    arrays = (np.array(one, dtype=float) for one in (state, q, k, v))
    step.case(title, *arrays, strength, want=tuple(np.array(one, dtype=float) for one in want), what=what)


_state = [[4, 6], [1, 2], [3, 0]]
_case(
    "nothing is known under this key: the value is written, and read again",
    [[0, 0], [1, 2], [3, 0]], [2, 1, 1], [1, 0, 0], [4, 6], 1.0, ([12, 14], _state), "a step with a new key",
)  # fmt: skip
_case(
    "something is known under this key: the new value takes its place",
    _state, [1, 2, 1], [1, 0, 0], [5, 0], 1.0, ([10, 4], [[5, 0], [1, 2], [3, 0]]), "a step with a known key",
)  # fmt: skip
_case(
    "with a strength of ½, half of the difference is written",
    _state, [1, 2, 1], [1, 0, 0], [5, 0], 0.5, ([9.5, 7], [[4.5, 3], [1, 2], [3, 0]]),
    "a step with a strength of ½",
)  # fmt: skip
_case(
    "a key of length 2 asks for twice as much, and writes twice as much",
    _state, [1, 2, 1], [2, 0, 0], [5, 0], 0.5, ([6, -2], [[1, -6], [1, 2], [3, 0]]),
    "a step with a key of length 2",
)  # fmt: skip
for _title, _K, _U, _strength in (
    ("any key, and any strength", 3, 5, 0.7),
    ("", 4, 4, 0.25),
    ("", 6, 2, 1.5),
):
    step.case(
        _title, numbers(_K, _U), numbers(_K, seed=1), numbers(_K, seed=2), numbers(_U, seed=3), _strength,
        want=_by_matrix, what=f"a step with K = {_K}, U = {_U} and strength = {_strength}",
    )  # fmt: skip
