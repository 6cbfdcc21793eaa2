"""The stage *attention*: the plain formula, and right designs that do more."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from glassformer.exercises.expect import Wrong

from ..adapter import GPT, LeaveOut, Told
from ..diagnosis.engine import Suspect, tell
from ..diagnosis.formula import ALIBI, of_masks, of_scores, of_zeros
from ..measures.comparing import close, largest
from ..measures.designs import (
    FIT,
    Attend,
    bias_of,
    design_of,
    in_words,
    scale_of,
    told_if_hidden_gets_weight,
    unknown_inside,
    weights_of,
)
from ..measures.formula import AHEAD, KEYS, H, K, Q, V, mixed, softmax
from ..words import remark
from .stage import Stage

attention = Stage("attention")

LOUD = 400  # makes scores of thousands
Table = Callable[..., Iterator[Suspect]]


def _attend(gpt: GPT, q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool) -> np.ndarray:
    what = f"`attention` of (H, T, K) = {q.shape}"
    found = gpt.array("attention", q, k, v, causal, axes="H T K", what=what)
    if found.shape != v.shape:
        message = f"{what} should have the same shape; yours has shape {found.shape}"
        if found.shape == tuple(np.array(v.shape)[[1, 0, 2]]):
            raise Told(f"{message}: heads and positions are exchanged.", "axes-swapped")
        raise Wrong(f"{message}.")
    return found


def _compare(gpt: GPT, size: float, causal: bool, message: str, tables: tuple[Table, ...] = ()) -> None:
    """Compares attention with the formula, and with the design that has been measured.

    Args:
        gpt: the reader's.
        size: by which the queries are multiplied.
        causal: whether the future is hidden.
        message: what is told, with the largest difference in the place of "{}".
        tables: of the mistakes that may explain a difference.
    """
    q, hidden = size * Q, AHEAD if causal else None
    found, want = _attend(gpt, q, KEYS, V, causal), mixed(q, KEYS, V, hidden)
    if close(found, want):
        return
    attend, message = partial(_attend, gpt), message.format(largest(found, want, "H T K"))
    if not close(_attend(gpt, q, KEYS, V, causal), found):
        raise Told("the same queries, keys and values gave two different results.", "dropout-in-evaluation")
    if "design" not in gpt.notes:
        gpt.notes["design"] = design_of(attend)
    design = gpt.notes["design"]
    if design is not None and close(found, design(q, KEYS, V, causal)):
        what = in_words([one for one in design.has if one != "far-bias"])
        gpt.remark(remark("attention-design", what=what))
        if "far-bias" in design.has:
            gpt.remark(remark("far-bias"))
        return
    bias = bias_of(attend, False)
    if (
        not causal
        and bias is not None
        and close(found, softmax(q @ KEYS.swapaxes(-1, -2) / np.sqrt(K) + bias) @ V)
    ):
        return  # it has a bias, as ALiBi; the design is none because of the mask, which another check looks at
    _name(gpt, attend, found if size == 1 else _attend(gpt, Q, KEYS, V, causal), causal, message, tables)
    inside = unknown_inside(attend)
    if inside:
        raise LeaveOut(
            f"your `attention` seems to have something inside that this stage cannot judge: {in_words(inside)}. It "
            "judges only softmax(q kᵀ / √K) v. If this is on purpose, leave `attention` out of the adapter: the stages "
            "*block* and *model* check it."
        )
    raise Wrong(
        f"{message} Compare your lines with the formula: the scores are q kᵀ, divided by √K; hidden ones become −∞; "
        "the softmax runs over the keys, the last axis; and the weights are multiplied by v."
    )


def _name(
    gpt: GPT, attend: Attend, found: np.ndarray, causal: bool, message: str, tables: tuple[Table, ...]
) -> None:
    """Raises `Told` if a known mistake explains what was found, whatever bias the scores have, such as ALiBi's."""
    measured = bias_of(attend, causal)
    plain = mixed(Q, KEYS, V, AHEAD if causal else None)
    factor = float((found * plain).sum() / (plain * plain).sum())
    if np.isfinite(factor) and abs(factor) > FIT and close(found / factor, plain):
        raise Told(f"{message} All of it is {factor:.4g} times what it should be.", "attention-times")
    known = [one for one in (measured, bias_of(attend, False)) if one is not None]
    biases = [0.0, *known, ALIBI[causal], ALIBI[False]]
    for table in tables:
        for bias in biases:
            tell(found, message, table(bias))
    scale = scale_of(attend, bias_of(attend, False))
    if scale is not None and abs(scale * np.sqrt(K) - 1) > 10 * FIT:
        width = gpt.width if gpt.has("embed") else H * K
        names = {"no-scale": (1.0,), "scale-model": ((H * K) ** -0.5, width**-0.5)}
        name = next(
            (n for n, its in names.items() if any(np.isclose(scale, one, FIT) for one in its)), "other-scale"
        )
        raise Told(f"{message} Your scores are q kᵀ times {scale:.4g}; 1/√K is {K**-0.5:.4g}.", name)
    if causal:
        told_if_hidden_gets_weight(attend, message)


@attention.check("a query of zeros gets the average of the values")
def _(gpt: GPT) -> None:
    _compare(gpt, 0.0, False, "with q = 0 all weights should be equal, so {}", (of_scores,))


@attention.check("the better a key matches the query, the more weight its value gets")
def _(gpt: GPT) -> None:
    _compare(gpt, 1.0, False, "the result is not softmax(q kᵀ / √K) v: {}", (of_scores,))


@attention.check("under the causal mask, a position sees itself and the ones before it")
def _(gpt: GPT) -> None:
    _compare(gpt, 1.0, True, "with `causal`, {}", (of_masks,))
    found = _attend(gpt, 0 * Q, KEYS, V, True)
    message = "with `causal` and q = 0, so that every score is 0, {}"
    if not close(found, mixed(0 * Q, KEYS, V, AHEAD)):
        tell(found, message.format(largest(found, mixed(0 * Q, KEYS, V, AHEAD), "H T K")), of_zeros())
    _compare(gpt, 0.0, True, message, (of_masks,))


@attention.check("large scores do no harm")
def _(gpt: GPT) -> None:
    found = _attend(gpt, LOUD * Q, KEYS, V, True)
    lost = ~np.isfinite(found).all(axis=-1)
    if lost.any():
        head, position = np.argwhere(lost)[0]
        message = (
            f"with scores in the thousands, head {head} has numbers at position {position} that are none."
        )
        raise Told(message, "softmax-overflow")
    weights = weights_of(partial(_attend, gpt), LOUD * Q, KEYS, True)
    want = mixed(LOUD * Q, KEYS, V, AHEAD)
    if not close(found, want) and weights is not None and (weights[:, AHEAD] > 1e-6).any():
        # the check before has seen that among small scores it hides
        raise Told(f"with scores in the thousands, {largest(found, want, 'H T K')}", "mask-finite")
    _compare(gpt, LOUD, True, "with scores in the thousands, {}")


attention.your_own_code("attention", lambda gpt: gpt.call("attention", Q, KEYS, V, True))
