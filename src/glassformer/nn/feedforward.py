"""The feed-forward network in PyTorch; `scratch.feedforward` explains it and the axes."""

from collections.abc import Callable

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
    """Returns max(x, 0)². Source: So et al. 2021, "Primer: Searching for Efficient Transformers", section 3."""
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


# The activation for each name in a configuration; `has_gate` says which have a
# gate
ACTIVATIONS = {
    "relu": relu,
    "relu2": relu2,
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "swiglu": silu,
    "geglu": gelu,
    "geglu_tanh": gelu_tanh,
}


def activation_of(feedforward: str) -> Callable[[Tensor], Tensor]:
    """As `scratch.feedforward.activation_of`, in PyTorch."""
    checks.one_of("activation", feedforward, ACTIVATIONS)
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
        self.activate = activation_of(activation)
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
