"""Normalization: brings every position's vector to a standard size."""

from functools import partial

import numpy as np
from numpy.typing import DTypeLike

from glassformer import _checks as checks
from glassformer.config import ModelConfig
from glassformer.scratch.layer import Layer, Saved, save_for_backward
from glassformer.shapes import Float


class LayerNorm(Layer):
    """Shifts each vector to mean 0, scales it to variance 1, then applies a learned gain and shift.

    (x − μ) / √(σ² + ε) · weight + bias, with μ and σ² over the last axis; σ²
    divides by D, not by D − 1. `weight` (D) starts at 1 and `bias` (D) at 0; each
    has one entry per feature. Without a `gain` or a `bias`, they stay 1 and 0.

    Source: Ba et al. 2016, "Layer Normalization", equation 4; without bias:
    Cohere 2025, "Command A"; without both: Groeneveld et al. 2024, "OLMo".
    Derived in chapter 05, its gradient in 09.

    Raises:
        ValueError: `d_model` is below 1, `eps` is not positive, or the last axis
            of x is not `d_model`.
        TypeError: x is not floating-point.
    """

    def __init__(
        self,
        d_model: int,
        *,
        eps: float = 1e-5,
        gain: bool = True,
        bias: bool = True,
        dtype: DTypeLike = np.float32,
    ) -> None:
        checks.whole("d_model", d_model)
        checks.positive("eps", eps)
        self.d_model, self.eps = d_model, eps
        self.weight = np.ones(d_model, dtype) if gain else 1.0
        self.bias = np.zeros(d_model, dtype) if bias else 0.0

    def forward(
        self, x: Float[np.ndarray, "*B D"], saved: Saved | None = None
    ) -> Float[np.ndarray, "*B D"]:
        """Maps x (..., D) to (..., D)."""
        checks.vectors("x", x, "d_model", self.d_model)
        centred = x - _mean(x)
        inverse = 1 / np.sqrt(_mean_square(centred) + self.eps)  # (..., 1)
        standard = centred * inverse
        save_for_backward(saved, standard, inverse)
        return standard * self.weight + self.bias

    def backward(
        self, grad: Float[np.ndarray, "*B D"], saved: Saved
    ) -> Float[np.ndarray, "*B D"]:
        """Maps the gradient of the output to that of x."""
        standard, inverse = saved.pop()
        self.accumulate(weight=_over_rows(grad * standard), bias=_over_rows(grad))
        grad = grad * self.weight
        # Moving x along (1, 1, …) or along itself does not change the output
        along = _mean_product(grad, standard)
        return (grad - _mean(grad) - standard * along) * inverse


class SigmaNorm(LayerNorm):
    """A variant of LayerNorm that adds ε outside the root: (x − μ) / (σ + ε) · weight + bias.

    The two are almost equal unless the features of a vector are nearly the same;
    then they differ.

    Derived in chapter 05.
    """

    def forward(
        self, x: Float[np.ndarray, "*B D"], saved: Saved | None = None
    ) -> Float[np.ndarray, "*B D"]:
        """Maps x (..., D) to (..., D)."""
        checks.vectors("x", x, "d_model", self.d_model)
        centred = x - _mean(x)
        # A root has no slope at 0: if all features are equal, use the smallest
        # number
        sigma = np.sqrt(np.maximum(_mean_square(centred), np.finfo(x.dtype).tiny))
        inverse = 1 / (sigma + self.eps)  # (..., 1)
        standard = centred * inverse
        save_for_backward(saved, standard, inverse, sigma)
        return standard * self.weight + self.bias

    def backward(
        self, grad: Float[np.ndarray, "*B D"], saved: Saved
    ) -> Float[np.ndarray, "*B D"]:
        """Maps the gradient of the output to that of x."""
        standard, inverse, sigma = saved.pop()
        self.accumulate(weight=_over_rows(grad * standard), bias=_over_rows(grad))
        grad = grad * self.weight
        along = _mean_product(grad, standard) / sigma
        return (grad - _mean(grad)) * inverse - standard * along


class RMSNorm(Layer):
    """Scales each vector to a mean square of 1, then applies a learned gain; there is no shift.

    x / √(mean(x²) + ε) · weight, over the last axis. `weight` (D) starts at 1;
    without a `gain`, there is none.

    Source: Zhang and Sennrich 2019, "Root Mean Square Layer Normalization",
    equation 4. Derived in chapter 05, its gradient in 09.

    Raises:
        ValueError: `d_model` is below 1, `eps` is not positive, or the last axis
            of x is not `d_model`.
        TypeError: x is not floating-point.
    """

    def __init__(
        self,
        d_model: int,
        *,
        eps: float = 1e-5,
        gain: bool = True,
        dtype: DTypeLike = np.float32,
    ) -> None:
        checks.whole("d_model", d_model)
        checks.positive("eps", eps)
        self.d_model, self.eps = d_model, eps
        self.weight = np.ones(d_model, dtype) if gain else None

    def forward(
        self, x: Float[np.ndarray, "*B D"], saved: Saved | None = None
    ) -> Float[np.ndarray, "*B D"]:
        """Maps x (..., D) to (..., D)."""
        checks.vectors("x", x, "d_model", self.d_model)
        inverse = 1 / np.sqrt(_mean_square(x) + self.eps)  # (..., 1)
        standard = x * inverse
        save_for_backward(saved, standard, inverse)
        return standard if self.weight is None else standard * self.weight

    def backward(
        self, grad: Float[np.ndarray, "*B D"], saved: Saved
    ) -> Float[np.ndarray, "*B D"]:
        """Maps the gradient of the output to that of x."""
        standard, inverse = saved.pop()
        if self.weight is not None:
            self.accumulate(weight=_over_rows(grad * standard))
            grad = grad * self.weight
        return (grad - standard * _mean_product(grad, standard)) * inverse


def _mean(x: Float[np.ndarray, "*B D"]) -> Float[np.ndarray, "*B 1"]:
    """Returns the mean over the last axis, which is kept; faster than x.mean for a single vector."""
    return x.sum(axis=-1, keepdims=True) / x.shape[-1]


def _mean_product(
    a: Float[np.ndarray, "*B D"], b: Float[np.ndarray, "*B D"]
) -> Float[np.ndarray, "*B 1"]:
    """Returns the mean of a·b over the last axis, which is kept."""
    return np.vecdot(a, b)[..., None] / a.shape[-1]


def _mean_square(x: Float[np.ndarray, "*B D"]) -> Float[np.ndarray, "*B 1"]:
    """Returns the mean of x² over the last axis, which is kept."""
    return _mean_product(x, x)


def _over_rows(gradient: Float[np.ndarray, "*B D"]) -> Float[np.ndarray, " D"]:
    """Sums over all axes but the last: every row used the weight and contributes to its gradient."""
    return gradient.reshape(-1, gradient.shape[-1]).sum(axis=0)


class NoNorm(Layer):
    """Changes nothing: in place of the norm before a sublayer, if the only norm comes after it."""

    def forward(
        self, x: Float[np.ndarray, "*B D"], saved: Saved | None = None
    ) -> Float[np.ndarray, "*B D"]:
        """Returns x (..., D)."""
        return x

    def backward(
        self, grad: Float[np.ndarray, "*B D"], saved: Saved
    ) -> Float[np.ndarray, "*B D"]:
        """Returns the gradient."""
        return grad


NORMS = {
    "layernorm": LayerNorm,
    "layernorm_sigma": SigmaNorm,
    "rmsnorm": RMSNorm,
    "layernorm_gain": partial(LayerNorm, bias=False),
    "layernorm_plain": partial(LayerNorm, gain=False, bias=False),
    "rmsnorm_plain": partial(RMSNorm, gain=False),
}


def norm_of(config: ModelConfig, dtype: DTypeLike) -> LayerNorm | RMSNorm:
    """Returns the norm that a configuration names, for vectors of its width."""
    return NORMS[config.norm](config.d_model, eps=config.norm_eps, dtype=dtype)
