"""The output gate in PyTorch."""

from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from glassformer import _checks as checks
from glassformer.layers import GATE_SHAPES, GATES
from glassformer.nn.linear import Linear


class OutputGate(nn.Module):
    """As `scratch.OutputGate`, in PyTorch."""

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
        super().__init__()
        checks.one_of("per", per, GATE_SHAPES)
        checks.one_of("function", function, GATES)
        self.n_heads, self.function = n_heads, function
        n_out = n_heads * d_head if per == "element" else n_heads
        self.W = Linear(d_model, n_out, **init_kwargs)

    def forward(
        self, mixed: Float[Tensor, "*B H T K"], x: Float[Tensor, "*B T D"]
    ) -> Float[Tensor, "*B H T K"]:
        """Maps the heads' mixtures (..., H, T, K) and the layer's input x (..., T, D) to gated mixtures."""
        z = self.W(x).unflatten(-1, (self.n_heads, -1)).transpose(-3, -2)
        sigmoid = self.function == "sigmoid"
        # torch's softplus is off by up to 2e-9 from 20 on
        return mixed * (z.sigmoid() if sigmoid else z.logaddexp(z.new_zeros(())))
