"""The output gate: each head's mixture is scaled by what its query's position says about it."""

from typing import Any

import numpy as np

from glassformer import _checks as checks
from glassformer.layers import GATE_SHAPES, GATES
from glassformer.scratch.feedforward import sigmoid
from glassformer.scratch.layer import Layer, Saved, save_for_backward
from glassformer.scratch.linear import Linear
from glassformer.shapes import Float


class OutputGate(Layer):
    """Multiplies what H heads have mixed by σ(x · W), before W_o; with one number per `"head"` or per `"element"`.

    `function` is "sigmoid", which can only shrink a head's output, or
    "softplus", which is ln(1 + e^z).

    Source: Qiu et al. 2025, "Gated Attention for Large Language Models", section
    2.2. Derived in chapter 16.

    Raises:
        ValueError: `per` or `function` is none of these.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_head: int,
        *,
        per: str = "element",
        function: str = "sigmoid",
        **init_kwargs: Any,
    ) -> None:
        checks.one_of("per", per, GATE_SHAPES)
        checks.one_of("function", function, GATES)
        self.n_heads, self.function = n_heads, function
        n_out = n_heads * d_head if per == "element" else n_heads
        self.W = Linear(d_model, n_out, **init_kwargs)

    def forward(
        self,
        mixed: Float[np.ndarray, "*B H T K"],
        x: Float[np.ndarray, "*B T D"],
        saved: Saved | None = None,
    ) -> Float[np.ndarray, "*B H T K"]:
        """Maps the heads' mixtures (..., H, T, K) and the layer's input x (..., T, D) to gated mixtures."""
        z = self.W(x, saved)
        z = z.reshape(*z.shape[:-1], self.n_heads, -1).swapaxes(-3, -2)
        gate = sigmoid(z) if self.function == "sigmoid" else np.logaddexp(0, z)
        save_for_backward(saved, mixed, z, gate)
        return mixed * gate

    def backward(
        self, grad: Float[np.ndarray, "*B H T K"], saved: Saved
    ) -> tuple[np.ndarray, np.ndarray]:
        """Maps the gradient of the gated mixtures to those of the mixtures and of x."""
        mixed, z, gate = saved.pop()
        one = sigmoid(z)
        slope = one * (1 - one) if self.function == "sigmoid" else one
        grad_z = grad * mixed
        if z.shape[-1] == 1:
            grad_z = grad_z.sum(axis=-1, keepdims=True)
        grad_z = (grad_z * slope).swapaxes(-3, -2)
        from_x = self.W.backward(grad_z.reshape(*grad_z.shape[:-2], -1), saved)
        return grad * gate, from_x
