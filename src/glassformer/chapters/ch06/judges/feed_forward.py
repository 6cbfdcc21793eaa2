"""Judges "The feed-forward network" (chapter 06): a matrix, GELU, and a second matrix, with their biases.

Axes: B batch, T positions, D d_model, F d_ff.
"""

from typing import Any

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.scratch.feedforward import gelu, gelu_tanh, relu, silu
from glassformer.shapes import Float

from .by_hand import gelu_by_hand, network_by_hand


def feed_forward(
    x: Float[np.ndarray, "*B D"],
    W_up: Float[np.ndarray, "D F"],
    b_up: Float[np.ndarray, " F"],
    W_down: Float[np.ndarray, "F D"],
    b_down: Float[np.ndarray, " D"],
) -> Float[np.ndarray, "*B D"]:
    """Widens the vectors, applies GELU and brings them back to their width."""
    return gelu(x @ W_up + b_up) @ W_down + b_down


wide = exercise("feedforward.feed_forward", feed_forward, axes="T D")


def _layer(D: int, F: int, seed: int = 0) -> tuple[Any, Any, Any, Any]:
    """W_up, b_up, W_down, b_down."""
    shapes = (D, F), (F,), (F, D), (D,)
    W_up, b_up, W_down, b_down = (numbers(*shape, seed=seed + i) for i, shape in enumerate(shapes))
    return W_up, b_up, W_down, b_down


wide.shape("the shape of x", numbers(5, 3), *_layer(3, 7), want=(5, 3))
_eye, _none = np.eye(2), np.zeros(2)
wide.case(
    "with matrices that change nothing, it is GELU",
    np.array([[-2.7, -0.5], [0.0, 1.0]]), _eye, _none, _eye, _none,
    want=[[gelu_by_hand(-2.7), gelu_by_hand(-0.5)], [0.0, gelu_by_hand(1.0)]],
)  # fmt: skip
wide.also(np.array([[-2.7, -1.9]]), _eye, _none, _eye, _none, want=[[gelu_by_hand(-2.7), gelu_by_hand(-1.9)]])
wide.case(
    "a row of zeros leaves the biases: b_up goes through GELU, b_down does not",
    np.zeros((1, 3)), *_layer(3, 4, seed=5), want=network_by_hand,
)  # fmt: skip
_given = _layer(3, 7, seed=10)
wide.case("random vectors", numbers(5, 3, seed=9), *_given, want=network_by_hand)
wide.case(
    "any axes in front: a batch", numbers(2, 4, 3, seed=14), *_given, want=network_by_hand, axes="B T D"
)
wide.also(numbers(3, seed=15), *_given, want=network_by_hand, axes="D")

wide.slip("relu", gelu=relu)
wide.slip("tanh form", gelu=gelu_tanh)
wide.slip("silu", gelu=silu)
