"""Judges "The gradient of one step" (chapter 17): backward through one position of the delta rule.

Axes: K features of a key, U features of a value.
"""

import numpy as np

from glassformer.chapters.ch09.judges.slopes import slopes_of
from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.shapes import Float


def delta_backward(
    grad_out: Float[np.ndarray, " U"],
    grad_state: Float[np.ndarray, "K U"],
    state: Float[np.ndarray, "K U"],
    q: Float[np.ndarray, " K"],
    k: Float[np.ndarray, " K"],
    v: Float[np.ndarray, " U"],
    strength: float,
) -> tuple[np.ndarray, ...]:
    """Maps the gradients of what is read and of the new state to those of all five inputs."""
    error = v - k @ state
    new = state + strength * np.outer(k, error)
    to_new = grad_state + np.outer(q, grad_out)
    to_written = k @ to_new
    grad_v = strength * to_written
    grad_k = strength * (to_new @ error) - state @ grad_v
    return to_new - np.outer(k, grad_v), new @ grad_out, grad_k, grad_v, to_written @ error


_PARTS = ("state", "q", "k", "v", "strength")
step = exercise(
    "state.delta_gradient", delta_backward,
    parts=tuple(f"the gradient of `{part}`" for part in _PARTS), axes=("K U", "K,", "K,", "U,", ""),
)  # fmt: skip


def _forward(state, q, k, v, strength):
    """Returns all numbers of the new state, then what is read from it."""
    new = state + k[:, None] * strength * (v - (k[:, None] * state).sum(axis=0))
    return np.concatenate([new.ravel(), (q[:, None] * new).sum(axis=0)])


def _by_slopes(grad_out, grad_state, state, q, k, v, strength):
    """Nudges each number of each input, and sees how the new state and the read change."""
    inputs = (state, q, k, v, np.array(strength))
    return slopes_of(_forward, inputs, np.concatenate([grad_state.ravel(), grad_out]))


# The state [2, 1] finds 2 under the key and should find 10: the error is 8, the new state [4, 1], the read 5
_by_hand = (
    np.array([1.0]), np.zeros((2, 1)),
    np.array([[2.0], [1]]), np.array([1.0, 1]), np.array([1.0, 0]), np.array([10.0]), 0.25,
)  # fmt: skip
_WHAT = "an easy step"
for _title, _part, _want in (
    ("the strength multiplies an error of 8", "strength", 8.0),
    ("the value counts as much as its strength", "v", [0.25]),
    ("the query reads the new state", "q", [4.0, 1]),
    ("the state is kept, and predicts", "state", [[0.75], [1]]),
    ("the key says where to write, and asks what is there", "k", [1.5, 1.75]),
):
    step.case(_title, *_by_hand, part=f"the gradient of `{_part}`", want=_want, what=_WHAT)


def _drawn(K: int, U: int, strength: float) -> tuple:
    shapes = ((U,), (K, U), (K, U), (K,), (K,), (U,))
    return *(numbers(*shape, seed=(17, i)) for i, shape in enumerate(shapes)), strength


_three = _drawn(3, 2, 0.7)
step.case(
    "both gradients, by finite differences", *_three, want=_by_slopes, what="a step with K = 3 and U = 2"
)
step.also(*_three[:6], 1.6, want=_by_slopes, what="the same step with another strength")
step.case(
    "a position that nobody reads: the gradient comes from later ones alone",
    np.zeros(4), *_drawn(2, 4, 0.3)[1:], want=_by_slopes, what="a step with grad_out = 0",
)  # fmt: skip
step.also(_three[0], np.zeros((3, 2)), *_three[2:], want=_by_slopes, what="a step with grad_state = 0")
