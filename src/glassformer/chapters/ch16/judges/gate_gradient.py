"""Judges "Back through the output gate" (chapter 16): the backward pass of mixed · sigmoid(x @ W).

Axes: T positions, D d_model, HK what all heads have mixed.
"""

import math

import numpy as np

from glassformer.chapters.ch09.judges.slopes import slopes_case
from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.shapes import Float


def gate_backward(
    grad: Float[np.ndarray, "T HK"],
    mixed: Float[np.ndarray, "T HK"],
    x: Float[np.ndarray, "T D"],
    W: Float[np.ndarray, "D HK"],
) -> tuple[Float[np.ndarray, "T HK"], Float[np.ndarray, "T D"], Float[np.ndarray, "D HK"]]:
    """Maps the gradient of mixed · sigmoid(x @ W) to those of mixed, x and W."""
    gate = 1 / (1 + np.exp(-(x @ W)))
    grad_z = grad * mixed * gate * (1 - gate)
    return grad * gate, grad_z @ W.T, x.T @ grad_z


gate_back = exercise(
    "long.gate_gradient", gate_backward,
    parts=("grad_mixed", "grad_x", "grad_W"), axes=("T HK", "T D", "D HK"),
)  # fmt: skip


def _gated(mixed, x, W):
    """The gate, also of complex numbers."""
    return mixed / (1 + np.exp(-(x @ W)))


_three = math.log(3)  # σ(log 3) = ¾, and the slope there is 3/16
gate_back.case(
    "a gate of ¾, worked by hand",
    np.array([[8.0]]), np.array([[3.0]]), np.array([[2 * _three, _three]]), np.array([[1.0], [-1.0]]),
    want=([[6.0]], [[4.5, -4.5]], [[9 * _three], [4.5 * _three]]), what="a gate of ¾",
)  # fmt: skip
for _title, _T, _D, _HK in (
    ("one position", 1, 3, 5),
    ("six positions share W", 6, 3, 5),
    ("the heads together are narrower than the stream", 4, 7, 2),
    ("as many positions as features", 4, 4, 4),
):
    _mixed, _x, _W = numbers(_T, _HK, seed=1), numbers(_T, _D, seed=2), numbers(_D, _HK, seed=3)
    slopes_case(gate_back, _title, _gated, _mixed, _x, _W)
