"""Judges "A sigmoid gate" (chapter 09): the backward pass of x · sigmoid(x @ W).

Axes: T positions, D d_model.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.shapes import Float

from .slopes import drawn, slopes_case


def gate_backward(
    grad: Float[np.ndarray, "T D"], x: Float[np.ndarray, "T D"], W: Float[np.ndarray, "D D"]
) -> tuple[Float[np.ndarray, "T D"], Float[np.ndarray, "D D"]]:
    """Maps the gradient of x · sigmoid(x @ W) to those of x and of W."""
    gate = 1 / (1 + np.exp(-(x @ W)))
    grad_scores = grad * x * gate * (1 - gate)
    return grad * gate + grad_scores @ W.T, x.T @ grad_scores


gate_back = exercise("back.gate_backward", gate_backward, parts=("grad_x", "grad_W"), axes=("T D", "D D"))


def _gated(x, W):
    """The gate, also of complex numbers."""
    return x / (1 + np.exp(-(x @ W)))


gate_back.case(
    "a half-open gate, worked by hand", np.array([[8.0]]), np.array([[3.0]]), np.array([[0.0]]),
    want=([[4.0]], [[18.0]]),
)  # fmt: skip
slopes_case(gate_back, "one position", _gated, drawn(1, 3, seed=220), drawn(3, 3, seed=221),
            grad=drawn(1, 3, seed=222))  # fmt: skip
slopes_case(gate_back, "five positions share W", _gated, drawn(5, 3, seed=223), drawn(3, 3, seed=224),
            grad=drawn(5, 3, seed=225))  # fmt: skip
slopes_case(gate_back, "as many positions as features", _gated, drawn(4, 4, seed=226), drawn(4, 4, seed=227),
            grad=drawn(4, 4, seed=228))  # fmt: skip


def _gate_wrong(
    slope=lambda s, z: s * (1 - s), factor=lambda x: x, direct=True, through=True, of_x=None, of_W=None
):
    """A wrong answer: one thing left out or changed."""

    def wrong(grad, x, W):
        z = x @ W
        gate = 1 / (1 + np.exp(-z))
        of_scores = grad * factor(x) * slope(gate, z)
        back = of_scores @ W.T if of_x is None else of_x(of_scores, W)
        found = (grad * gate if direct else 0) + (back if through else 0)
        return found, x.T @ of_scores if of_W is None else of_W(of_scores, x)

    return wrong


def _bell_of(s, z):
    again = 1 / (1 + np.exp(-s))
    return again * (1 - again)


gate_back.mistake("gate held still", _gate_wrong(through=False))
gate_back.mistake("through the gate alone", _gate_wrong(direct=False))
gate_back.mistake("x forgotten", _gate_wrong(factor=np.ones_like))
gate_back.mistake("no slope", _gate_wrong(slope=lambda s, z: 1))
gate_back.mistake("value for slope", _gate_wrong(slope=lambda s, z: s))
gate_back.mistake("half of the slope", _gate_wrong(slope=lambda s, z: 1 - s))
gate_back.mistake("sigmoid again", _gate_wrong(slope=_bell_of))
gate_back.mistake("scores for the gate", _gate_wrong(slope=lambda s, z: z * (1 - z)))
gate_back.mistake("W as it stands", _gate_wrong(of_x=lambda g, W: g @ W))
gate_back.mistake("grad_W turned", _gate_wrong(of_W=lambda g, x: g.T @ x))
gate_back.mistake("mean over positions", _gate_wrong(of_W=lambda g, x: x.T @ g / len(x)))
gate_back.mistake("multiplied", lambda grad, x, W: (
    grad / (1 + np.exp(-(x @ W))) * (gate_backward(grad, x, W)[0] - grad / (1 + np.exp(-(x @ W)))),
    gate_backward(grad, x, W)[1],
))  # fmt: skip
