"""Queries that are scaled by their position, in PyTorch."""

import torch
from jaxtyping import Float, Integer
from torch import Tensor, nn

from glassformer import _checks as checks


class PositionScale(nn.Module):
    """As `scratch.PositionScale`, in PyTorch."""

    def __init__(self, beta: float, original_context: int) -> None:
        super().__init__()
        checks.positive("beta", beta)
        checks.whole("original_context", original_context)
        self.beta, self.original_context = beta, original_context

    def forward(
        self,
        x: Float[Tensor, "*B H T S"],
        position_ids: Integer[Tensor, "..."],
    ) -> Float[Tensor, "*B H T S"]:
        """Maps scores (..., H, T, S) to the same shape; `position_ids`, (T,) or (B, T), are the queries'."""
        contexts = (position_ids // self.original_context).double()
        factor = (1 + self.beta * torch.log1p(contexts)).to(x.dtype)
        # (T, 1), or with a batch (B, 1, T, 1): the same for all heads and keys
        factor = (
            factor[..., None, :, None] if factor.ndim > 1 else factor[:, None]
        )
        return x * factor
