"""Judges "Back through the feed-forward network" (chapter 09): the backward pass of the feed-forward network.

Axes: T positions, D d_model, F d_ff.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.scratch.feedforward import gelu
from glassformer.shapes import Float

from .forward import complex_feed_forward
from .gelu_slope import gelu_slope, normal_cdf
from .linear_backward import linear_backward
from .slopes import drawn, slopes_case


def feed_forward_backward(
    grad: Float[np.ndarray, "T D"],
    x: Float[np.ndarray, "T D"],
    W_up: Float[np.ndarray, "D F"],
    b_up: Float[np.ndarray, " F"],
    W_down: Float[np.ndarray, "F D"],
    b_down: Float[np.ndarray, " D"],
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Maps the gradient of gelu(x @ W_up + b_up) @ W_down + b_down to those of x and of the four weights."""
    up = x @ W_up + b_up
    grad_wide, grad_W_down = linear_backward(grad, gelu(up), W_down)
    grad_up = grad_wide * gelu_slope(up)
    grad_x, grad_W_up = linear_backward(grad_up, x, W_up)
    return grad_x, grad_W_up, grad_up.sum(axis=0), grad_W_down, grad.sum(axis=0)


feed_back = exercise(
    "back.feed_forward_backward",
    feed_forward_backward,
    parts=("grad_x", "grad_W_up", "grad_b_up", "grad_W_down", "grad_b_down"),
    axes=("T D", "D F", "F", "F D", "D"),
)


def _of_feed(T: int, D: int, F: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    return (
        drawn(T, D, seed=seed), drawn(D, F, seed=seed + 1), drawn(F, seed=seed + 2),
        drawn(F, D, seed=seed + 3), drawn(D, seed=seed + 4),
    )  # fmt: skip


feed_back.case(
    "one neuron: the slope of GELU at 1, times W_down",
    np.array([[1.0]]), np.array([[1.0]]), np.array([[1.0]]), np.array([0.0]), np.array([[2.0]]), np.array([0.0]),
    want=[2 * 1.0833154705876863], part="grad_b_up",
)  # fmt: skip
slopes_case(
    feed_back,
    "one position, three neurons",
    complex_feed_forward,
    *_of_feed(1, 2, 3),
    grad=drawn(1, 2, seed=21),
)
slopes_case(
    feed_back,
    "five positions share the weights",
    complex_feed_forward,
    *_of_feed(5, 4, 7),
    grad=drawn(5, 4, seed=22),
)
slopes_case(
    feed_back, "T, D and F equal", complex_feed_forward, *_of_feed(4, 4, 4, seed=5), grad=drawn(4, 4, seed=23)
)


def _feed_wrong(
    slope=gelu_slope, biased=True, over=np.sum, wide=lambda up: up * normal_cdf(up), into_x=True, order=None
):
    def wrong(grad, x, W_up, b_up, W_down, b_down):
        up = x @ W_up + b_up
        bent = slope(up if biased else x @ W_up)
        grad_up = grad @ W_down.T * bent
        back = (grad_up if into_x else grad @ W_down.T) @ W_up.T
        found = back, x.T @ grad_up, over(grad_up, axis=0), wide(up).T @ grad, over(grad, axis=0)
        return found if order is None else order(found)

    return wrong


feed_back.mistake("no slope", _feed_wrong(slope=np.ones_like))
feed_back.mistake("slope behind", _feed_wrong(slope=lambda up: gelu_slope(up * normal_cdf(up))))
feed_back.mistake("of relu", _feed_wrong(slope=lambda up: (up > 0) * 1.0))
feed_back.mistake("gelu for its slope", _feed_wrong(slope=lambda up: up * normal_cdf(up)))
feed_back.mistake("slope not for x", _feed_wrong(into_x=False))
feed_back.mistake("bias forgotten", _feed_wrong(biased=False))
feed_back.mistake("before the bend", _feed_wrong(wide=lambda up: up))
feed_back.mistake("mean over positions", _feed_wrong(over=np.mean))
feed_back.mistake("not summed", _feed_wrong(over=lambda a, axis: a))
feed_back.mistake("order", _feed_wrong(order=lambda f: (f[1], f[2], f[3], f[4], f[0])))
