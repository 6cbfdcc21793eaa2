"""The stage *training*: a batch by heart, other lines of a text, and what goes wrong with single steps."""

import contextlib
import math
from typing import Any

import numpy as np

from glassformer.exercises.expect import Wrong, as_numbers

from ..adapter import GPT, NotLookedAt, Told, in_place
from ..diagnosis.engine import tell
from ..diagnosis.losses import of_losses
from ..measures.comparing import alone_and_together, close, steady
from ..measures.pytorch import (
    Steps,
    always_new,
    keeps_gradients,
    optimizers_watched,
    tensors_below,
    trained_tensors,
)
from ..measures.steps import fresh_model, no_step_is_late, steps_follow_their_text, told_if_copied
from ..measures.texts import asked, learn, log_softmax, windows_of
from ..measures.trained import to_train
from ..words import remark
from .stage import Stage

training = Stage("training")

BY_HEART, FROM_TEXT = 400, 120  # steps
SAME_LOSS = 1e-5
OTHER = 0.25  # relative: dropout and smoothing change a loss by less
AGREE = 2  # steps whose losses one mistake must explain
FROZEN = 10  # steps after which each weight has moved
ABOVE = 0.3  # nats above what a model pays that knows nothing, or above the first loss: more than noise
HIGH = 1.5  # times ln V: with a first loss below it, a model is fresh
EARLY, FAR = 30, 2.0  # in its first steps, no right rate brings a fresh model above so many times ln V
LINES = 6


@training.check("it uses the targets that it is given")
def _(gpt: GPT) -> None:
    """Gives targets that have nothing to do with the ids: in a text, nobody sees whose targets are used."""
    if not gpt.has("logits"):
        return
    fresh, other = fresh_model(gpt), fresh_model(gpt)
    (ids, _), (targets, _) = asked(gpt), asked(gpt, seed=9)
    others = (targets + 1) % gpt.vocab_size
    others[-1] = targets[-1]  # a loss of the last target alone is another mistake
    logits, rows = fresh.logits(ids), np.arange(len(ids))
    log_p = log_softmax(logits)
    if abs(float((log_p[rows, targets] - log_p[rows, others]).mean())) < 1e-4:
        return  # a head that starts at 0: all targets cost the same
    found, its = fresh.number("learn", ids, targets), other.number("learn", ids, others)
    message = f"a step on targets that have nothing to do with the ids returns {found:.5f}."
    if abs(found - its) <= 1e-9 * abs(found) and round(found, 3) != found:
        raise Told(f"{message} With other targets a fresh model returns the same.", "targets-ignored")
    if not close(found, -log_p[rows, targets].mean(), SAME_LOSS):
        table = of_losses(logits, ids, targets, gpt.context_length)
        tell(found, message, (one for one in table if one.mistake == "targets-ignored"), SAME_LOSS)


@training.check("a step returns its loss")
def _(gpt: GPT) -> None:
    gpt.notes["first weights"], gpt.notes["to train"] = _numbers(gpt), set(to_train(gpt))
    gpt.notes["losses"] = []
    before, explained = None, []
    for batch in windows_of(gpt, 3, min(gpt.context_length, 16), 4):
        batch = batch if gpt.batched else batch[:1]
        right = _losses(gpt, batch)
        others = {} if before is None else {"other-batch": _losses(gpt, before).get("", math.nan)}
        found = learn(gpt, batch)
        gpt.notes["losses"].append(found)
        if not math.isfinite(found):
            raise Wrong(f"the loss is {found}.")
        before = batch
        if not right or close(found, right[""], SAME_LOSS):
            continue
        others |= right | {"loss-after": _losses(gpt, batch)[""]}
        explained.append([name for name, one in others.items() if close(found, one, SAME_LOSS)])
        if len(explained) < AGREE:
            continue  # what is true of one step may be chance, such as with dropout
        message = (
            f"`learn` returns {found:.5f}. According to `logits`, the loss of these ids is {right['']:.5f}."
        )
        names = [one for one in explained[0] if one in explained[1]]
        if "loss-after" in names and gpt.has(
            "weights"
        ):  # so it is if the step took the gradient of the batch before
            with contextlib.suppress(NotLookedAt):
                no_step_is_late(gpt)
        if names:
            raise Told(message, names[0].partition("/")[0])
        steady(gpt, batch[0][:-1])
        if abs(found - right[""]) > OTHER * right[""]:
            gpt.remark(remark("other-loss", found=found, right=right[""]))
        return  # it may be measured in another way, such as with dropout


def _losses(gpt: GPT, batch: np.ndarray) -> dict[str, float]:
    """Returns the loss of windows (texts, T + 1) by `logits`, under "", and then what mistakes make of it."""
    if not gpt.has("logits"):
        return {}
    each: list[dict[str, float]] = []
    for text in batch:
        logits, targets = gpt.logits(text[:-1]), text[1:]
        of_text = {"": float(-log_softmax(logits)[np.arange(len(targets)), targets].mean())}
        for i, one in enumerate(of_losses(logits, text[:-1], targets, gpt.context_length)):
            if one.mistake != "targets-ignored":  # in a text, these are the same, and it was looked at before
                of_text[f"{one.mistake}/{i}"] = float(np.asarray(one.value))
        each.append(of_text)
    found = {name: float(np.mean([one[name] for one in each])) for name in each[0]}
    if len(each) > 1:
        found |= {f"texts-unused/{i}": each[i][""] for i in (0, -1)}
        found["summed/all"] = sum(
            value for one in each for name, value in one.items() if name.startswith("summed")
        )
    return found


@training.check("each step follows the gradient of its own batch")
def _(gpt: GPT) -> None:
    batches = windows_of(gpt, 4, min(gpt.context_length, 16), 4)
    steps = []
    for batch in batches[:3]:
        with optimizers_watched() as seen:
            gpt.notes["losses"].append(learn(gpt, batch))
        steps.append(seen)
    told_if_copied(gpt)
    tensors = trained_tensors(gpt, steps[-1])
    kept = [keeps_gradients(tensors, lambda batch=batch: learn(gpt, batch)) for batch in batches[2:]]
    if all(kept):
        raise Told(
            "when a step's gradient arrives, `.grad` still has that of the step before.", "gradients-kept"
        )
    if always_new(steps):
        raise Told(f"three steps were taken by three optimizers ({_kind(steps)}).", "optimizer-anew")
    counts = [max((one.optimizers.count(each) for each in one.optimizers), default=0) for one in steps]
    if min(counts) > 1:
        raise Told(f"in one call of `learn`, {_kind(steps)} takes {min(counts)} steps.", "several-steps")
    try:
        steps_follow_their_text(gpt)
    except NotLookedAt:
        if not tensors:
            raise


def _kind(steps: list[Steps]) -> str:
    return type(steps[-1].optimizers[0]).__name__


@training.check("it can learn a batch by heart")
def _(gpt: GPT) -> None:
    [batch] = windows_of(gpt, 1, 16, 4)
    before, below, blind = gpt.notes["first weights"], _below(gpt, batch), math.log(gpt.vocab_size)
    losses, moved = [learn(gpt, batch)], []
    goal = 0.35 * losses[0]
    while losses[-1] > goal and len(losses) < BY_HEART:
        was = _numbers(gpt) if len(losses) < FROZEN else {}
        losses.append(learn(gpt, batch))
        moved += [any(map(_differ, was.values(), _numbers(gpt).values()))] if was else []
        said = f"after {len(losses)} steps on one batch the loss is {losses[-1]:.4f}; it was {losses[0]:.4f}."
        if not math.isfinite(losses[-1]) or (len(losses) == 12 and losses[-1] > 2 * losses[0] + 1):
            raise _why(gpt, said, losses)
        if len(losses) == 8 and np.ptp(losses) < 1e-6:
            raise Told(said, "no-move")
        if len(losses) == FROZEN:
            _every_step_moves(moved)
            _every_weight_moves(gpt, before, below, batch)
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
    if not gpt.has("loss"):
        return
    for i, text in enumerate(batch if gpt.batched else batch[:1]):
        judged = gpt.number("loss", text[:-1], text[1:])
        if judged > losses[-1] + 0.35 * losses[0] and (i == 0 or judged > 0.95 * losses[0]):
            alone_and_together(gpt, batch[0][:-1], batch[-1][:-1])
            raise Told(f"{said} But `loss` on text {i} of that batch is {judged:.3f}.", "other-targets")


def _every_step_moves(moved: list[bool]) -> None:
    """Raises `Told` if a step that changes weights is followed by one that does not, and later by one that does."""
    between = moved[moved.index(True) : len(moved) - moved[::-1].index(True)] if True in moved else []
    if not all(between):
        which = ", ".join(str(i) for i, one in enumerate(moved, 1) if not one)
        raise Told(
            f"of {len(moved)} steps on one batch, those with these numbers changed no weight: {which}.",
            "steps-left-out",
        )


def _every_weight_moves(
    gpt: GPT, before: dict[str, np.ndarray], below: list[tuple[Any, np.ndarray]], batch: np.ndarray
) -> None:
    """Raises `Told` if a weight that is to be trained is what it was, or a tensor from which the loss is computed."""
    now = _weights(gpt)
    for name, was in before.items():
        stays = name in gpt.notes["to train"] and not _differ(was, as_numbers(now[name], name))
        if stays and _matters(gpt, now[name], batch):
            raise Told(f"after {FROZEN} steps `{name}` is exactly what it was.", "frozen")
    same = [
        one
        for one, was in below
        if not _differ(was, as_numbers(one, "a tensor")) and _matters(gpt, one, batch)
    ]
    if same:
        which = f"{len(same)} of the tensors, such as one of shape {tuple(same[0].shape)}, are exactly what they were"
        raise Told(f"after {FROZEN} steps, {which}.", "unlisted")


def _below(gpt: GPT, batch: np.ndarray) -> list[tuple[Any, np.ndarray]]:
    """Returns PyTorch's tensors from which `loss` is computed, each with the numbers that it has now."""
    if not gpt.has("loss"):
        return []
    gpt.number("loss", batch[0, :-1], batch[0, 1:])  # tells an error of `loss` as what it is
    tensors = tensors_below(gpt.raw("loss", batch[0, :-1], batch[0, 1:]))
    return [(one, np.array(as_numbers(one, "a tensor"))) for one in tensors]


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


def _weights(gpt: GPT) -> dict[str, Any]:
    return gpt.arrays("weights") if gpt.has("weights") else {}


def _numbers(gpt: GPT) -> dict[str, np.ndarray]:
    """Returns copies of the weights as they are now."""
    return {name: np.array(as_numbers(one, name)) for name, one in _weights(gpt).items()}


def _differ(one: np.ndarray, other: np.ndarray) -> bool:
    return not np.array_equal(one, other)


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
        "loss of all positions, a decay that pulls the weights to 0, and something random in `learn`, such as targets "
        "that are shuffled or much dropout."
    )


@training.check("what it learns from a text holds for lines that it has not read")
def _(gpt: GPT) -> None:
    if not gpt.has("loss"):
        raise NotLookedAt("your adapter has no `loss`, which would measure it")
    V, T = gpt.vocab_size, min(gpt.context_length, 32)
    windows = windows_of(gpt, FROM_TEXT + LINES, T, 4)
    counts = np.bincount(windows[:FROM_TEXT].ravel(), minlength=V) + 1
    counted = float(-np.log(counts / counts.sum())[windows[-LINES:, 0, 1:]].mean())
    enough = min(math.log(V) - 0.4, counted - 0.05)
    found, losses = _reads(gpt, windows)
    if found > enough:  # it may still be forgetting the batch that it knows by heart
        anew, losses = _reads(fresh_model(gpt), windows)
        found = min(found, anew)
    said = f"after {FROM_TEXT} steps on Shakespeare, other lines cost {found:.2f}; "
    if found > math.log(V) - 0.4:
        raise _why(gpt, f"{said}guessing blindly costs {math.log(V):.2f}.", losses)
    if found > enough:
        gpt.remark(remark("frequencies", steps=FROM_TEXT, found=found, counted=counted))


def _reads(gpt: GPT, windows: np.ndarray) -> tuple[float, list[float]]:
    """Returns what lines cost that it has not read, after steps on Shakespeare, and the losses of these steps."""
    losses = []
    for batch in windows[:FROM_TEXT]:
        losses.append(learn(gpt, batch))
        if not math.isfinite(losses[-1]):
            raise Told(f"the loss became {losses[-1]} on the way through Shakespeare.", "too-fast")
    return float(np.mean([gpt.number("loss", w[0, :-1], w[0, 1:]) for w in windows[-LINES:]])), losses


training.your_own_code("learn", lambda gpt: learn(gpt, windows_of(gpt, 1, 16, 4)[0]))
