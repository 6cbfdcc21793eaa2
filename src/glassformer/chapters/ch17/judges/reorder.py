"""Judges "The same product in another order" (chapter 17): linear attention that keeps a state.

Axes: T positions, K features of a key, U features of a value.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers, product_by_hand
from glassformer.scratch.recurrence import recurrent_steps
from glassformer.shapes import Float


def linear_attention(
    q: Float[np.ndarray, "T K"],
    k: Float[np.ndarray, "T K"],
    v: Float[np.ndarray, "T U"],
    state: Float[np.ndarray, "K U"],
) -> tuple[Float[np.ndarray, "T U"], Float[np.ndarray, "K U"]]:
    """Returns what each query reads of all that was written so far, and the last state."""
    read = np.zeros(v.shape)
    for t in range(len(q)):
        state = state + np.outer(k[t], v[t])
        read[t] = q[t] @ state
    return read, state


other_order = exercise(
    "state.reorder", linear_attention,
    built_on=(recurrent_steps,), parts=("read", "state"), axes=("T U", "K U"),
)  # fmt: skip


def _by_scores(q, k, v, state):
    """Computes the product in the old order: all scores, of which the later ones are hidden."""
    scores = product_by_hand(q, k.T) * np.tri(len(q))
    return product_by_hand(scores, v) + product_by_hand(q, state), product_by_hand(k.T, v) + state


other_order.case(
    "one position writes, and its query reads that: q · k = 13",
    np.array([[3.0, 1, 4]]), np.array([[1.0, 10, 0]]), np.array([[2.0, 5]]), np.zeros((3, 2)),
    want=([[26.0, 65]], [[2.0, 5], [20, 50], [0, 0]]), what="one position",
)  # fmt: skip
_three = (
    np.array([[1.0, 0], [1, 1], [0, 1]]),
    np.array([[1.0, 0], [0, 1], [1, 1]]),
    np.array([[10.0], [100], [1000]]),
)
other_order.case(
    "a query reads what its own position and those before it have written",
    *_three, np.zeros((2, 1)), want=([[10.0], [110], [1100]], [[1010.0], [1100]]), what="three positions",
)  # fmt: skip
other_order.case(
    "and also what a text before has left in the state",
    *_three, np.array([[1.0], [2]]), want=([[11.0], [113], [1102]], [[1011.0], [1102]]),
    what="three positions after a state of [[1], [2]]",
)  # fmt: skip
for _title, _T, _K, _U in (
    ("it is what attention without softmax gives", 5, 3, 2),
    ("", 3, 4, 4),
    ("a longer text than the state has numbers", 17, 2, 3),
):
    other_order.case(
        _title, numbers(_T, _K), numbers(_T, _K, seed=1), numbers(_T, _U, seed=2), numbers(_K, _U, seed=3),
        want=_by_scores, what=f"T = {_T}, K = {_K} and U = {_U}",
    )  # fmt: skip


@other_order.mistake("softmax")
def _(q, k, v, state):
    powers = np.exp(q @ k.T) * np.tri(len(q))
    return powers / powers.sum(axis=1, keepdims=True) @ v + q @ state, state + k.T @ v
