"""A soft cap, in PyTorch."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from glassformer import _checks as checks


class SoftCap(nn.Module):
    """As `scratch.SoftCap`, in PyTorch."""

    def __init__(self, cap: float) -> None:
        super().__init__()
        checks.positive("cap", cap)
        self.cap = cap

    def forward(
        self, x: Float[Tensor, "*B"], position_ids: object = None
    ) -> Float[Tensor, "*B"]:
        """Maps scores or logits of any shape to the same shape."""
        return torch.tanh(x / self.cap) * self.cap
