"""Judges "A tied head with a scale" (chapter 09): the loss of scale · (E[ids] @ E.T), back to E and to the scale.

Axes: T positions, V vocabulary, D d_model.
"""

from functools import cache
from typing import Any

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import expect, expect_parts
from glassformer.shapes import Float, Integer

from .cross_entropy_backward import cross_entropy_backward, loss_of
from .slopes import drawn, slopes_of


def tied_gradients(
    ids: Integer[np.ndarray, " T"],
    targets: Integer[np.ndarray, " T"],
    E: Float[np.ndarray, "V D"],
    scale: float,
) -> tuple[Float[np.ndarray, "V D"], np.floating]:
    """The gradients of E and of the scale, for the loss of the logits scale · (E[ids] @ E.T)."""
    x = E[ids]
    plain = x @ E.T
    grad = cross_entropy_backward(scale * plain, targets)
    grad_E = scale * grad.T @ x
    np.add.at(grad_E, ids, scale * grad @ E)
    return grad_E, (grad * plain).sum()


tied = exercise(
    "back.tied_gradients",
    tied_gradients,
    parts=("grad_E", "grad_scale"),
    axes=("V D", ""),
)


@cache
def _of_tied(T: int, V: int, D: int, scale: float, repeated: bool, seed: int) -> tuple[Any, ...]:
    """ids, targets, E and the scale; and the two gradients."""
    rng = np.random.default_rng((99, seed))
    ids, targets = rng.permutation(V)[:T], rng.integers(V, size=T)
    if repeated:
        ids[-2:] = ids[0]  # a token that is read three times
    E = drawn(V, D, seed=seed) * 0.7

    def forward(E, scale):
        return loss_of(targets)(scale * (E[ids] @ E.T))

    grad_E, grad_scale = slopes_of(forward, [E, np.array(scale)])
    return ids, targets, E, scale, grad_E, float(grad_scale)


for _title, _sizes in {
    "one position": (1, 3, 4, 0.5, False, 260),
    "four tokens, each read once": (4, 7, 3, 2.0, False, 261),
    "a token that is read three times": (5, 8, 4, 0.5, True, 262),
    "a scale below 0": (6, 9, 3, -0.7, True, 263),
}.items():

    @tied.check(_title)
    def _(learner, sizes=_sizes):
        *given, grad_E, grad_scale = _of_tied(*sizes)
        got = expect_parts(learner(*given), tied.parts)
        expect(got[0], grad_E, "grad_E of tied_gradients(…)", axes="V D")
        expect(got[1], grad_scale, "grad_scale of tied_gradients(…)")


def _tied_wrong(
    head=lambda g, x, E, s: s * g.T @ x,
    back=lambda g, x, E, s: s * g @ E,
    lookup="add",
    of_scale=lambda g, plain, s: (g * plain).sum(),
    mean=True,
    scaled=True,
):
    """A wrong answer: one thing left out or changed."""

    def wrong(ids, targets, E, scale):
        x = E[ids]
        plain = x @ E.T
        grad = cross_entropy_backward(scale * plain if scaled else plain, targets) * (1 if mean else len(ids))
        grad_E = head(grad, x, E, scale)
        if lookup == "add":
            np.add.at(grad_E, ids, back(grad, x, E, scale))
        elif lookup == "overwrite":
            grad_E[ids] += back(grad, x, E, scale)
        return grad_E, of_scale(grad, plain, scale)

    return wrong


tied.mistake("head alone", _tied_wrong(lookup=None))
tied.mistake("lookup alone", _tied_wrong(head=lambda g, x, E, s: np.zeros_like(E)))
tied.mistake("overwritten", _tied_wrong(lookup="overwrite"))
tied.mistake("scale forgotten", _tied_wrong(head=lambda g, x, E, s: g.T @ x, back=lambda g, x, E, s: g @ E))
tied.mistake("scale in one use", _tied_wrong(head=lambda g, x, E, s: g.T @ x))
tied.mistake("scale in one use", _tied_wrong(back=lambda g, x, E, s: g @ E))
tied.mistake("softmax without the scale", _tied_wrong(scaled=False))
tied.mistake("mean forgotten", _tied_wrong(mean=False))
tied.mistake("slopes alone", _tied_wrong(of_scale=lambda g, plain, s: g.sum()))
tied.mistake("scaled logits", _tied_wrong(of_scale=lambda g, plain, s: s * (g * plain).sum()))
tied.mistake("scale averaged", _tied_wrong(of_scale=lambda g, plain, s: (g * plain).sum() / len(g)))
tied.mistake("not summed", _tied_wrong(of_scale=lambda g, plain, s: g * plain))
tied.mistake("not summed", _tied_wrong(of_scale=lambda g, plain, s: (g * plain).sum(axis=-1)))
