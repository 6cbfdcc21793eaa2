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
slopes_case(rms_back, "one position, with a gain", _rms_norm, *_of_norm(1, 5))
slopes_case(rms_back, "four positions share the gain", _rms_norm, *_of_norm(4, 6))
slopes_case(rms_back, "as many positions as features", _rms_norm, *_of_norm(5, 5))
slopes_case(rms_back, "a large eps", _rms_norm, *_of_norm(3, 4), eps=0.5)
