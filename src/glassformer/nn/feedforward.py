"""The feed-forward network in PyTorch; `scratch.feedforward` explains it and the axes."""

import math
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from glassformer import _checks as checks
from glassformer.config import has_gate
from glassformer.nn.linear import Linear
from glassformer.trace import enter_sublayer, see

# Activations: one number in, one out


def relu(x: Float[Tensor, "*B"]) -> Float[Tensor, "*B"]:
    """Returns max(x, 0): negative numbers become 0. Derived in chapter 06."""
    return torch.relu(x)


def relu2(x: Float[Tensor, "*B"]) -> Float[Tensor, "*B"]:
    """Returns max(x, 0)². Source: So et al. 2021, "Primer: Searching for Efficient Transformers"."""
    return torch.relu(x) ** 2


def gelu(x: Float[Tensor, "*B"]) -> Float[Tensor, "*B"]:
    """As `scratch.gelu`, in PyTorch."""
    return functional.gelu(x)


def gelu_tanh(x: Float[Tensor, "*B"]) -> Float[Tensor, "*B"]:
    """As `scratch.gelu_tanh`, in PyTorch."""
    return functional.gelu(x, approximate="tanh")


def silu(x: Float[Tensor, "*B"]) -> Float[Tensor, "*B"]:
    """As `scratch.silu`, in PyTorch."""
    return functional.silu(x)


def sigmoid(x: Float[Tensor, "*B"]) -> Float[Tensor, "*B"]:
    """Returns 1 / (1 + exp(−x)), between 0 and 1. Derived in chapter 06."""
    return torch.sigmoid(x)


# An activation that learns


class XIeLU(nn.Module):
    """As `scratch.XIeLU`, in PyTorch."""

    BETA, EPS = 0.5, -1e-6

    def __init__(self, *, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        starts = (math.log(math.expm1(a)) for a in (0.8, 0.8 - self.BETA))
        self.alpha_p, self.alpha_n = (
            nn.Parameter(torch.full((1,), start, dtype=dtype)) for start in starts
        )

    def forward(self, x: Float[Tensor, "*B F"]) -> Float[Tensor, "*B F"]:
        """Maps each number of x."""
        right = functional.softplus(self.alpha_p) * x * x
        left = torch.expm1(x.clamp(max=self.EPS)) - x
        left = left * (self.BETA + functional.softplus(self.alpha_n))
        return torch.where(x > 0, right, left) + self.BETA * x


# The activation for each name in a configuration; `has_gate` says which have a
# gate
ACTIVATIONS: dict[str, Any] = {
    "relu": relu,
    "relu2": relu2,
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "swiglu": silu,
    "geglu": gelu,
    "geglu_tanh": gelu_tanh,
    "xielu": XIeLU,
}


def activation_of(
    feedforward: str, dtype: torch.dtype = torch.float32
) -> Callable[[Tensor], Tensor]:
    """As `scratch.feedforward.activation_of`, in PyTorch."""
    checks.one_of("activation", feedforward, ACTIVATIONS)
    if feedforward == "xielu":
        return XIeLU(dtype=dtype)
    return ACTIVATIONS[feedforward]


class FeedForward(nn.Module):
    """As `scratch.FeedForward`, in PyTorch."""

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        *,
        activation: str = "gelu_tanh",
        bias: bool = True,
        dropout: float = 0.0,
        generator: torch.Generator | None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.activate = activation_of(activation, dtype)
        init_kwargs = {"bias": bias, "generator": generator, "dtype": dtype}
        self.W_up = Linear(d_model, d_ff, **init_kwargs)
        self.W_gate = (
            Linear(d_model, d_ff, **init_kwargs) if has_gate(activation) else None
        )
        self.W_down = Linear(d_ff, d_model, **init_kwargs)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        """Maps x (..., D) to (..., D)."""
        enter_sublayer("feed-forward")
        up = self.W_up(x)  # (..., F)
        if self.W_gate is None:
            neurons = self.activate(up)
        else:
            gate = self.W_gate(x)  # (..., F)
            neurons = self.activate(gate) * up
        see(neurons=neurons)
        y = self.dropout(self.W_down(neurons))
        see(write=y)
        return y


class NoFeedForward(nn.Module):
    """Adds nothing to the stream: the second sublayer of a layer that has only one."""

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        """Maps x to zeros of its shape."""
        return torch.zeros_like(x)
