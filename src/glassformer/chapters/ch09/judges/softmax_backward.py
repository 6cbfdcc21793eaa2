"""Judges "Back through softmax" (chapter 09): the backward pass of softmax, from its output.

Axis: T positions.
"""

from functools import cache

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import expect
from glassformer.shapes import Float

from .slopes import drawn, slopes_of, softmax_rows


def softmax_backward(
    grad: Float[np.ndarray, "*B S"], weights: Float[np.ndarray, "*B S"]
) -> Float[np.ndarray, "*B S"]:
    """Maps the gradient of softmax's output, `weights`, to that of its input."""
    return weights * (grad - (grad * weights).sum(axis=-1, keepdims=True))


soft_back = exercise("back.softmax_backward", softmax_backward, axes="T S")
soft_back.case(
    "two equal weights: what one gains, the other loses", np.array([[1.0, 0.0]]), np.array([[0.5, 0.5]]),
    want=[[0.25, -0.25]],
)  # fmt: skip
soft_back.case(
    "three weights, worked by hand", np.array([[4.0, 0.0, 8.0]]), np.array([[0.5, 0.25, 0.25]]),
    want=[[0.0, -1.0, 1.0]],
)  # fmt: skip
soft_back.case(
    "equal slopes: nothing moves", np.array([[3.0, 3.0, 3.0]]), np.array([[0.2, 0.3, 0.5]]),
    want=[[0.0, 0.0, 0.0]],
)  # fmt: skip


def _of_scores(shape, seed):
    scores = drawn(*shape, seed=seed)
    grad = drawn(*shape, seed=seed + 1)
    want = cache(lambda: slopes_of(softmax_rows, [scores], grad)[0])
    return grad, softmax_rows(scores), want


for _title, _shape, _axes in (
    ("each row separately", (4, 4), "T S"),
    ("rows of a different length", (3, 6), "T S"),
    ("heads in front", (2, 3, 4), "H T S"),
    ("one row alone", (5,), "S"),
):

    @soft_back.check(_title)
    def _(learner, shape=_shape, axes=_axes):
        grad, weights, want = _of_scores(shape, len(shape))
        expect(learner(grad, weights), want(), "softmax_backward(grad, weights)", axes=axes)


soft_back.case(
    "a masked pair and a row that is certain: exactly 0", np.array([[7.0, -2.0], [1.0, 5.0]]),
    np.array([[1.0, 0.0], [0.5, 0.5]]), want=[[0.0, 0.0], [-1.0, 1.0]],
)  # fmt: skip
soft_back.mistake("diagonal", lambda g, w: g * w * (1 - w))
soft_back.mistake("plain mean", lambda g, w: w * (g - g.mean(axis=-1, keepdims=True)))
soft_back.mistake("sum without weights", lambda g, w: w * (g - g.sum(axis=-1, keepdims=True)))
soft_back.mistake("weights forgotten", lambda g, w: g - (g * w).sum(axis=-1, keepdims=True))
soft_back.mistake("no mean", lambda g, w: g * w)
soft_back.mistake("no keepdims", lambda g, w: w * (g - (g * w).sum(axis=-1)))
soft_back.mistake("mean of products", lambda g, w: w * (g - (g * w).mean(axis=-1, keepdims=True)))
soft_back.mistake("sign", lambda g, w: -softmax_backward(g, w))
soft_back.mistake("all rows", lambda g, w: w * (g - (g * w).sum()))
soft_back.mistake("columns", lambda g, w: w * (g - (g * w).sum(axis=0, keepdims=True)))
soft_back.mistake("softmax again", lambda g, w: softmax_backward(g, softmax_rows(w)))
soft_back.mistake("second axis", lambda g, w: w * (g - (g * w).sum(axis=min(1, w.ndim - 1), keepdims=True)))
