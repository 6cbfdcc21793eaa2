"""Judges "Back through RMSNorm" (chapter 09): the backward pass of a norm that the chapter does not derive.

Axes: T positions, D d_model.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.shapes import Float

from .slopes import drawn, slopes_case


def rms_norm_backward(
    grad: Float[np.ndarray, "T D"],
    x: Float[np.ndarray, "T D"],
    weight: Float[np.ndarray, " D"],
    eps: float = 1e-5,
) -> tuple[Float[np.ndarray, "T D"], Float[np.ndarray, " D"]]:
    """Maps the gradient of RMSNorm's output to those of x and of the gain."""
    size = np.sqrt((x**2).mean(axis=-1, keepdims=True) + eps)
    y, g = x / size, grad * weight
    along = (g * y).mean(axis=-1, keepdims=True)
    return (g - y * along) / size, (grad * y).sum(axis=0)


rms_back = exercise(
    "back.rms_norm_backward", rms_norm_backward, parts=("grad_x", "grad_weight"), axes=("T D", "D")
)


def _rms_norm(x, weight, eps=1e-5):
    """RMSNorm, also of complex numbers."""
    return x * ((x * x).sum(axis=-1, keepdims=True) / x.shape[-1] + eps) ** -0.5 * weight


def _of_norm(T: int, D: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """x, whose positions are not centred, and a gain around 1."""
    return 1 + 2 * drawn(T, D, seed=seed), 1 + 0.5 * drawn(D, seed=seed + 1)


rms_back.case(
    "two numbers of size 5, worked by hand", np.array([[10.0, 0.0]]), np.array([[1.0, 7.0]]), np.ones(2), eps=0.0,
    want=([[1.96, -0.28]], [2.0, 0.0]),
)  # fmt: skip
slopes_case(
    rms_back, "one position, with a gain", _rms_norm, *_of_norm(1, 5, 200), grad=drawn(1, 5, seed=210)
)
slopes_case(
    rms_back, "four positions share the gain", _rms_norm, *_of_norm(4, 6, 202), grad=drawn(4, 6, seed=211)
)
slopes_case(
    rms_back, "as many positions as features", _rms_norm, *_of_norm(5, 5, 204), grad=drawn(5, 5, seed=212)
)
slopes_case(
    rms_back, "a large eps", _rms_norm, *_of_norm(3, 4, 206), grad=drawn(3, 4, seed=213), eps=0.5
)  # fmt: skip


def _mean(a):
    return a.mean(axis=-1, keepdims=True)


def _rms_wrong(back=lambda g, y, x: g - y * _mean(g * y), gain=True, divide=True, of_gain=None, centre=False):
    """A wrong answer: one thing left out or changed."""

    def wrong(grad, x, weight, eps=1e-5):
        read = x - _mean(x) if centre else x
        size = np.sqrt(_mean(read**2) + eps)
        y, g = read / size, grad * weight if gain else grad
        found = back(g, y, read) / (size if divide else 1)
        return found, (grad * y).sum(axis=0) if of_gain is None else of_gain(grad, x, y, weight)

    return wrong


rms_back.mistake("LayerNorm", _rms_wrong(centre=True, back=lambda g, y, x: g - _mean(g) - y * _mean(g * y)))
rms_back.mistake("mean subtracted", _rms_wrong(back=lambda g, y, x: g - _mean(g) - y * _mean(g * y)))
rms_back.mistake("centred", _rms_wrong(centre=True))
rms_back.mistake("size held still", _rms_wrong(back=lambda g, y, x: g))
rms_back.mistake("not divided", _rms_wrong(divide=False))
rms_back.mistake("gain forgotten", _rms_wrong(gain=False))
rms_back.mistake("x for y", _rms_wrong(back=lambda g, y, x: g - x * _mean(g * x)))
rms_back.mistake("x for y", _rms_wrong(back=lambda g, y, x: g - x * _mean(g * y)))
rms_back.mistake("sums for means", _rms_wrong(back=lambda g, y, x: g - y * _mean(g * y) * g.shape[-1]))
rms_back.mistake("gain from x", _rms_wrong(of_gain=lambda grad, x, y, w: (grad * x).sum(axis=0)))
rms_back.mistake("mean over positions", _rms_wrong(of_gain=lambda grad, x, y, w: (grad * y).mean(axis=0)))
rms_back.mistake("not summed", _rms_wrong(of_gain=lambda grad, x, y, w: grad * y))
rms_back.mistake("gain twice", _rms_wrong(of_gain=lambda grad, x, y, w: (grad * w * y).sum(axis=0)))
rms_back.mistake("eps forgotten", lambda grad, x, w, eps=1e-5: rms_norm_backward(grad, x, w))
rms_back.mistake("eps forgotten", lambda grad, x, w, eps=1e-5: rms_norm_backward(grad, x, w, 0 * eps))
