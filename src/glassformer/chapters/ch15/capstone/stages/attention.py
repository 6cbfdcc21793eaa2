"""The stage *attention*: the plain formula, and right designs that do more."""

from functools import partial

import numpy as np

from glassformer.exercises.expect import Wrong

from ..adapter import GPT, Told
from ..diagnosis.formula import tell_attention
from ..measures.comparing import close, largest
from ..measures.designs import design_of, in_words, weights_of
from ..measures.formula import AHEAD, KEYS, H, K, Q, V, mixed
from ..words import remark
from .stage import Stage

attention = Stage("attention")

LOUD = 400  # makes scores of thousands


def _attend(gpt: GPT, q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool) -> np.ndarray:
    what = f"`attention` of (H, T, K) = {q.shape}"
    return gpt.array("attention", q, k, v, causal, axes="H T K", what=what, shape=v.shape)


def _compare(gpt: GPT, size: float, causal: bool, message: str) -> None:
    """Compares attention with the formula, and with the design that has been measured.

    Args:
        gpt: the reader's.
        size: by which the queries are multiplied.
        causal: whether the future is hidden.
        message: what is told, with the largest difference in the place of "{}".
    """
    attend, q = partial(_attend, gpt), size * Q
    out, want = attend(q, KEYS, V, causal), mixed(q, KEYS, V, causal)
    if close(out, want):
        return
    message = message.format(largest(out, want, "H T K"))
    if not close(attend(q, KEYS, V, causal), out):
        raise Told("the same queries, keys and values gave two different results.", "dropout-in-evaluation")
    if "design" not in gpt.notes:
        gpt.notes["design"] = design_of(attend)
    design = gpt.notes["design"]
    if design is not None and close(out, design(q, KEYS, V, causal)):
        gpt.remark(remark("attention-design", what=in_words(design.has)))
        if "far-bias" in design.has:
            gpt.remark(remark("far-bias"))
        return
    tell_attention(attend, causal, message, gpt.width if gpt.has("embed") else H * K)
    raise Wrong(
        f"{message} Compare your lines with the formula: the scores are q kᵀ, divided by √K; hidden ones become −∞; "
        "the softmax runs over the keys, the last axis; and the weights are multiplied by v."
    )


@attention.check("a query of zeros gets the average of the values")
def _(gpt: GPT) -> None:
    _compare(gpt, 0.0, False, "with q = 0 all weights should be equal, so {}")


@attention.check("the better a key matches the query, the more weight its value gets")
def _(gpt: GPT) -> None:
    _compare(gpt, 1.0, False, "the result is not softmax(q kᵀ / √K) v: {}")


@attention.check("under the causal mask, a position sees itself and the ones before it")
def _(gpt: GPT) -> None:
    _compare(gpt, 1.0, True, "with `causal`, {}")
    message = "with `causal` and q = 0, so that every score is 0, {}"
    try:
        _compare(gpt, 0.0, True, message)
    except Told:
        raise
    except Wrong as wrong:  # with other scores the mask is right
        raise Told(str(wrong).partition(" Compare your")[0], "mask-by-value") from wrong


@attention.check("large scores do no harm")
def _(gpt: GPT) -> None:
    out = _attend(gpt, LOUD * Q, KEYS, V, True)
    lost = ~np.isfinite(out).all(axis=-1)
    if lost.any():
        head, position = np.argwhere(lost)[0]
        message = (
            f"with scores in the thousands, position {position} of head {head} has numbers that are none."
        )
        raise Told(message, "softmax-overflow")
    weights = weights_of(partial(_attend, gpt), LOUD * Q, KEYS, True)
    want = mixed(LOUD * Q, KEYS, V, causal=True)
    if not close(out, want) and weights is not None and (weights[:, AHEAD] > 1e-6).any():
        # the check before has seen that among small scores it hides
        raise Told(f"with scores in the thousands, {largest(out, want, 'H T K')}", "mask-finite")
    _compare(gpt, LOUD, True, "with scores in the thousands, {}")


attention.your_own_code("attention", lambda gpt: gpt.call("attention", Q, KEYS, V, True))
