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
    """Returns the mean of −ln p(target), in nats, where p = softmax(logits).

    −ln p equals log Σ exp(logits) − logits[target]. The largest logit is
    subtracted first, which does not change the result and keeps exp from
    overflowing. Targets equal to `ignore_index`, usually padding, do not count.

    Derived in chapter 09.

    Raises:
        ValueError: the shapes do not fit, a target is outside 0..V-1, or all
            targets are ignored.
        TypeError: the logits are not floating-point or the targets not integers.
    """
    _counted(logits, targets, ignore_index)
    rows = logits.reshape(-1, logits.shape[-1])
    targets = targets.reshape(-1).long()
    return functional.cross_entropy(rows, targets, ignore_index=ignore_index)


def _counted(logits: Tensor, targets: Tensor, ignore_index: int) -> Tensor:
    """Checks that logits and targets fit; returns which targets count, as booleans."""
    checks.floats("logits", logits)
    checks.integers("targets", targets)
    checks.equal(
        "targets.shape",
        tuple(targets.shape),
        "logits.shape[:-1]",
        tuple(logits.shape[:-1]),
    )
    counted = targets != ignore_index
    checks.some("targets", counted, f"other than ignore_index={ignore_index}")
    checks.indices(
        "targets", targets, "vocab_size", logits.shape[-1], among=counted
    )
    return counted
