"""Judges "A tied head with a scale" (chapter 09): the loss of scale · (E[ids] @ E.T), back to E and to the scale.

Axes: T positions, V vocabulary, D d_model.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
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


tied = exercise("back.tied_gradients", tied_gradients, parts=("grad_E", "grad_scale"), axes=("V D", ""))


def _slopes(ids, targets, E, scale):
    def loss(E, scale):
        return loss_of(targets)(scale * (E[ids] @ E.T))

    return slopes_of(loss, [E, np.array(scale)])


for _title, _T, _V, _D, _scale, _repeated in (
    ("one position", 1, 3, 4, 0.5, False),
    ("four tokens, each read once", 4, 7, 3, 2.0, False),
    ("a token that is read three times", 5, 8, 4, 0.5, True),
    ("a scale below 0", 6, 9, 3, -0.7, True),
):
    _rng = np.random.default_rng((99, _V))
    _ids, _targets = _rng.permutation(_V)[:_T], _rng.integers(_V, size=_T)
    if _repeated:
        _ids[-2:] = _ids[0]
    tied.case(_title, _ids, _targets, drawn(_V, _D) * 0.7, _scale, want=_slopes, what="tied_gradients(…)")
