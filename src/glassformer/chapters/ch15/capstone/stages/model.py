"""The stage *model*: logits that depend on this id, on earlier ones, and on their order."""

from glassformer.exercises.attempt import NotAttempted
from glassformer.exercises.expect import Wrong

from ..adapter import GPT, NotLookedAt, Told
from ..measures.comparing import alone_and_together, close, steady
from ..measures.loud import also_loud, loud_weights
from ..measures.rows import audible, of_model, without_order
from ..measures.texts import some_ids
from .stage import Stage

model = Stage("model")

CUT = 0.2, 0.9  # how many logits are 0 if a ReLU has cut them off


@model.check("V numbers at each position")
def _(gpt: GPT) -> None:
    logits = gpt.logits(some_ids(gpt, 12))
    if close(logits.sum(axis=-1), 1 + 0 * logits[:, 0]) and (logits >= 0).all():
        raise Told("each row of `logits` sums to 1.", "probabilities")
    zeros = float((logits == 0).mean())
    if (logits >= 0).all() and CUT[0] < zeros < CUT[1]:
        raise Told(f"no logit is below 0, and {zeros:.0%} of them are exactly 0.", "logits-cut")


@model.check("the same ids give the same logits")
def _(gpt: GPT) -> None:
    steady(gpt, some_ids(gpt, 12))


@model.check("no row depends on a later id")
def _(gpt: GPT) -> None:
    ids, rows = some_ids(gpt, 12), of_model(gpt)
    if 7 not in rows.changed(ids, 7):
        with loud_weights(gpt, lambda: gpt.logits(ids)) as looked:
            reads_itself = looked and 7 in rows.changed(ids, 7)
        message = "id 7 was replaced, and row 7 of `logits` did not change"
        if not looked and not gpt.has("learn"):
            raise NotAttempted(f"{message}, as if the head started at 0. Write `weights` or `learn` first.")
        if not reads_itself:
            alone_and_together(gpt, ids, some_ids(gpt, 12, 1))
            raise Wrong(f"{message}: does it read its own id?")
    lengths = 2, 5, gpt.context_length
    also_loud(gpt, lambda: gpt.logits(ids), lambda: rows.see_nothing_later(12, 7, lengths))


@model.check("the last row depends on earlier ids")
def _(gpt: GPT) -> None:
    message = "each earlier id was replaced in turn, and the last row of `logits` never changed."
    try:
        of_model(gpt).told_if_deaf(12, message)
    except Told:
        alone_and_together(gpt, some_ids(gpt, 12), some_ids(gpt, 12, 1))
        raise


@model.check("any length, from one id to the whole context")
def _(gpt: GPT) -> None:
    ids = some_ids(gpt, gpt.context_length)
    also_loud(gpt, lambda: gpt.logits(ids), lambda: of_model(gpt).end_alike(ids))


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
    if clear:
        raise Told(message, "no-positions")
    if message and looked:
        raise NotLookedAt(
            "with your weights, and others that were tried, a block adds too little to show an order"
        )
    if message:
        raise NotAttempted(
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
