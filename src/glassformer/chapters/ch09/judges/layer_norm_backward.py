"""Judges "Back through LayerNorm" (chapter 09): the backward pass of LayerNorm.

Axes: T positions, D d_model.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import expect, expect_parts
from glassformer.shapes import Float

from .forward import complex_norm
from .slopes import drawn, slopes_case


def layer_norm_backward(
    grad: Float[np.ndarray, "T D"],
    x: Float[np.ndarray, "T D"],
    weight: Float[np.ndarray, " D"],
    bias: Float[np.ndarray, " D"],
    eps: float = 1e-5,
) -> tuple[Float[np.ndarray, "T D"], Float[np.ndarray, " D"], Float[np.ndarray, " D"]]:
    """Maps the gradient of LayerNorm's output to those of x, of the gain and of the bias."""
    centred = x - x.mean(axis=-1, keepdims=True)
    size = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps)
    y, g = centred / size, grad * weight
    along = (g * y).mean(axis=-1, keepdims=True)
    grad_x = (g - g.mean(axis=-1, keepdims=True) - y * along) / size
    return grad_x, (grad * y).sum(axis=0), grad.sum(axis=0)


norm_back = exercise(
    "back.layer_norm_backward",
    layer_norm_backward,
    parts=("grad_x", "grad_weight", "grad_bias"),
    axes=("T D", "D", "D"),
)


def _of_norm(T: int, D: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    """x, a gain around 1, a bias."""
    return drawn(T, D, seed=seed) * 2, 1 + 0.5 * drawn(D, seed=seed + 1), drawn(D, seed=seed + 2)


slopes_case(
    norm_back, "one position, gain 1", complex_norm, drawn(1, 4), np.ones(4), np.zeros(4),
    grad=drawn(1, 4, seed=3),
)  # fmt: skip
slopes_case(norm_back, "one position, with a gain", complex_norm, *_of_norm(1, 5), grad=drawn(1, 5, seed=4))
slopes_case(
    norm_back, "four positions share gain and bias", complex_norm, *_of_norm(4, 6), grad=drawn(4, 6, seed=5)
)
slopes_case(
    norm_back,
    "as many positions as features",
    complex_norm,
    *_of_norm(5, 5, seed=7),
    grad=drawn(5, 5, seed=6),
)
slopes_case(
    norm_back, "a large eps", complex_norm, *_of_norm(3, 4, seed=9), grad=drawn(3, 4, seed=7), eps=0.5
)


@norm_back.check("a constant added to all features changes nothing, so the slopes sum to 0")
def _(learner):
    x, weight, bias = _of_norm(3, 7, seed=11)
    got = expect_parts(learner(drawn(3, 7, seed=8), x, weight, bias), norm_back.parts)[0]
    expect(np.asarray(got).sum(axis=-1), np.zeros(3), "the sums of grad_x over the features", axes="T")


def _norm_wrong(mean=True, along=True, gain=True, divide=True, over=np.sum, gain_of=None, pair=None):
    """A wrong answer: one thing left out or changed."""

    def wrong(grad, x, weight, bias, eps=1e-5):
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = (centred**2).mean(axis=-1, keepdims=True)
        size = np.sqrt(variance + eps)
        y, g = centred / size, grad * (weight if gain else 1)
        back = g - (g.mean(axis=-1, keepdims=True) if mean else 0)
        back = back - (y * (g * y).mean(axis=-1, keepdims=True) if along else 0)
        back = back / size if divide else back
        of_gain = over(grad * (y if gain_of is None else gain_of(x, centred)), axis=0)
        found = back, of_gain, over(grad, axis=0)
        return found if pair is None else pair(found)

    return wrong


norm_back.mistake("statistics held still", _norm_wrong(mean=False, along=False))
norm_back.mistake("mean held still", _norm_wrong(mean=False))
norm_back.mistake("size held still", _norm_wrong(along=False))
norm_back.mistake("not divided", _norm_wrong(divide=False))
norm_back.mistake("gain forgotten", _norm_wrong(gain=False))
norm_back.mistake("mean over positions", _norm_wrong(over=np.mean))
norm_back.mistake("gain from x", _norm_wrong(gain_of=lambda x, centred: x))
norm_back.mistake("gain from the centred", _norm_wrong(gain_of=lambda x, centred: centred))
norm_back.mistake("not summed", _norm_wrong(over=lambda a, axis: a))
norm_back.mistake("eps forgotten", lambda grad, x, w, b, eps=1e-5: layer_norm_backward(grad, x, w, b))
norm_back.mistake("gain and bias swapped", _norm_wrong(pair=lambda found: (found[0], found[2], found[1])))
norm_back.mistake("gain twice", lambda grad, x, w, b, eps=1e-5: (
    layer_norm_backward(grad, x, w, b, eps)[0], *layer_norm_backward(grad * w, x, w, b, eps)[1:]
))  # fmt: skip
norm_back.mistake("gain twice", lambda grad, x, w, b, eps=1e-5: (
    *layer_norm_backward(grad, x, w, b, eps)[:2], (grad * w).sum(axis=0)
))  # fmt: skip
norm_back.mistake(
    "eps forgotten", lambda grad, x, w, b, eps=1e-5: layer_norm_backward(grad, x, w, b, 0 * eps)
)


def _norm_otherwise(back):
    """A wrong grad_x, of y, the centred vector and its size; the rest is right."""

    def wrong(grad, x, weight, bias, eps=1e-5):
        centred = x - x.mean(axis=-1, keepdims=True)
        size = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps)
        found = back(grad * weight, centred / size, centred) / size
        return found, *layer_norm_backward(grad, x, weight, bias, eps)[1:]

    return wrong


def _mean(a):
    return a.mean(axis=-1, keepdims=True)


norm_back.mistake("centred for y", _norm_otherwise(lambda g, y, c: g - _mean(g) - c * _mean(g * c)))
norm_back.mistake("centred for y", _norm_otherwise(lambda g, y, c: g - _mean(g) - c * _mean(g * y)))
norm_back.mistake(
    "sums for means", _norm_otherwise(lambda g, y, c: g - (_mean(g) + y * _mean(g * y)) * g.shape[-1])
)
norm_back.mistake(
    "projection", _norm_otherwise(lambda g, y, c: g - _mean(g) - c * _mean(g * c) / _mean(c * c))
)
