"""Judges "Back through the loss" (chapter 09): the gradient of the mean surprise with respect to the logits.

Axes: T positions, V vocabulary.
"""

import math

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import expect
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


surprise_back.case(
    "one position, two equal logits: a slope of ½ each",
    np.array([[0.0, 0.0]]),
    np.array([1]),
    want=[[0.5, -0.5]],
)
surprise_back.case(
    "two positions: half of each slope", np.array([[0.0, 0.0], [math.log(3), 0.0]]), np.array([1, 0]),
    want=[[0.25, -0.25], [-0.125, 0.125]],
)  # fmt: skip
for _title, _shape, _t in (
    ("five positions, compared with PyTorch", (5, 7), [6, 0, 3, 3, 0]),
    ("as many positions as entries", (4, 4), [2, 2, 0, 1]),
):

    @surprise_back.check(_title)
    def _(learner, shape=_shape, targets=tuple(_t)):
        z, targets = drawn(*shape, seed=2), np.array(targets)
        want = slopes_of(loss_of(targets), [z])[0]
        expect(learner(z, targets), want, "cross_entropy_backward(logits, targets)", axes="T V")


surprise_back.case(
    "a logit of 800", np.array([[0.0, 800.0]]), np.array([0]), want=[[-1.0, 1.0]]
)  # fmt: skip


def _onehot(z, t):
    return np.eye(z.shape[1])[t]


surprise_back.mistake("mean forgotten", lambda z, t: cross_entropy_backward(z, t) * len(t))
surprise_back.mistake("sign", lambda z, t: -cross_entropy_backward(z, t))
surprise_back.mistake("probabilities alone", lambda z, t: softmax_rows(z) / len(t))
surprise_back.mistake("target alone", lambda z, t: -_onehot(z, t) / len(t))
surprise_back.mistake("logits", lambda z, t: (z - _onehot(z, t)) / len(t))
surprise_back.mistake("one everywhere", lambda z, t: (softmax_rows(z) - 1) / len(t))
surprise_back.mistake("divided by all", lambda z, t: cross_entropy_backward(z, t) / z.shape[1])
surprise_back.mistake("target row alone", lambda z, t: cross_entropy_backward(z, t) * _onehot(z, t))
surprise_back.mistake(
    "whole columns", lambda z, t: (softmax_rows(z) - np.isin(np.arange(z.shape[1]), t)) / len(t)
)


@surprise_back.mistake("overflow")
def _(z, t):
    with np.errstate(all="ignore"):
        powers = np.exp(z)
        return (powers / powers.sum(axis=-1, keepdims=True) - _onehot(z, t)) / len(t)
