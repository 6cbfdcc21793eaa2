"""Mamba-2 in PyTorch; `scratch.mamba2` names the axes."""

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from glassformer.nn.attention import merge_heads, split_heads
from glassformer.nn.feedforward import silu
from glassformer.nn.linear_attention import LinearAttention
from glassformer.nn.norm import RMSNorm
from glassformer.nn.short_convolution import ShortConvolution


class Mamba2(LinearAttention):
    """As `scratch.Mamba2`, in PyTorch."""

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        n_key_heads: int,
        d_key: int,
        d_value: int,
        taps: int = 4,
        convolution_bias: bool = True,
        output_eps: float = 1e-5,
        dropout: float = 0.0,
        generator: torch.Generator | None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(
            d_model,
            n_heads,
            n_key_heads=n_key_heads,
            d_key=d_key,
            d_value=d_value,
            delta=False,
            decay="head",
            taps=taps,
            dropout=dropout,
            generator=generator,
            dtype=dtype,
        )
        own: dict[str, Any] = {"generator": generator, "dtype": dtype}
        keys, values = n_key_heads * d_key, n_heads * d_value
        self.convolution_q, self.convolution_k, self.convolution_v = (
            ShortConvolution(size, taps, bias=convolution_bias, **own)
            for size in (keys, keys, values)
        )
        group = values // n_key_heads
        self.norm_heads = RMSNorm(group, eps=output_eps, gain=False, dtype=dtype)
        self.gain = nn.Parameter(torch.ones(values, dtype=dtype))
        self.skip = nn.Parameter(torch.ones(n_heads, dtype=dtype))

    def _scaled(
        self, q: Float[Tensor, "*B G T K"], k: Float[Tensor, "*B G T K"]
    ) -> tuple[Tensor, Tensor]:
        return q, k

    def _strength_and_decay(
        self, x: Float[Tensor, "*B T D"], real: Bool[Tensor, "*B T"] | None
    ) -> tuple[Float[Tensor, "*B H T 1"], Float[Tensor, "*B H T 1"]]:
        """Returns Δ, and −exp(log_rate) · Δ."""
        step = self._softplus(x)
        if real is not None:
            step = step * real[..., None, :, None]
        return step, -self.log_rate.exp()[:, None, None] * step

    def _output(
        self,
        read: Float[Tensor, "*B H T U"],
        v: Float[Tensor, "*B H T U"],
        x: Float[Tensor, "*B T D"],
    ) -> Float[Tensor, "*B T _"]:
        """Adds `skip` times the values, multiplies by the gate, and norms the heads of each group together."""
        wide = merge_heads(read + self.skip[:, None, None] * v)
        gated = split_heads(wide * silu(self._gate_input(x)), self.n_key_heads)
        return merge_heads(self.norm_heads(gated)) * self.gain
