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


_PARTS, _AXES = ("grad_x", "grad_weight", "grad_bias"), ("T D", "D", "D")
norm_back = exercise("back.layer_norm_backward", layer_norm_backward, parts=_PARTS, axes=_AXES)


def _of_norm(T: int, D: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    """x, a gain around 1, a bias."""
    return drawn(T, D, seed=seed) * 2, 1 + 0.5 * drawn(D, seed=seed + 1), drawn(D, seed=seed + 2)


slopes_case(norm_back, "one position, gain 1", complex_norm, drawn(1, 4), np.ones(4), np.zeros(4))
slopes_case(norm_back, "one position, with a gain", complex_norm, *_of_norm(1, 5))
slopes_case(norm_back, "four positions share gain and bias", complex_norm, *_of_norm(4, 6))
slopes_case(norm_back, "as many positions as features", complex_norm, *_of_norm(5, 5, seed=7))
slopes_case(norm_back, "a large eps", complex_norm, *_of_norm(3, 4, seed=9), eps=0.5)


@norm_back.check("a constant added to all features changes nothing, so the slopes sum to 0")
def _(learner):
    x, weight, bias = _of_norm(3, 7, seed=11)
    got = expect_parts(learner(drawn(3, 7, seed=8), x, weight, bias), norm_back.parts)[0]
    expect(np.asarray(got).sum(axis=-1), np.zeros(3), "the sums of grad_x over the features", axes="T")
