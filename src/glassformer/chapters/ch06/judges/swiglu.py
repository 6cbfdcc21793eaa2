"""Judges "Two opinions" (chapter 06): the feed-forward network with a gate.

Axes: B batch, T positions, D d_model, F d_ff.
"""

import math
from typing import Any

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers, product_by_hand
from glassformer.scratch.feedforward import gelu, silu
from glassformer.shapes import Float

from .by_hand import of_each, silu_by_hand


def _gated(x: Any, W_gate: Any, W_up: Any, W_down: Any) -> np.ndarray:
    return product_by_hand(
        of_each(silu_by_hand, product_by_hand(x, W_gate)) * product_by_hand(x, W_up), W_down
    )


def swiglu(
    x: Float[np.ndarray, "*B D"],
    W_gate: Float[np.ndarray, "D F"],
    W_up: Float[np.ndarray, "D F"],
    W_down: Float[np.ndarray, "F D"],
) -> Float[np.ndarray, "*B D"]:
    """Two opinions, multiplied, and brought back."""
    return (silu(x @ W_gate) * (x @ W_up)) @ W_down


gate = exercise("feedforward.swiglu", swiglu, axes="T D")


def _three(D: int, F: int, seed: int = 0) -> tuple[Any, Any, Any]:
    """W_gate, W_up, W_down."""
    return numbers(D, F, seed=seed), numbers(D, F, seed=seed + 1), numbers(F, D, seed=seed + 2)


gate.shape("the shape of x", numbers(5, 3), *_three(3, 7), want=(5, 3))
_one = np.array([[1.0]])
gate.case(
    "one number: the gate's is ln 3, and the other is twice that",
    np.array([[math.log(3)]]), _one, 2 * _one, _one, want=[[0.75 * math.log(3) * 2 * math.log(3)]],
)  # fmt: skip
gate.case(
    "a closed gate lets almost none of the other number through",
    np.array([[-30.0]]), _one, 100 * _one, _one, want=[[silu_by_hand(-30.0) * -3000.0]],
)  # fmt: skip
_given = _three(3, 7, seed=4)
gate.case("random vectors", numbers(5, 3, seed=3), *_given, want=_gated)
gate.case("any axes in front: a batch", numbers(2, 4, 3, seed=7), *_given, want=_gated, axes="B T D")
gate.also(numbers(3, seed=8), *_given, want=_gated, axes="D")

gate.slip("sigmoid", silu=lambda x: 1 / (1 + np.exp(-x)))
gate.slip("gelu", silu=gelu)
