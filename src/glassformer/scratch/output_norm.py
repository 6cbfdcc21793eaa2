"""Sublayers whose output is normed or scaled before it is added to the stream, as in OLMo 2, Gemma 2 and Granite."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from glassformer.config import ModelConfig
from glassformer.layers import Layer as LayerDescription
from glassformer.scratch.layer import Layer, Saved
from glassformer.scratch.norm import LayerNorm, RMSNorm, norm_of
from glassformer.shapes import Float


class OutputNorm(Layer):
    """A sublayer f, such as attention, of which scale · norm(f(x)) is added to the stream; the norm can be left out.

    Source: a norm: Team OLMo 2024, "2 OLMo 2 Furious", section 3.3.2, and Gemma
    Team 2024, "Gemma 2", section 2; a factor: Granite's `residual_multiplier`.
    """

    sublayer: type[Layer]  # it is one, with another output

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
        self,
        x: Float[np.ndarray, "*B T D"],
        saved: Saved | None = None,
        **inputs: Any,
    ) -> Float[np.ndarray, "*B T D"]:
        """Maps x (..., T, D) to (..., T, D); `inputs` are those of the sublayer."""
        y = self.sublayer.forward(self, x, saved=saved, **inputs)
        if self.norm_output is not None:
            y = self.norm_output(y, saved)
        return y * self.output_scale

    def backward(self, grad: Float[np.ndarray, "*B T D"], saved: Saved) -> Any:
        """Maps the gradient of the output to what the sublayer's backward pass returns."""
        grad = grad * self.output_scale
        if self.norm_output is not None:
            grad = self.norm_output.backward(grad, saved)
        return self.sublayer.backward(self, grad, saved)


def with_output(
    sublayer: type[Layer],
    config: ModelConfig,
    layer: LayerDescription,
    dtype: DTypeLike,
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
