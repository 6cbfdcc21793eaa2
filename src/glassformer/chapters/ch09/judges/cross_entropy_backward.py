"""Judges "Back through the loss" (chapter 09): the gradient of the mean surprise with respect to the logits.

Axes: T positions, V vocabulary.
"""

import math

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.shapes import Float, Integer

from .slopes import drawn, slopes_of, softmax_rows


def cross_entropy_backward(
    logits: Float[np.ndarray, "T V"], targets: Integer[np.ndarray, " T"]
) -> Float[np.ndarray, "T V"]:
    """The gradient of the mean surprise with respect to the logits: (p − 1 at the target) / n."""
    grad = np.exp(logits - logits.max(axis=-1, keepdims=True))
    grad /= grad.sum(axis=-1, keepdims=True)
    grad[np.arange(len(targets)), targets] -= 1
    return grad / len(targets)


surprise_back = exercise("back.cross_entropy_backward", cross_entropy_backward, axes="T V")


def loss_of(targets):
    """Returns the loss at these targets as a function of the logits."""

    def loss(logits):
        return -np.mean(np.log(softmax_rows(logits)[np.arange(len(targets)), targets]))

    return loss


_z, _t = np.array([[0.0, 0.0], [math.log(3), 0.0]]), np.array([1, 0])
surprise_back.case("one position, two equal logits: a slope of ½ each", _z[:1], _t[:1], want=[[0.5, -0.5]])
surprise_back.case("two positions: half of each slope", _z, _t, want=[[0.25, -0.25], [-0.125, 0.125]])
for _title, _shape, _t in (
    ("five positions, compared with PyTorch", (5, 7), [6, 0, 3, 3, 0]),
    ("as many positions as entries", (4, 4), [2, 2, 0, 1]),
):
    _z = drawn(*_shape, seed=2)
    surprise_back.case(_title, _z, np.array(_t), want=lambda z, t: slopes_of(loss_of(t), [z])[0])
surprise_back.case("a logit of 800", np.array([[0.0, 800.0]]), np.array([0]), want=[[-1.0, 1.0]])
