"""The stage *training*: what a single step does, a batch by heart, and other lines of a text."""

import math
import re
from typing import Any

import numpy as np

from glassformer.exercises.expect import Wrong, as_numbers
from glassformer.scratch import cross_entropy

from ..adapter import GPT, NotLookedAt, Told, in_place
from ..diagnosis.losses import of_losses
from ..measures.comparing import alone_and_together, close, steady
from ..measures.steps import fresh_model, keeps_gradients, optimizer_steps, told_if_text_is_ignored
from ..measures.texts import asked, learn, step_on, windows_of
from ..measures.trained import tensors_below, to_train, trained_tensors
from .stage import Stage

training = Stage("training")

BY_HEART, FROM_TEXT = 400, 120  # steps
SAME_LOSS = 1e-5
LEARNED = 0.4  # nats below blind guessing
FROZEN = 10  # steps after which each weight has moved
ABOVE = 0.3  # nats above the first loss: more than noise
HIGH = 1.5  # times ln V: with a first loss below it, a model is fresh
EARLY, FAR = 30, 2.0  # in its first steps, no right rate brings a fresh model above so many times ln V
LINES = 6


@training.check("each step follows the gradient of its own batch")
def _(gpt: GPT) -> None:
    batches = windows_of(gpt, 5, min(gpt.context_length, 16), 4)
    gpt.notes["losses"], calls = [], []
    for batch in batches[:3]:
        with optimizer_steps() as steps:
            _noted(gpt, learn(gpt, batch))
        calls.append(steps)
    optimizers = [[optimizer for optimizer, _ in steps] for steps in calls]
    tensors = trained_tensors(gpt, optimizers[-1])
    if all(keeps_gradients(tensors, lambda batch=batch: learn(gpt, batch)) for batch in batches[3:]):
        message = "when a step's gradient arrives, `.grad` still has that of the step before."
        raise Told(message, "gradients-kept")
    if all(optimizers):
        kind = type(optimizers[-1][0]).__name__
        if not any(remembered or not one.state for steps in calls[1:] for one, remembered in steps):
            raise Told(f"three steps were taken by three optimizers ({kind}).", "optimizer-anew")
        most = min(max(map(its.count, its)) for its in optimizers)
        if most > 1:
            raise Told(f"in one call of `learn`, {kind} takes {most} steps.", "several-steps")
    if not tensors and not gpt.has("weights"):
        raise NotLookedAt("your adapter has no `weights`")
    told_if_text_is_ignored(gpt)


def _noted(gpt: GPT, loss: float) -> float:
    """Notes the loss of one of the first steps. Raises `Wrong` if it is no number."""
    gpt.notes["losses"].append(loss)
    if not math.isfinite(loss):
        raise Wrong(f"the loss is {loss}.")
    return loss


@training.check("a step returns the loss of the targets that it is given")
def _(gpt: GPT) -> None:
    """Gives targets that have nothing to do with the ids: in a text, nobody sees whose targets are used."""
    before, explained = None, []
    texts = 4 if gpt.batched else 1
    for step in range(3):
        windows = np.stack([asked(gpt, 12, 10 * step + i)[0] for i in range(2 * texts)])
        batch = ids, targets = windows[:texts], windows[texts:]
        right = _losses(gpt, *batch)
        others = {} if before is None else {"other-batch": _losses(gpt, *before).get("", math.nan)}
        before = batch
        loss = _noted(gpt, step_on(gpt, ids, targets))
        if not right or close(loss, right[""], SAME_LOSS):
            continue
        others |= right | {"loss-after": _losses(gpt, *batch)[""]}
        explained.append([name for name, one in others.items() if close(loss, one, SAME_LOSS)])
        if len(explained) < 2:
            continue  # what is true of one step may be chance, such as with dropout
        for name in explained[0]:
            if name in explained[1]:
                message = f"`learn` returns {loss:.5f}. According to `logits`, the loss of these ids is "
                raise Told(f"{message}{right['']:.5f}.", name.partition("/")[0])
        steady(gpt, ids[0])
        return  # it may be measured in another way, such as with dropout


def _losses(gpt: GPT, ids: np.ndarray, targets: np.ndarray) -> dict[str, float]:
    """Returns what a batch (texts, T) costs by `logits`, under "", and what mistakes make of it."""
    if not gpt.has("logits"):
        return {}
    each: list[dict[str, float]] = []
    for text, its in zip(ids, targets, strict=True):
        logits = gpt.logits(text)
        rows = enumerate(of_losses(logits, text, its, gpt.context_length))
        mistaken = {f"{name}/{i}": value for i, (name, value) in rows}
        each.append({"": float(cross_entropy(logits, its))} | mistaken)
    costs = {name: float(np.mean([one[name] for one in each])) for name in each[0]}
    if len(each) > 1:
        costs |= {f"texts-unused/{i}": each[i][""] for i in (0, -1)}
        costs["summed/all"] = len(each) * costs["summed/0"]
    return costs


@training.check("it can learn a batch by heart")
def _(gpt: GPT) -> None:
    [batch] = windows_of(gpt, 1, 16, 4)
    to_move, blind = _to_move(gpt, batch), math.log(gpt.vocab_size)
    losses, moved = [learn(gpt, batch)], ""
    goal = 0.35 * losses[0]
    while losses[-1] > goal and len(losses) < BY_HEART:
        before = _numbers(gpt) if len(losses) < FROZEN else {}
        losses.append(learn(gpt, batch))
        if before:
            now = _numbers(gpt)
            moved += "01"[any(_differ(one, now.get(name)) for name, one in before.items())]
        said = f"after {len(losses)} steps on one batch the loss is {losses[-1]:.4f}; it was {losses[0]:.4f}."
        if not math.isfinite(losses[-1]) or (len(losses) == 12 and losses[-1] > 2 * losses[0] + 1):
            raise _why(gpt, said, losses)
        if len(losses) == 8 and np.ptp(losses) < 1e-6:
            raise Told(said, "no-move")
        if len(losses) == FROZEN:
            if re.search("10+1", moved):
                message = f"of {len(moved)} steps on one batch, {moved.count('0')} changed no weight."
                raise Told(message, "steps-left-out")
            _everything_moves(gpt, to_move, batch)
        if len(losses) == BY_HEART // 2 and min(losses) > 0.85 * losses[0]:
            break
    first, highest = gpt.notes["losses"][0], max(gpt.notes["losses"] + losses[:EARLY])
    if first < HIGH * blind and highest > FAR * blind:
        message = f"at first the loss was {first:.2f}; in the next steps it jumped to {highest:.2f}. "
        raise _why(gpt, f"{message}A model that knows nothing has {blind:.2f}.", losses)
    said = f"the loss on one batch went from {losses[0]:.3f} to {losses[-1]:.3f} in {len(losses)} steps."
    if np.min(losses[-20:]) > goal:
        raise _why(gpt, said, losses)
    if gpt.has("logits"):
        steady(gpt, batch[0][:-1])
    if gpt.has("loss"):
        texts = batch if gpt.batched else batch[:1]
        judged = float(np.mean([gpt.number("loss", text[:-1], text[1:]) for text in texts]))
        if judged > losses[-1] + 0.35 * losses[0]:
            alone_and_together(gpt, batch[0][:-1], batch[-1][:-1])
            raise Told(f"{said} But `loss` on that batch is {judged:.3f}.", "other-targets")


def _to_move(gpt: GPT, batch: np.ndarray) -> list[tuple[str, Any, np.ndarray]]:
    """Returns what steps should change, (name or "", array, copy): weights, and tensors from which `loss` comes."""
    arrays = list(to_train(gpt).items())
    if gpt.has("loss"):
        gpt.number("loss", batch[0, :-1], batch[0, 1:])  # tells an error of `loss` as what it is
        arrays += [("", tensor) for tensor in tensors_below(gpt.raw("loss", batch[0, :-1], batch[0, 1:]))]
    return [(name, one, np.array(as_numbers(one, "a weight"))) for name, one in arrays]


def _everything_moves(gpt: GPT, to_move: list[tuple[str, Any, np.ndarray]], batch: np.ndarray) -> None:
    """Raises `Told` if a weight, or a tensor from which the loss is computed, is what it was."""
    now = gpt.arrays("weights") if gpt.has("weights") else {}
    same = []
    for name, array, before in to_move:
        its = now.get(name, array)
        if not _differ(before, as_numbers(its, "a weight")) and _matters(gpt, its, batch):
            same.append((name, before.shape))
    if not same:
        return
    name, shape = same[0]
    if name:
        raise Told(f"after {FROZEN} steps `{name}` is exactly what it was.", "frozen")
    which = f"{len(same)} of the tensors, such as one of shape {tuple(shape)}, are exactly what they were"
    raise Told(f"after {FROZEN} steps, {which}.", "unlisted")


def _matters(gpt: GPT, weight: Any, batch: np.ndarray) -> bool:
    """Returns whether the loss depends on a weight that did not move. On the keys' bias it does not."""
    array, text = in_place(weight), batch[0]
    if array is None or not gpt.has("loss"):
        return False
    kept, before = array.copy(), gpt.number("loss", text[:-1], text[1:])
    try:
        array += np.random.default_rng(0).choice([-0.1, 0.1], size=array.shape).astype(array.dtype)
        after = gpt.number("loss", text[:-1], text[1:])
    finally:
        array[...] = kept
    return not math.isfinite(after) or abs(after - before) > 1e-4 * max(1.0, abs(before))


def _numbers(gpt: GPT) -> dict[str, np.ndarray]:
    """Returns copies of the weights as they are now."""
    weights = gpt.arrays("weights") if gpt.has("weights") else {}
    return {name: np.array(as_numbers(one, name)) for name, one in weights.items()}


def _differ(one: np.ndarray, other: np.ndarray | None) -> bool:
    return other is None or not np.array_equal(one, other)


def _why(gpt: GPT, said: str, losses: list[float]) -> Wrong:
    """Returns the failure of a model that does not learn; it has a name if a single mistake explains the numbers."""
    first, blind = gpt.notes["losses"][0], math.log(gpt.vocab_size)
    highest, changes = max(gpt.notes["losses"] + losses), np.diff(losses[: BY_HEART // 2])
    if first > HIGH * blind:
        return Told(f"{said} The first loss was {first:.2f}, and ln V is {blind:.2f}.", "first-weights")
    if (np.diff(losses[:8]) > 0).mean() > 0.8 and not losses[-1] <= losses[0] + ABOVE:
        return Told(said, "uphill")
    if not math.isfinite(losses[-1]) or highest > FAR * blind:
        return Told(said, "too-fast")
    if losses[-1] < losses[0] and (changes > 0).mean() < 0.2:
        return Told(said, "too-slow")
    return Wrong(
        f"{said} The usual causes are steps that are too long or too short, a gradient of something other than the "
        "loss of all positions, gradients that are never reset to zero, a decay that pulls the weights to 0, and "
        "something random in `learn`, such as targets that are shuffled or much dropout."
    )


@training.check("what it learns from a text holds for lines that it has not read")
def _(gpt: GPT) -> None:
    if not gpt.has("loss"):
        raise NotLookedAt("your adapter has no `loss`, which would measure it")
    V, T = gpt.vocab_size, min(gpt.context_length, 32)
    windows = windows_of(gpt, FROM_TEXT + LINES, T, 4)
    unread, losses = _reads(gpt, windows)
    if unread > math.log(V) - LEARNED:  # it may still be forgetting the batch that it knows by heart
        anew, losses = _reads(fresh_model(gpt), windows)
        unread = min(unread, anew)
    if unread > math.log(V) - LEARNED:
        said = f"after {FROM_TEXT} steps on Shakespeare, other lines cost {unread:.2f}; "
        raise _why(gpt, f"{said}guessing blindly costs {math.log(V):.2f}.", losses)


def _reads(gpt: GPT, windows: np.ndarray) -> tuple[float, list[float]]:
    """Returns what lines cost that it has not read, after steps on Shakespeare, and the losses of these steps."""
    losses = []
    for batch in windows[:FROM_TEXT]:
        losses.append(learn(gpt, batch))
        if not math.isfinite(losses[-1]):
            raise Told(f"the loss became {losses[-1]} on the way through Shakespeare.", "too-fast")
    return float(np.mean([gpt.number("loss", w[0, :-1], w[0, 1:]) for w in windows[-LINES:]])), losses


training.your_own_code("learn", lambda gpt: learn(gpt, windows_of(gpt, 1, 16, 4)[0]))
