"""Judges "The feed-forward network" (chapter 06): a matrix, GELU, and a second matrix, with their biases.

Axes: B batch, T positions, D d_model, F d_ff.
"""

from typing import Any

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.scratch.feedforward import gelu, gelu_tanh, silu
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
    return (
        numbers(D, F, seed=seed),
        numbers(F, seed=seed + 1),
        numbers(F, D, seed=seed + 2),
        numbers(D, seed=seed + 3),
    )


wide.shape("the shape of x", numbers(5, 3), *_layer(3, 7), want=(5, 3))
_eye, _none = np.eye(2), np.zeros(2)
wide.case(
    "with matrices that change nothing, it is GELU",
    np.array([[-2.7, -0.5], [0.0, 1.0]]), _eye, _none, _eye, _none,
    want=[[gelu_by_hand(-2.7), gelu_by_hand(-0.5)], [0.0, gelu_by_hand(1.0)]],
)  # fmt: skip
wide.also(np.array([[-2.7, -1.9]]), _eye, _none, _eye, _none, want=[[gelu_by_hand(-2.7), gelu_by_hand(-1.9)]])
_zero, _given = np.zeros((1, 3)), _layer(3, 4, seed=5)
wide.case(
    "a row of zeros leaves the biases: b_up goes through GELU, b_down does not",
    _zero, *_given, want=network_by_hand(_zero, *_given),
)  # fmt: skip
_x, _given = numbers(5, 3, seed=9), _layer(3, 7, seed=10)
wide.case("random vectors", _x, *_given, want=network_by_hand(_x, *_given))
_x = numbers(2, 4, 3, seed=14)
wide.case("any axes in front: a batch", _x, *_given, want=network_by_hand(_x, *_given), axes="B T D")
_x = numbers(3, seed=15)
wide.also(_x, *_given, want=network_by_hand(_x, *_given), axes="D")

wide.mistake("no activation", lambda x, W_up, b_up, W_down, b_down: (x @ W_up + b_up) @ W_down + b_down)
wide.mistake(
    "activation last", lambda x, W_up, b_up, W_down, b_down: gelu((x @ W_up + b_up) @ W_down + b_down)
)
wide.mistake(
    "activation first", lambda x, W_up, b_up, W_down, b_down: (gelu(x) @ W_up + b_up) @ W_down + b_down
)
wide.mistake(
    "bias after the activation",
    lambda x, W_up, b_up, W_down, b_down: (gelu(x @ W_up) + b_up) @ W_down + b_down,
)
wide.mistake("twice", lambda x, W_up, b_up, W_down, b_down: gelu(gelu(x @ W_up + b_up) @ W_down + b_down))
wide.mistake("no b_down", lambda x, W_up, b_up, W_down, b_down: gelu(x @ W_up + b_up) @ W_down)
wide.mistake("no b_up", lambda x, W_up, b_up, W_down, b_down: gelu(x @ W_up) @ W_down + b_down)
wide.mistake("relu", lambda x, W_up, b_up, W_down, b_down: np.maximum(x @ W_up + b_up, 0) @ W_down + b_down)
wide.mistake("tanh form", lambda x, W_up, b_up, W_down, b_down: gelu_tanh(x @ W_up + b_up) @ W_down + b_down)
wide.mistake("silu", lambda x, W_up, b_up, W_down, b_down: silu(x @ W_up + b_up) @ W_down + b_down)
wide.mistake("added to x", lambda x, *layer: x + feed_forward(x, *layer))
wide.mistake("neurons", lambda x, W_up, b_up, W_down, b_down: gelu(x @ W_up + b_up))
