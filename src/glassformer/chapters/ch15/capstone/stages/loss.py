"""The stage *loss*: one number, what a fresh model pays, and gradients compared with finite differences."""

import math
import re

import numpy as np

from glassformer.exercises.expect import Wrong

from ..adapter import GPT, NotLookedAt, Told, in_place
from ..diagnosis.backward import block_of, where_it_begins
from ..diagnosis.engine import Suspect, tell
from ..diagnosis.losses import of_losses
from ..measures.comparing import close, steady
from ..measures.gradients import Texts, gradients_of, measured, measured_loudly, of_another_name
from ..measures.slopes import Slope
from ..measures.texts import asked, log_softmax
from ..measures.trained import to_train
from .stage import Stage

loss = Stage("loss")

MATRICES = 48  # weights whose gradient is looked at, at most
FACTOR = 0.02  # relative: how far two ratios of the same factor may be apart


@loss.check("it is one number, and not below 0")
def _(gpt: GPT) -> None:
    found = gpt.number("loss", *asked(gpt))
    if not math.isfinite(found):
        raise Wrong(f"`loss` is {found}.")
    if found < 0:
        raise Told(f"`loss` is {found:.4f}.", "sign")


@loss.check("it is the average of −ln p over the right ids")
def _(gpt: GPT) -> None:
    found, right, tables = [], [], []
    for T, seed in ((12, 4), (5, 6)):
        ids, targets = asked(gpt, T, seed)
        targets[1], targets[3], ids[2], ids[4] = 0, gpt.vocab_size - 1, 0, gpt.vocab_size - 1
        logits = gpt.logits(ids)
        found.append(gpt.number("loss", ids, targets))
        right.append(-log_softmax(logits)[np.arange(T), targets].mean())
        tables.append(of_losses(logits, ids, targets, gpt.context_length))
    wrong = [i for i in (0, 1) if not close(found[i], right[i], 1e-5)]
    if not wrong:
        return
    [i, *_] = wrong
    message = f"`loss` of {(12, 5)[i]} ids is {found[i]:.5f}. According to `logits`, the average of −ln p is "
    message += f"{right[i]:.5f}."
    steady(gpt, ids)
    # One text alone may agree with a mistake by chance.
    both = (Suspect(one.mistake, np.array([one.value, its.value])) for one, its in zip(*tables, strict=True))
    tell(np.array(found), message, both, 1e-5)
    _of_several_texts(gpt, message)


def _of_several_texts(gpt: GPT, message: str) -> None:
    """Raises `Told` if several losses are the right ones times a number, or have nothing to do with the targets."""
    found, right, other = [], [], []
    for T, seed in ((12, 4), (5, 6), (16, 7), (1, 9)):
        ids, targets = asked(gpt, T, seed)
        found.append(gpt.number("loss", ids, targets))
        other.append(gpt.number("loss", ids, (targets + 1) % gpt.vocab_size))
        right.append(-log_softmax(gpt.logits(ids))[np.arange(T), targets].mean())
    if close(found, other, 1e-9):
        raise Told(f"{message} With other targets it is the same.", "loss-without-targets")
    ratios = np.array(found) / right
    if np.ptp(ratios) < 1e-4 * abs(ratios[0]):
        raise Told(
            f"{message} For several texts, yours is always {ratios[0]:.4g} times the average.", "loss-times"
        )
    one = "right" if close(found[-1], right[-1], 1e-5) else f"{found[-1]:.5f}, and should be {right[-1]:.5f}"
    raise Wrong(
        f"{message} For a text of one id it is {one}. The usual causes are targets that are cut off, shifted or "
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
    texts = Texts(gpt, ids, targets)
    weights = {name: in_place(one) for name, one in gpt.arrays("weights").items()}
    weights = {name: one for name, one in weights.items() if one is not None and one.size}
    found, again = gradients_of(texts), gradients_of(texts)
    for name, one in found.items():
        if name in again and not close(again[name], one):
            raise Told(
                f"`gradients` was called twice and gave two results for `{name}`.", "gradients-pile-up"
            )
    if texts.loss() != texts.loss():
        raise NotLookedAt("the loss of the same ids is not always the same")
    names, trained = list(weights), to_train(gpt)
    if len(names) > MATRICES:
        names = [names[i] for i in np.linspace(0, len(names) - 1, MATRICES).astype(int)]
    seen: dict[str, Slope] = {}
    for name in names:
        gradient = found.get(name)
        if gradient is not None and gradient.shape != weights[name].shape:
            raise Wrong(
                f"the gradient of `{name}` should have its shape, {weights[name].shape}; yours has {gradient.shape}."
            )
        if gradient is None and (of_another_name(weights, name, found) or name not in trained):
            continue
        seen[name] = measured(texts, weights[name], gradient)
        if gradient is None and seen[name].wrong:
            raise Told(f"`{name}` is not among `gradients`.", "no-gradient")
    measured_loudly(texts, seen, found, weights)
    wrong = [name for name, one in seen.items() if one.wrong]
    if not wrong and not any(one.agrees for one in seen.values()):
        raise NotLookedAt("the arrays that `weights` returns cannot be changed from outside")
    if wrong and all(one.found == 0 for one in seen.values()):
        raise Told(
            "the arrays that `weights` returned were changed, and the loss did not change.", "weights-copied"
        )
    if wrong:
        _tell(texts, seen, wrong, weights, found)


def _tell(texts: Texts, seen: dict[str, Slope], wrong: list[str], weights, found) -> None:  # noqa: ANN001
    """Raises `Told` about gradients that are wrong: all by one factor, or those that one line computes."""
    V, n = texts.gpt.vocab_size, len(texts.ids)
    others = [name for name in wrong if len(weights[name]) != V]
    name = max(others or wrong, key=block_of)  # the nearest to the loss
    one = seen[name]
    message = (
        f"`{name}`: along one direction the loss has a slope of {one.found:.4g}, and your gradient predicts "
    )
    message += f"{one.predicted:.4g}."
    if not found[name].any() and not one.predicted:
        raise Told(message, "no-gradient")
    ratios = np.array([seen[name].predicted / seen[name].found for name in wrong if seen[name].found])
    right = [name for name, one in seen.items() if one.agrees and not one.flat]
    if not right and len(wrong) > 1 and np.ptp(ratios) < FACTOR * abs(ratios[0]):
        message += f" Every gradient is {ratios[0]:.4g} times the slope, and the text has {n} ids."
        raise Told(message, "gradient-summed" if abs(ratios[0] - n) < FACTOR * n else "gradient-times")
    if not right and len(wrong) > 2:
        raise Told(f"{message} No other gradient agrees, either.", "gradient-of-logits")
    if not others:  # the table itself is to blame only if all others are right
        twice, (ids, times) = np.zeros(weights[name].shape, bool), np.unique(texts.ids, return_counts=True)
        twice[ids[times > 1]] = True
        gradient = gradients_of(texts).get(name)
        rows = [measured(texts, weights[name], gradient, where) for where in (twice, ~twice)]
        if rows[0].wrong and (rows[1].agrees or rows[1].flat):
            where = (
                f"in the row of id {texts.ids[0]}, which occurs twice in the text, and right in the others."
            )
            raise Told(f"`{name}`: the gradient is wrong {where}", "id-twice")
    agree = [other for other, its in seen.items() if its.agrees]
    of_one = len({re.sub(r"\d+", "", other) for other in wrong}) == 1 and len(agree) > len(wrong)
    mistake = "gradient-of-one" if of_one else "gradient"
    raise Told(f"{message} {where_it_begins(wrong, agree)}", mistake)


loss.your_own_code("loss", lambda gpt: gpt.number("loss", *asked(gpt)))
