"""The stage *model*: logits that depend on this id, on earlier ones, and on their order."""

import numpy as np

from glassformer.exercises.expect import Wrong

from ..adapter import GPT, LeaveOut, NotLookedAt, Told
from ..measures.comparing import (
    alone_and_together,
    changed_by,
    close,
    ends_alike,
    masked_sometimes,
    steady,
)
from ..measures.loud import also_loud, loud_weights
from ..measures.streams import audible, deaf, read, without_order
from ..measures.texts import some_ids
from ..words import remark
from .stage import Stage

model = Stage("model")

CUT = 0.2, 0.9  # how many logits are 0 if a ReLU has cut them off


@model.check("V numbers at each position")
def _(gpt: GPT) -> None:
    found = gpt.logits(some_ids(gpt, 12))
    if close(found.sum(axis=-1), np.ones(12)) and (found >= 0).all():
        raise Told("each row of `logits` sums to 1.", "probabilities")
    zeros = float((found == 0).mean())
    if (found >= 0).all() and CUT[0] < zeros < CUT[1]:
        raise Told(f"no logit is below 0, and {zeros:.0%} of them are exactly 0.", "logits-cut")


@model.check("the same ids give the same logits")
def _(gpt: GPT) -> None:
    steady(gpt, some_ids(gpt, 12))


@model.check("no row depends on a later id")
def _(gpt: GPT) -> None:
    _reads_itself(gpt, some_ids(gpt, 12))

    def check() -> None:
        changed_by(gpt, some_ids(gpt, 12), 7)
        for T in (2, 5, gpt.context_length):
            with masked_sometimes(T, 12):
                changed_by(gpt, some_ids(gpt, T), T - 1)

    also_loud(gpt, lambda: gpt.logits(some_ids(gpt, 12)), check)


def _reads_itself(gpt: GPT, ids: np.ndarray) -> None:
    """Raises `Wrong` if a row of logits does not depend on its own id, with any weights."""
    if 7 in changed_by(gpt, ids, 7):
        return
    with loud_weights(gpt, lambda: gpt.logits(ids)) as looked:
        if looked and 7 in changed_by(gpt, ids, 7):
            return
    message = "id 7 was replaced, and row 7 of `logits` did not change"
    if not looked and not gpt.has("learn"):
        raise LeaveOut(f"{message}, as if the head started at 0. Write `weights` or `learn` first.")
    alone_and_together(gpt, ids, some_ids(gpt, 12, 1))
    raise Wrong(f"{message}: does it read its own id?")


@model.check("the last row depends on earlier ids")
def _(gpt: GPT) -> None:
    seen, looked = read(gpt), False
    if not seen:
        with loud_weights(gpt, lambda: gpt.logits(some_ids(gpt, 12))) as looked:
            seen = read(gpt) if looked else []
    if not seen:
        alone_and_together(gpt, some_ids(gpt, 12), some_ids(gpt, 12, 1))
        message = "each earlier id was replaced in turn, and the last row of `logits` never changed."
        raise deaf(gpt, message, looked)
    if 0 not in seen:
        gpt.remark(remark("window", what="id", n=11, first=seen[0]))


@model.check("any length, from one id to the whole context")
def _(gpt: GPT) -> None:
    ids = some_ids(gpt, gpt.context_length)
    also_loud(gpt, lambda: gpt.logits(ids), lambda: ends_alike(gpt, ids))


@model.check("order matters")
def _(gpt: GPT) -> None:
    message = without_order(gpt)
    if not message:
        return
    # Positions may start at zero, as in minGPT's table or a bias for distance, or count for less than what rounds. So
    # the weights are made loud, and only a model that ignores order then, too, while it clearly reads its earlier ids,
    # has no positions.
    with loud_weights(gpt, lambda: gpt.logits(some_ids(gpt, 12))) as looked:
        message = without_order(gpt) if looked else message
        clear = looked and bool(message) and audible(gpt)
    if not message:
        return
    if clear:
        raise Told(message, "no-positions")
    if looked:
        raise NotLookedAt(
            "with your weights, and with others that were tried, a block adds so little that its order cannot be seen"
        )
    raise LeaveOut(
        f"{message} Either the positions are never used, or they start at zero. To find out, the checker has to "
        "change your weights: write `weights` or `learn` first."
    )


@model.check("texts in a batch do not influence each other")
def _(gpt: GPT) -> None:
    if not gpt.batched:
        raise NotLookedAt(
            "your adapter takes one text at a time. If yours can take several, write `batched = True`"
        )
    texts = some_ids(gpt, 9, 1), some_ids(gpt, 9, 2)
    also_loud(gpt, lambda: gpt.logits(texts[0]), lambda: alone_and_together(gpt, *texts))


model.your_own_code("logits", lambda gpt: gpt.logits(some_ids(gpt, 12)))
