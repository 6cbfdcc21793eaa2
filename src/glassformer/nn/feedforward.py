"""The feed-forward network: widens each position's vector, applies a nonlinearity, and maps it back.

The axes: T positions, D d_model, F d_ff.
"""

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


def gelu(x: Float[Tensor, "*B"]) -> Float[Tensor, "*B"]:
    """Exact GELU: x · Φ(x), where Φ(x) = (1 + erf(x/√2)) / 2 is the probability that a normal number is below x.

    Source: Hendrycks and Gimpel 2016, "Gaussian Error Linear Units". Derived in
    chapter 06.
    """
    return functional.gelu(x)


def gelu_tanh(x: Float[Tensor, "*B"]) -> Float[Tensor, "*B"]:
    """GELU with Φ approximated by a tanh: x · (1 + tanh(√(2/π) · (x + 0.044715x³))) / 2.

    GPT-2 uses this version. Since (1 + tanh(u)) / 2 = σ(2u), it is x times a
    sigmoid.

    Source: Hendrycks and Gimpel 2016, "Gaussian Error Linear Units", section 2.
    Derived in chapter 06.
    """
    return functional.gelu(x, approximate="tanh")


def silu(x: Float[Tensor, "*B"]) -> Float[Tensor, "*B"]:
    """Returns x · σ(x), also called Swish, where σ is the `sigmoid`.

    Source: Elfwing et al. 2017, "Sigmoid-Weighted Linear Units". Derived in
    chapter 06.
    """
    return functional.silu(x)


def sigmoid(x: Float[Tensor, "*B"]) -> Float[Tensor, "*B"]:
    """Returns 1 / (1 + exp(−x)), between 0 and 1. Derived in chapter 06."""
    return torch.sigmoid(x)


# The activation for each name in a configuration; `has_gate` says which have a
# gate
ACTIVATIONS = {
    "relu": relu,
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "swiglu": silu,
    "geglu": gelu,
    "geglu_tanh": gelu_tanh,
}


def activation_of(feedforward: str) -> Callable[[Tensor], Tensor]:
    """Returns the activation that a feed-forward network of that name applies between its linear maps.

    Raises:
        ValueError: no feed-forward network has that name.
    """
    checks.one_of("activation", feedforward, ACTIVATIONS)
    return ACTIVATIONS[feedforward]


class FeedForward(nn.Module):
    """activation(x @ W_up) @ W_down; or gated, (activation(x @ W_gate) * (x @ W_up)) @ W_down.

    `W_up` and `W_gate` map d_model to the wider d_ff, and `W_down` maps back.
    `activation` is "relu", "gelu" or "gelu_tanh", or a gated one: "swiglu",
    "geglu" or "geglu_tanh". `dropout` is the fraction of the output that is
    dropped in training.

    Source: Vaswani et al. 2017, "Attention Is All You Need", equation 2; gated:
    Shazeer 2020, "GLU Variants
    Improve Transformer". Derived in chapter 06, its gradient in 09.

    Raises:
        ValueError: a size is below 1, `activation` is none of these, or the last
            axis of x is not `d_model`.
        TypeError: x is not floating-point.
    """

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
