"""The loss: how surprised the model is by the token that comes next."""

import numpy as np

from glassformer import _checks as checks
from glassformer.shapes import Float, Integer


def cross_entropy(
    logits: Float[np.ndarray, "*B V"],
    targets: Integer[np.ndarray, "*B"],
    *,
    ignore_index: int = -100,
) -> np.floating:
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
    checks.loss(logits, targets, ignore_index)
    counted = targets != ignore_index
    logits, targets = logits[counted], targets[counted]
    shifted = logits - logits.max(axis=-1, keepdims=True)
    log_total = np.log(np.exp(shifted).sum(axis=-1))
    return (log_total - shifted[np.arange(len(targets)), targets]).mean()


def cross_entropy_backward(
    logits: Float[np.ndarray, "*B V"],
    targets: Integer[np.ndarray, "*B"],
    *,
    ignore_index: int = -100,
) -> Float[np.ndarray, "*B V"]:
    """Returns the gradient of `cross_entropy` with respect to the logits: (p − 1 at the target) / n.

    n is the number of targets that count; rows that do not count have gradient 0.

    Derived in chapter 09.

    Raises:
        ValueError: the shapes do not fit, a target is outside 0..V-1, or all
            targets are ignored.
        TypeError: the logits are not floating-point or the targets not integers.
    """
    checks.loss(logits, targets, ignore_index)
    counted = targets != ignore_index
    p = np.exp(logits - logits.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    p[counted, targets[counted]] -= 1
    p[~counted] = 0
    p /= np.count_nonzero(counted)
    return p
