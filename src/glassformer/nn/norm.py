"""Normalization: brings every position's vector to a standard size, whatever its size was."""

from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from glassformer import _checks as checks
from glassformer.config import ModelConfig


class LayerNorm(nn.Module):
    """As `scratch.LayerNorm`, in PyTorch."""

    def __init__(
        self,
        d_model: int,
        *,
        eps: float = 1e-5,
        gain: bool = True,
        bias: bool = True,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        checks.whole("d_model", d_model)
        checks.positive("eps", eps)
        self.d_model, self.eps = d_model, eps
        ones = torch.ones(d_model, dtype=dtype)
        self.weight = nn.Parameter(ones) if gain else None
        self.bias = nn.Parameter(torch.zeros_like(ones)) if bias else None

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        """Maps x (..., D) to (..., D)."""
        checks.vectors("x", x, "d_model", self.d_model)
        return functional.layer_norm(
            x, (self.d_model,), self.weight, self.bias, self.eps
        )


class SigmaNorm(LayerNorm):
    """As `scratch.SigmaNorm`, in PyTorch."""

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        """Maps x (..., D) to (..., D)."""
        checks.vectors("x", x, "d_model", self.d_model)
        centred = x - x.mean(dim=-1, keepdim=True)
        # A root has no slope at 0: if all features are equal, use the smallest
        # number
        variance = (centred * centred).mean(dim=-1, keepdim=True)
        sigma = torch.sqrt(variance.clamp(min=torch.finfo(x.dtype).tiny))
        standard = centred / (sigma + self.eps)
        scaled = standard if self.weight is None else standard * self.weight
        return scaled if self.bias is None else scaled + self.bias


class RMSNorm(nn.Module):
    """As `scratch.RMSNorm`, in PyTorch."""

    def __init__(
        self,
        d_model: int,
        *,
        eps: float = 1e-5,
        gain: bool = True,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        checks.whole("d_model", d_model)
        checks.positive("eps", eps)
        self.d_model, self.eps = d_model, eps
        ones = torch.ones(d_model, dtype=dtype)
        self.weight = nn.Parameter(ones) if gain else None

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        """Maps x (..., D) to (..., D)."""
        checks.vectors("x", x, "d_model", self.d_model)
        return functional.rms_norm(x, (self.d_model,), self.weight, self.eps)


class NoNorm(nn.Module):
    """Changes nothing: in place of the norm before a sublayer, if the only norm comes after it."""

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        """Returns x (..., D)."""
        return x


NORMS = {
    "layernorm": LayerNorm,
    "layernorm_sigma": SigmaNorm,
    "rmsnorm": RMSNorm,
    "layernorm_gain": partial(LayerNorm, bias=False),
    "layernorm_plain": partial(LayerNorm, gain=False, bias=False),
    "rmsnorm_plain": partial(RMSNorm, gain=False),
}


def norm_of(config: ModelConfig, dtype: torch.dtype) -> LayerNorm | RMSNorm:
    """Returns the norm that a configuration names, for vectors of its width."""
    return NORMS[config.norm](config.d_model, eps=config.norm_eps, dtype=dtype)
