"""Judges "Forget, then write" (chapter 17): the delta rule over a text, with a state that decays.

Axes: T positions, K features of a key, U features of a value.
"""

import math

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers, product_by_hand
from glassformer.scratch.recurrence import recurrent_steps
from glassformer.shapes import Float


def gated_delta(
    q: Float[np.ndarray, "T K"],
    k: Float[np.ndarray, "T K"],
    v: Float[np.ndarray, "T U"],
    strength: Float[np.ndarray, " T"],
    log_decay: Float[np.ndarray, "T ..."],
    state: Float[np.ndarray, "K U"],
) -> tuple[Float[np.ndarray, "T U"], Float[np.ndarray, "K U"]]:
    """Returns what the queries read of a state that decays before each write, and the last state."""
    read = np.zeros(v.shape)
    decay = np.exp(log_decay).reshape(len(q), -1, 1)  # (T, 1 or K, 1)
    for t in range(len(q)):
        state = decay[t] * state
        error = v[t] - k[t] @ state
        state = state + strength[t] * np.outer(k[t], error)
        read[t] = q[t] @ state
    return read, state


forgets = exercise(
    "state.forget", gated_delta,
    built_on=(recurrent_steps,), parts=("read", "state"), axes=("T U", "K U"),
)  # fmt: skip


def _by_matrices(q, k, v, strength, log_decay, state):
    """Multiplies the state by diag(decay), then by I − β k kᵀ, and adds β k vᵀ."""
    read = []
    for query, key, value, beta, logs in zip(q, k, v, strength, log_decay, strict=True):
        decays = [math.exp(one) for one in np.broadcast_to(logs, len(key))]
        keep = [
            [((i == j) - beta * a * b) * decay for j, (b, decay) in enumerate(zip(key, decays, strict=True))]
            for i, a in enumerate(key)
        ]
        state = product_by_hand(keep, state) + [[beta * a * c for c in value] for a in key]
        read.append(product_by_hand(query, state))
    return np.array(read), state


def _case(title, q, k, v, strength, log_decay, state, want, what):
    arrays = (np.array(one, dtype=float) for one in (q, k, v, strength, log_decay, state))
    forgets.case(title, *arrays, want=tuple(np.array(one, dtype=float) for one in want), what=what)


_half, _quarter = -math.log(2), -math.log(4)
_state = [[8, 40], [12, 4]]
_case(
    "no decay, exp(0) = 1: the delta rule alone",
    [[2, 1], [1, 0]], [[1, 0], [1, 0]], [[2, 20], [7, 0]], [0.5, 0.5], [0, 0], _state,
    ([[22, 64], [6, 15]], [[6, 15], [12, 4]]), "two positions without decay",
)  # fmt: skip
_case(
    "nothing is written: the state decays before each query reads it",
    [[1, 1], [1, 1]], [[1, 0], [1, 0]], [[2, 20], [7, 0]], [0, 0], [_half, _quarter], _state,
    ([[10, 22], [2.5, 5.5]], [[1, 5], [1.5, 0.5]]), "two positions, a strength of 0, decays of ½ and ¼",
)  # fmt: skip
_case(
    "first it halves, then the difference from what is left is written",
    [[1, 1]], [[1, 0]], [[2, 30]], [0.5], [_half], _state, ([[9, 27]], [[3, 25], [6, 2]]),
    "one position with a strength of ½ and a decay of ½",
)  # fmt: skip
_case(
    "each feature of the key has a decay of its own: that row of the state decays",
    [[1, 1], [1, 0]], [[1, 0], [0, 1]], [[2, 30], [7, 3]], [0.5, 1], [[_half, _quarter], [0, _half]], _state,
    ([[6, 26], [3, 25]], [[3, 25], [7, 3]]), "two positions with decays of [½, ¼] and [1, ½]",
)  # fmt: skip
for _title, _T, _K, _U, _each in (
    ("one decay for each of seven positions", 7, 3, 2, ()),
    ("as many positions as features", 4, 4, 5, ()),
    ("a decay for each of seven positions and each feature", 7, 3, 2, (3,)),
    ("", 5, 4, 4, (4,)),
    ("", 1, 5, 2, (5,)),
):
    forgets.case(
        _title, numbers(_T, _K), numbers(_T, _K, seed=1), numbers(_T, _U, seed=2),
        abs(numbers(_T, seed=3)), -abs(numbers(_T, *_each, seed=4)), numbers(_K, _U, seed=5),
        want=_by_matrices, what=f"T = {_T}, K = {_K}, U = {_U}, log_decay of shape {(_T, *_each)}",
    )  # fmt: skip
