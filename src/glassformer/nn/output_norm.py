"""Sublayers whose output is normed or scaled before it is added to the stream, in PyTorch."""

from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from glassformer.config import ModelConfig
from glassformer.layers import Layer as LayerDescription
from glassformer.nn.norm import LayerNorm, RMSNorm, norm_of


class OutputNorm(nn.Module):
    """As `scratch.OutputNorm`, in PyTorch."""

    sublayer: type[nn.Module]  # it is one, with another output

    def __init__(
        self,
        *inputs: Any,
        norm: LayerNorm | RMSNorm | None,
        output_scale: float,
        **options: Any,
    ) -> None:
        self.sublayer.__init__(self, *inputs, **options)
        self.norm_output, self.output_scale = norm, output_scale

    def forward(
        self, x: Float[Tensor, "*B T D"], **inputs: Any
    ) -> Float[Tensor, "*B T D"]:
        """Maps x (..., T, D) to (..., T, D); `inputs` are those of the sublayer."""
        y = self.sublayer.forward(self, x, **inputs)
        if self.norm_output is not None:
            y = self.norm_output(y)
        return y * self.output_scale


def with_output(
    sublayer: type[nn.Module],
    config: ModelConfig,
    layer: LayerDescription,
    dtype: torch.dtype,
) -> Any:
    """Returns what makes such a sublayer: the class itself, or one with an output norm or factor as the layer says."""
    after = layer.residual.placement in ("output", "sandwich")
    scale = layer.residual.scale
    if not after and scale == 1:
        return sublayer
    both = OutputNorm, sublayer
    kind = type(sublayer.__name__, both, {"sublayer": sublayer})
    norm = norm_of(config, dtype) if after else None
    return partial(kind, norm=norm, output_scale=scale)
