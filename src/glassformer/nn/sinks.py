"""Sinks in PyTorch."""

import torch
from jaxtyping import Float
from torch import Tensor

from glassformer import _checks as checks
from glassformer.nn.attention import softmax


def softmax_with_sinks(
    scores: Float[Tensor, "*B H T S"], sinks: Float[Tensor, " H"]
) -> Float[Tensor, "*B H T S"]:
    """As `scratch.softmax_with_sinks`, in PyTorch."""
    checks.axes("scores", scores, "H, T, S")
    checks.one_axis("sinks", sinks, length=scores.shape[-3])
    column = sinks[:, None, None].expand(*scores.shape[:-1], 1)
    return softmax(torch.cat([scores, column], dim=-1))[..., :-1]
