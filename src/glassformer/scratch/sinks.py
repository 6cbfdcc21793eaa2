"""Sinks: a learned score for each head that takes part of the attention and has no value."""

import numpy as np

from glassformer import _checks as checks
from glassformer.scratch.attention import softmax
from glassformer.shapes import Float


def softmax_with_sinks(
    scores: Float[np.ndarray, "*B H T S"], sinks: Float[np.ndarray, " H"]
) -> Float[np.ndarray, "*B H T S"]:
    """Returns softmax over the scores of each query and one more, its head's sink, whose own share is then dropped.

    So the weights of a query sum to less than 1, and a head that finds nothing
    worth reading can read next to nothing. A query that may see no key gets zeros.

    Source: Agarwal et al. 2025, "gpt-oss-120b & gpt-oss-20b Model Card", section
    2.2; where attention goes without them: Xiao et al. 2024, "Efficient Streaming
    Language Models with Attention Sinks". Derived in chapter 16.

    Raises:
        ValueError: there is not one sink for each head.
        TypeError: `scores` is not floating-point.
    """
    checks.axes("scores", scores, "H, T, S")
    checks.one_axis("sinks", sinks, length=scores.shape[-3])
    column = np.broadcast_to(sinks[:, None, None], (*scores.shape[:-1], 1))
    return softmax(np.concatenate([scores, column], axis=-1))[..., :-1]


def sinks_backward(
    grad_scores: Float[np.ndarray, "*B H T S"],
) -> Float[np.ndarray, " H"]:
    """Maps the gradient of all scores but the sinks' to that of the sinks.

    A number that is added to all scores of a query changes nothing, so their
    gradients sum to 0: what the others lack is the sink's.

    Derived in chapter 16.
    """
    *_, H, T, S = grad_scores.shape
    return -grad_scores.reshape(-1, H, T, S).sum(axis=(0, 2, 3))
