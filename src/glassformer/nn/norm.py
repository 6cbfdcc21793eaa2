"""Normalization: brings every position's vector to a standard size, whatever its size was."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from glassformer import _checks as checks


class LayerNorm(nn.Module):
    """Shifts each vector to mean 0, scales it to variance 1, then applies a learned gain and shift.

    (x − μ) / √(σ² + ε) · weight + bias, with μ and σ² over the last axis; σ²
    divides by D, not by D − 1. `weight` (D) starts at 1 and `bias` (D) at 0; each
    has one entry per feature.

    Source: Ba et al. 2016, "Layer Normalization", equation 4. Derived in chapter
    05, its gradient in 09.

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
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        checks.whole("d_model", d_model)
        checks.positive("eps", eps)
        self.d_model, self.eps = d_model, eps
        self.weight = nn.Parameter(torch.ones(d_model, dtype=dtype))
        self.bias = nn.Parameter(torch.zeros(d_model, dtype=dtype))

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        """Maps x (..., D) to (..., D)."""
        checks.floats("x", x)
        checks.equal("x.shape[-1]", x.shape[-1], "d_model", self.d_model)
        return functional.layer_norm(
            x, (self.d_model,), self.weight, self.bias, self.eps
        )


class SigmaNorm(LayerNorm):
    """A variant of LayerNorm that adds ε outside the root: (x − μ) / (σ + ε) · weight + bias.

    The two are almost equal unless the features of a vector are nearly the same;
    then they differ.

    Derived in chapter 05.
    """

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        """Maps x (..., D) to (..., D)."""
        checks.floats("x", x)
        checks.equal("x.shape[-1]", x.shape[-1], "d_model", self.d_model)
        centred = x - x.mean(dim=-1, keepdim=True)
        # A root has no slope at 0: if all features are equal, use the smallest
        # number
        variance = (centred * centred).mean(dim=-1, keepdim=True)
        sigma = torch.sqrt(variance.clamp(min=torch.finfo(x.dtype).tiny))
        return centred / (sigma + self.eps) * self.weight + self.bias


class RMSNorm(nn.Module):
    """Scales each vector to a mean square of 1, then applies a learned gain; there is no shift.

    x / √(mean(x²) + ε) · weight, over the last axis. `weight` (D) starts at 1.

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
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        checks.whole("d_model", d_model)
        checks.positive("eps", eps)
        self.d_model, self.eps = d_model, eps
        self.weight = nn.Parameter(torch.ones(d_model, dtype=dtype))

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        """Maps x (..., D) to (..., D)."""
        checks.floats("x", x)
        checks.equal("x.shape[-1]", x.shape[-1], "d_model", self.d_model)
        return functional.rms_norm(x, (self.d_model,), self.weight, self.eps)
