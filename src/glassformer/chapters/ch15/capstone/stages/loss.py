"""The stage *loss*: one number, what a fresh model pays, and gradients compared with finite differences."""

import math
import re
from collections.abc import Collection

import numpy as np

from glassformer.exercises.expect import Wrong
from glassformer.scratch import cross_entropy

from ..adapter import GPT, NotLookedAt, Told, in_place
from ..diagnosis.engine import Suspect, tell
from ..diagnosis.losses import of_losses
from ..measures.comparing import close, steady
from ..measures.gradients import Slope, gradients_of, slopes_of
from ..measures.texts import asked
from ..measures.trained import to_train
from .stage import Stage

loss = Stage("loss")

MATRICES = 48  # weights whose gradient is looked at, at most
FACTOR = 0.02  # relative: how far two ratios of the same factor may be apart


@loss.check("it is one number, and not below 0")
def _(gpt: GPT) -> None:
    number = gpt.number("loss", *asked(gpt))
    if not math.isfinite(number):
        raise Wrong(f"`loss` is {number}.")
    if number < 0:
        raise Told(f"`loss` is {number:.4f}.", "sign")


@loss.check("it is the average of −ln p over the right ids")
def _(gpt: GPT) -> None:
    losses, right, other, tables = [], [], [], []
    for T, seed in ((12, 4), (5, 6), (16, 7), (1, 9)):
        ids, targets = asked(gpt, T, seed)
        if T > 4:
            targets[1], targets[3], ids[2], ids[4] = 0, gpt.vocab_size - 1, 0, gpt.vocab_size - 1
        logits = gpt.logits(ids)
        losses.append(gpt.number("loss", ids, targets))
        other.append(gpt.number("loss", ids, (targets + 1) % gpt.vocab_size))
        right.append(cross_entropy(logits, targets))
        if T > 1:
            tables.append(of_losses(logits, ids, targets, gpt.context_length))
    wrong = [i for i, (one, its) in enumerate(zip(losses, right, strict=True)) if not close(one, its, 1e-5)]
    if not wrong:
        return
    i = wrong[0]
    message = f"`loss` of {(12, 5, 16, 1)[i]} ids is {losses[i]:.5f}. According to `logits`, the average of −ln p is "
    message += f"{right[i]:.5f}."
    steady(gpt, asked(gpt)[0])
    # One text alone may agree with a mistake by chance.
    rows = (Suspect(row[0][0], [value for _, value in row]) for row in zip(*tables, strict=True))
    tell(np.array(losses[:3]), message, rows, 1e-5)
    if close(losses, other, 1e-9):
        raise Told(f"{message} With other targets it is the same.", "loss-without-targets")
    ratios = np.array(losses) / right
    if np.ptp(ratios) < 1e-4 * abs(ratios[0]):
        raise Told(f"{message} Yours is always {ratios[0]:.4g} times the average.", "loss-times")
    single = "right" if 3 not in wrong else f"{losses[3]:.5f}, and should be {right[3]:.5f}"
    raise Wrong(
        f"{message} For a text of one id it is {single}. The usual causes are targets that are cut off, shifted or "
        "weighted (such as with `ignore_index`), a logarithm that is taken after the average, every row asked for all "
        "targets, logits that are changed before the softmax, and something else that is added."
    )


@loss.check("a fresh model pays about ln V")
def _(gpt: GPT) -> None:
    blind = math.log(gpt.vocab_size)
    T = min(gpt.context_length, 32)
    first = float(np.mean([gpt.number("loss", *asked(gpt, T, seed)) for seed in range(4)]))
    message = f"the first loss on random ids is {first:.2f}; ln V = ln {gpt.vocab_size} is {blind:.2f}."
    if first > blind + 0.75:
        raise Told(message, "first-weights")
    if first < blind - 0.3:
        raise Told(message, "knows-already")


@loss.check("its gradient agrees with finite differences")
def _(gpt: GPT) -> None:
    if not gpt.has("weights", "gradients"):
        raise NotLookedAt("your adapter has no `gradients`")
    ids, targets = asked(gpt, 8)
    ids[3] = ids[0]  # one id twice: both add to the gradient of its row
    weights = {name: in_place(one) for name, one in gpt.arrays("weights").items()}
    weights = {name: one for name, one in weights.items() if one is not None and one.size}
    gradients, again = (gradients_of(gpt, ids, targets) for _ in range(2))
    for name, one in gradients.items():
        if name in again and not close(again[name], one):
            message = f"`gradients` was called twice and gave two results for `{name}`."
            raise Told(message, "gradients-pile-up")
        if name in weights and one.shape != weights[name].shape:
            said = f"the gradient of `{name}` should have its shape, {weights[name].shape}"
            raise Wrong(f"{said}; yours has {one.shape}.")
    if gpt.number("loss", ids, targets) != gpt.number("loss", ids, targets):
        raise NotLookedAt("the loss of the same ids is not always the same")
    # A weight that is tied to another has its gradient under the other's name.
    tied = {
        name
        for name, one in weights.items()
        if name not in gradients
        and any(np.shares_memory(one, weights[other]) for other in gradients.keys() & weights)
    }
    names = [name for name in weights if name in gradients or (name in to_train(gpt) and name not in tied)]
    some = np.linspace(0, len(names) - 1, min(len(names), MATRICES)).astype(int)
    slopes = slopes_of(gpt, ids, targets, {names[i]: weights[names[i]] for i in some})
    wrong = [name for name, one in slopes.items() if one.wrong]
    if wrong and all(one.measured == 0 for one in slopes.values()):
        message = "the arrays that `weights` returned were changed, and the loss did not change."
        raise Told(message, "weights-copied")
    if wrong:
        _tell_where(slopes, wrong, len(ids))
    if not any(one.agrees for one in slopes.values()):
        raise NotLookedAt("the arrays that `weights` returns cannot be changed from outside")


def _tell_where(slopes: dict[str, Slope], wrong: list[str], n: int) -> None:
    """Raises `Told` about gradients that are wrong: all by one factor, or those that one line computes."""
    right = [name for name, one in slopes.items() if one.agrees]
    name = max(wrong, key=_block_of)  # the nearest to the loss
    one = slopes[name]
    message = f"`{name}`: along one direction the loss has a slope of {one.measured:.4g}, and your gradient predicts "
    message += f"{one.predicted:.4g}."
    if one.predicted == 0:
        raise Told(message, "no-gradient")
    ratios = np.array(
        [slopes[name].predicted / slopes[name].measured for name in wrong if slopes[name].measured]
    )
    if not right and len(ratios) > 1 and np.ptp(ratios) < FACTOR * abs(ratios[0]):
        message += f" Every gradient is {ratios[0]:.4g} times the slope, and the text has {n} ids."
        raise Told(message, "gradient-times")
    if not right and len(wrong) > 2:
        raise Told(f"{message} No other gradient agrees, either.", "gradient-of-logits")
    of_one = len({re.sub(r"\d+", "", name) for name in wrong}) == 1 and len(right) > len(wrong)
    raise Told(f"{message} {where_it_begins(wrong, right)}", "gradient-of-one" if of_one else "gradient")


def _block_of(name: str) -> int:
    """Returns the number of a weight's block; −1 if it belongs to none."""
    found = re.search(r"(?<![a-z0-9])\d+|(?<=[a-z_])\d+(?=[._])", name.lower())
    return int(found[0]) if found else -1


def where_it_begins(wrong: Collection[str], right: Collection[str]) -> str:
    """Returns which gradients are wrong where the backward pass goes wrong first, and which are right there."""
    last = max(map(_block_of, wrong))
    bad, good = ([one for one in some if _block_of(one) == last] for some in (wrong, right))
    where = f" in block {last}, the last block that has any" if last >= 0 else ""
    said = f"Wrong{where}: {_listed(bad)}."
    return f"{said} Right there: {_listed(good)}." if good else said


def _listed(names: Collection[str]) -> str:
    shown = ", ".join(f"`{name}`" for name in sorted(names)[:9])
    return shown if len(names) <= 9 else f"{shown} and {len(names) - 9} more"


loss.your_own_code("loss", lambda gpt: gpt.number("loss", *asked(gpt)))
