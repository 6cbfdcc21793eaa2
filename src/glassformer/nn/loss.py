"""The loss: how surprised the model is by the token that comes next."""

from jaxtyping import Float, Integer
from torch import Tensor
from torch.nn import functional

from glassformer import _checks as checks


def cross_entropy(
    logits: Float[Tensor, "*B V"],
    targets: Integer[Tensor, "*B"],
    *,
    ignore_index: int = -100,
) -> Float[Tensor, ""]:
    """As `scratch.cross_entropy`, in PyTorch."""
    checks.loss(logits, targets, ignore_index)
    rows = logits.reshape(-1, logits.shape[-1])
    targets = targets.reshape(-1).long()
    return functional.cross_entropy(rows, targets, ignore_index=ignore_index)
