"""The stage *training*: a batch by heart, other lines of a text, and what goes wrong with single steps."""

import contextlib
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from glassformer.exercises.expect import Wrong, as_numbers

from .adapter import NotLookedAt, Own, Told, in_place
from .learning import without_one
from .lessons import learn, windows_of
from .origin import your_own_code
from .returned import (
    told_if_averaged,
    told_if_copied,
    told_if_some_change_nothing,
    told_if_stepped_twice,
    uses_its_targets,
)
from .stage import Stage, close, steady
from .steps import fresh_model, no_step_is_late, steps_follow_their_text
from .texts import log_softmax
from .trained import to_train
from .watch import always_new, keeps_gradients, optimizers_watched, tensors_below, trained_tensors
from .words import remark

training = Stage("training")

BY_HEART, FROM_TEXT = 400, 120  # steps
SAME_LOSS = 1e-5
OTHER = 0.25  # relative: dropout and smoothing change a loss by less
AGREE = 2  # steps whose losses one mistake must explain
AVERAGED = 7  # steps
FROZEN, LATER = 10, 25  # steps after which each weight has moved, and has moved again
ABOVE = 0.3  # nats above what a model pays that knows nothing, or above the first loss: more than noise
SHRUNK = 0.5  # of its first size: so small no matrix becomes by learning
STANDING = 3  # steps
OFTEN = 5  # times that an id is read
STAYS = 1e-3  # of what rows usually turn: so little is no learning
TINY = 1e-30
UNREAD = 0.95  # of the first loss: what a text still costs that no step has read
EARLY, FAR = 30, 2.0  # in its first steps, no right rate brings a fresh model above so many times ln V


@training.check("it uses the targets that it is given")
def _(own: Own) -> None:
    uses_its_targets(fresh_model(own), fresh_model(own))


@training.check("a step returns its loss")
def _(own: Own) -> None:
    own.found["first weights"], own.found["to train"] = _numbers(own), set(to_train(own))
    own.found["losses"] = []
    before, explained = None, []
    for batch in windows_of(own, 3, min(own.context_length, 16), 4):
        batch = batch if own.batched else batch[:1]
        right = _losses(own, batch)
        others = [] if before is None else [("other-batch", one) for _, one in _losses(own, before)[:1]]
        found = learn(own, batch)
        own.found["losses"].append(found)
        if not math.isfinite(found):
            raise Wrong(f"the loss is {found}.")
        before = batch
        if not right or close(found, right[0][1], SAME_LOSS):
            continue
        others += [*right[1:], ("loss-after", _losses(own, batch)[0][1])]
        explained.append([name for name, one in others if close(found, one, SAME_LOSS)])
        message = (
            f"`learn` returns {found:.5f}. According to `logits`, the loss of these ids is {right[0][1]:.5f}."
        )
        if len(explained) == AGREE:  # what is true of one step may be chance, such as with dropout
            _tell_loss(own, message, [one for one in explained[0] if one in explained[1]], batch)
            _averaged(own)
            if abs(found - right[0][1]) > OTHER * right[0][1]:
                own.remark(remark("other-loss", found=found, right=right[0][1]))
            return  # it may be measured in another way, such as with dropout


def _tell_loss(own: Own, message: str, names: list[str], batch: np.ndarray) -> None:
    """Raises `Told` if one of these mistakes, or a target that is left out, explains the losses of several steps."""
    if "loss-after" in names:  # so it is, too, if the step took the gradient of the batch before
        with contextlib.suppress(NotLookedAt):
            no_step_is_late(own)
    if names:
        raise Told(message, names[0])
    left_out = _left_out(own, batch)
    if left_out:
        raise Told(f"{message} It seems to leave out {left_out}.", "target-left-out")


def _averaged(own: Own) -> None:
    fresh = fresh_model(own)
    steady(fresh, windows_of(own, 1, min(own.context_length, 16), 1)[0, 0, :-1])
    found, right = [], []
    for batch in windows_of(own, AVERAGED, min(own.context_length, 16), 4):
        right.append(_losses(fresh, batch if own.batched else batch[:1])[0][1])
        found.append(learn(fresh, batch))
    told_if_averaged(np.array(found), np.array(right))


def _losses(own: Own, batch: np.ndarray) -> list[tuple[str, float]]:
    """Returns the loss of windows (texts, T + 1) by `logits`: the right one, and then what mistakes make of it."""
    if not own.has("logits"):
        return []
    each = []
    for text in batch:
        log_p, targets = log_softmax(own.logits(text[:-1])), text[1:]
        rows = np.arange(len(targets))
        said = -log_p[rows, targets]
        each.append(
            {
                "": said.mean(),
                "labels-unshifted": -log_p[rows, text[:-1]].mean(),
                "labels-shifted-twice": -log_p[rows[:-1], targets[1:]].mean(),
                "summed": said.sum(),
                "base-2": said.mean() / math.log(2),
                "last-target": said[-1],
                "target-left-out": said[:-1].mean(),
            }
        )
    found = [(name, float(np.mean([one[name] for one in each]))) for name in each[0]]
    if len(each) > 1:
        found += [("texts-unused", float(each[i][""])) for i in (0, -1)]
        found.append(("summed", float(np.sum([one["summed"] for one in each]))))
    return found


def _left_out(own: Own, batch: np.ndarray) -> str:
    """Returns what the losses of a few steps on a batch all leave out, or nothing."""
    left: set[str] = set()
    for step in range(3):
        log_p = np.concatenate([log_softmax(own.logits(text[:-1])) for text in batch])
        targets = batch[:, 1:].ravel()
        said, found = -log_p[np.arange(len(targets)), targets], learn(own, batch)
        same = {which for which, value in without_one(said, targets) if close(found, value, SAME_LOSS)}
        left = left & same if step else same
    return min(left, default="")


@training.check("each step follows the gradient of its own batch")
def _(own: Own) -> None:
    batches = windows_of(own, 4, min(own.context_length, 16), 4)
    steps = []
    for batch in batches[:3]:
        with optimizers_watched() as seen:
            own.found["losses"].append(learn(own, batch))
        steps.append(seen)
    told_if_copied(own)
    tensors = trained_tensors(own, steps[-1])
    kept = [keeps_gradients(tensors, lambda batch=batch: learn(own, batch)) for batch in batches[2:]]
    if all(kept):
        raise Told(
            "when a step's gradient arrives, `.grad` still has that of the step before.", "gradients-kept"
        )
    if always_new(steps):
        kind = type(steps[-1].optimizers[0]).__name__
        raise Told(f"three steps were taken by three optimizers ({kind}).", "optimizer-anew")
    told_if_stepped_twice(steps)
    try:
        steps_follow_their_text(own)
    except NotLookedAt:
        if not tensors:
            raise


@training.check("it can learn a batch by heart")
def _(own: Own) -> None:
    [batch] = windows_of(own, 1, 16, 4)
    before, below = own.found["first weights"], _below(own, batch)
    early = before
    losses, moved = [learn(own, batch)], []
    goal, blind = 0.35 * losses[0], math.log(own.vocab_size)
    while losses[-1] > goal and len(losses) < BY_HEART:
        was = _numbers(own) if len(losses) < FROZEN else {}
        losses.append(learn(own, batch))
        moved += [any(map(_differ, was.values(), _numbers(own).values()))] if was else []
        said = f"after {len(losses)} steps on one batch the loss is {losses[-1]:.4f}; it was {losses[0]:.4f}."
        if not math.isfinite(losses[-1]) or (len(losses) == 12 and losses[-1] > 2 * losses[0] + 1):
            raise _why(own, said, losses, batch)
        first, highest = own.found["losses"][0], max(own.found["losses"] + losses[:EARLY])
        is_early = len(losses) == EARLY or (len(losses) < EARLY and losses[-1] <= goal)
        if is_early and first < 1.5 * blind and highest > FAR * blind:
            message = f"at first the loss was {first:.2f}; in the next steps it jumped to {highest:.2f}. "
            message += f"A model that knows nothing has {blind:.2f}."
            raise _why(own, message, losses, batch)
        if len(losses) == 8 and max(losses) - min(losses) < 1e-6:
            raise Told(said, "no-move")
        if len(losses) == FROZEN:
            told_if_some_change_nothing(moved)
            _tie(own, before)
            for name in _unchanged(own, before, batch):
                raise Told(f"after {len(losses)} steps `{name}` is exactly what it was.", "frozen")
            _unlisted(own, below, batch, len(losses))
            early = _numbers(own)
        if len(losses) == LATER:
            stays = _unchanged(own, early, batch)
            if stays and any(map(_differ, early.values(), _numbers(own).values())):
                own.remark(remark("frozen-later", name=stays[0], first=FROZEN + 1, last=LATER))
        if len(losses) == BY_HEART // 2 and min(losses) > 0.85 * losses[0]:
            break
    first, last = losses[0], float(np.min(losses[-20:]))
    said = f"the loss on one batch went from {first:.3f} to {losses[-1]:.3f} in {len(losses)} steps."
    if last > goal:
        raise _why(own, said, losses, batch)
    if own.has("loss"):
        text = batch[0]
        judged = own.number("loss", text[:-1], text[1:])
        if judged > losses[-1] + 0.35 * first:
            steady(own, text[:-1])
            raise Told(f"{said} But `loss` on a text of that batch is {judged:.3f}.", "other-targets")
        for i, text in enumerate(batch[1:] if own.batched else (), 1):
            judged = own.number("loss", text[:-1], text[1:])
            if judged > max(losses[-1] + 0.35 * first, UNREAD * first):
                raise Told(
                    f"{said} But `loss` on text {i} of that batch is {judged:.3f}.", "text-not-learned"
                )
    if own.has("logits"):
        steady(own, batch[0][:-1])
    own.found["jumps"] = _jumps(losses)
    if "divided" in own.found:
        own.remark(remark("divided", said=own.found["divided"]))


def _unchanged(own: Own, before: dict[str, np.ndarray], batch: np.ndarray) -> list[str]:
    """Returns the names of weights that are to be trained, that are still what they were, and that matter."""
    now = _weights(own)
    return [
        name
        for name, was in before.items()
        if name in own.found["to train"]
        and not _differ(was, as_array(now[name]))
        and _matters(own, now[name], batch)
    ]


def _tie(own: Own, before: dict[str, np.ndarray]) -> None:
    """Remarks on two tables that start equal and then differ: one was copied, where tying was meant."""
    now, V = _numbers(own), own.vocab_size
    tables = [name for name, one in before.items() if one.ndim == 2 and V in one.shape and np.ptp(one) > 0]
    for i, one in enumerate(tables):
        for other in tables[i + 1 :]:
            for turned in (lambda x: x, np.transpose):
                equal = [turned(of[other]).shape == of[one].shape and np.array_equal(of[one], turned(of[other]))
                         for of in (before, now)]  # fmt: skip
                if equal == [True, False]:
                    own.remark(remark("tie-copied", one=one, other=other))


def _below(own: Own, batch: np.ndarray) -> list[tuple[Any, np.ndarray]]:
    """Returns PyTorch's tensors from which `loss` is computed, each with the numbers that it has now."""
    if not own.has("loss"):
        return []
    own.number("loss", batch[0, :-1], batch[0, 1:])  # tells an error of `loss` as what it is
    tensors = tensors_below(own.raw("loss", batch[0, :-1], batch[0, 1:]))
    return [(one, np.array(as_array(one))) for one in tensors]


def _unlisted(own: Own, below: list[tuple[Any, np.ndarray]], batch: np.ndarray, steps: int) -> None:
    """Raises `Told` if no step has changed some of the tensors from which the loss is computed."""
    same = [one for one, was in below if np.array_equal(was, as_array(one)) and _matters(own, one, batch)]
    if same:
        which = f"a tensor of shape {tuple(same[0].shape)} is exactly what it was"
        if len(same) > 1:
            which = f"{len(same)} tensors, such as one of shape {tuple(same[0].shape)}, are exactly what they were"
        raise Told(f"after {steps} steps, {which}.", "unlisted")


def _matters(own: Own, weight: Any, batch: np.ndarray) -> bool:
    """Returns whether the loss depends on a weight that did not move. On the keys' bias it does not."""
    array, text = in_place(weight), batch[0]
    if array is None or not own.has("loss"):
        return False
    return _moves_loss(own, array, ..., text[:-1], text[1:])


def _moves_loss(own: Own, array: np.ndarray, where: Any, ids: np.ndarray, targets: np.ndarray) -> bool:
    """Returns whether the loss changes when a part of an array of weights does."""
    kept = array.copy()
    before = own.number("loss", ids, targets)
    rng = np.random.default_rng(0)
    try:
        array[where] = kept[where] + rng.choice([-0.1, 0.1], size=kept[where].shape).astype(kept.dtype)
        after = own.number("loss", ids, targets)
    finally:
        array[...] = kept
    return not math.isfinite(after) or abs(after - before) > 1e-4 * max(1.0, abs(before))


def _why(own: Own, said: str, losses: list[float], batch: np.ndarray) -> Wrong:
    """Returns the failure of a model that does not learn; it has a name if a single mistake explains the numbers."""
    if "divided" in own.found:
        return own.found["divided"]
    if not math.isfinite(losses[-1]):
        return Told(said, "uphill" if _climbs(losses) else "too-fast")
    if own.has("logits") and _last_alone(own, batch):
        return Told(f"{said} In each text it has learned only the last position.", "learns-last")
    left = _shrunk(own)
    if left < SHRUNK:
        return Told(
            f"{said} Meanwhile every matrix shrank to less than {left:.0%} of the size it had at first.",
            "decay",
        )
    if _climbs(losses) and losses[-1] > losses[0] + ABOVE:
        return Told(said, "uphill")
    first, blind = own.found["losses"][0], math.log(own.vocab_size)
    highest = max(own.found["losses"] + losses)
    if highest > 2 * max(first, blind) or (_jumps(losses) and highest > max(first, blind) + ABOVE):
        return Told(said, "too-fast")
    if _stands_still(own, [batch] * STANDING):
        return Told(said, "rate-ended")
    if not _jumps(losses) and losses[-1] < losses[0]:
        return Told(said, "too-slow")
    return Wrong(
        f"{said} The usual causes are steps that are too long or too short, a gradient of something other than the "
        "loss of all positions, a decay that pulls the weights to 0, and something random in `learn`, such as targets "
        "that are shuffled or much dropout."
    )


def _last_alone(own: Own, batch: np.ndarray) -> bool:
    """Returns whether the last position of a text is known by heart, and the others no better than blindly."""
    blind, losses = math.log(own.vocab_size), []
    for text in batch if own.batched else batch[:1]:
        log_p = log_softmax(own.logits(text[:-1]))
        losses.append(-log_p[np.arange(len(log_p)), text[1:]])
    of_each = np.mean(losses, axis=0)
    return bool(of_each[-1] < 0.2 * blind and np.median(of_each[:-1]) > 0.8 * blind)


def _shrunk(own: Own) -> float:
    """Returns the largest part of its first size that a matrix has kept; 1 if that is not known."""
    now, kept = _weights(own), []
    for name, was in own.found["first weights"].items():
        size = float(np.linalg.norm(was)) if was.ndim > 1 and was.dtype.kind == "f" else 0.0
        if size and math.isfinite(size):
            kept.append(float(np.linalg.norm(as_array(now[name]))) / size)
    return max(kept, default=1.0)


def _climbs(losses: list[float]) -> bool:
    """Returns whether the loss rises from the beginning and hardly ever falls."""
    return bool((np.diff(losses[:8]) > 0).mean() > 0.8)


def _jumps(losses: list[float]) -> bool:
    """Returns whether the loss goes up and down often instead of steadily."""
    steps = np.diff(losses[: BY_HEART // 2])
    return bool((steps > 0).mean() > 0.2 and (steps < 0).mean() > 0.2)


def _stands_still(own: Own, batches: Iterable[np.ndarray]) -> bool:
    """Takes a step on each of these batches, and returns whether none of them has changed any weight."""
    was = _numbers(own)
    for batch in batches:
        learn(own, batch)
    return bool(was) and not any(map(_differ, was.values(), _numbers(own).values()))


def _weights(own: Own) -> dict:
    return own.arrays("weights") if own.has("weights") else {}


def _numbers(own: Own) -> dict[str, np.ndarray]:
    """Returns copies of the weights as they are now."""
    return {name: np.array(as_array(one)) for name, one in _weights(own).items()}


def _differ(one: np.ndarray, other: np.ndarray) -> bool:
    return not np.array_equal(one, other)


def as_array(weight: object) -> np.ndarray:
    """Returns a weight as an array."""
    return as_numbers(weight, "a weight")


@training.check("what it learns from a text holds for lines that it has not read")
def _(own: Own) -> None:
    if not own.has("loss"):
        raise NotLookedAt("your adapter has no `loss`, which would measure it")
    T = min(own.context_length, 32)
    windows = windows_of(own, FROM_TEXT + STANDING + 6, T, 4)
    blind, counts = (
        math.log(own.vocab_size),
        np.bincount(windows[:FROM_TEXT].ravel(), minlength=own.vocab_size) + 1,
    )
    counted = float(-np.log(counts / counts.sum())[windows[-6:, 0, 1:]].mean())
    found, losses = _reads(own, windows)
    if _stands_still(own, windows[FROM_TEXT : FROM_TEXT + STANDING]):
        own.remark(remark("stands-still", steps=STANDING))
    _rows_that_stay(own, windows[:FROM_TEXT, : None if own.batched else 1])
    # It may still be forgetting the batch that it knows by heart, unless another cause is known.
    if found > min(blind - 0.4, counted - 0.05) and "divided" not in own.found:
        anew, losses = _reads(fresh_model(own), windows)
        found = min(found, anew)
    said = f"after {FROM_TEXT} steps on Shakespeare, other lines cost {found:.2f}; "
    if found > blind - 0.4:
        raise _why(own, f"{said}guessing blindly costs {blind:.2f}.", losses, windows[FROM_TEXT - 1])
    if found > counted - 0.05:
        why = remark("frequencies-fast" if own.found["jumps"] else "frequencies-slow")
        own.remark(remark("frequencies", steps=FROM_TEXT, found=found, counted=counted, why=why))


def _reads(own: Own, windows: np.ndarray) -> tuple[float, list[float]]:
    """Returns what lines cost that it has not read, after steps on Shakespeare, and the losses of these steps."""
    losses = []
    for batch in windows[:FROM_TEXT]:
        losses.append(learn(own, batch))
        if not math.isfinite(losses[-1]):
            raise Told(f"the loss became {losses[-1]} on the way through Shakespeare.", "too-fast")
    return float(np.mean([own.number("loss", w[0, :-1], w[0, 1:]) for w in windows[-6:]])), losses


def _rows_that_stay(own: Own, windows: np.ndarray) -> None:
    """Raises `Told` if a table has learned the rows of the ids that were read, except one or a few."""
    V, first = own.vocab_size, own.found["first weights"]
    read = np.bincount(windows[..., :-1].ravel(), minlength=V) >= OFTEN
    for name, weight in _weights(own).items():
        was, now = first[name], np.array(as_array(weight))
        if was.ndim != 2 or len(was) != V or was.shape != now.shape:
            continue
        # Weight decay may have shortened a row. Learning turns it, too.
        length = (was * was).sum(axis=1, keepdims=True) + TINY
        turned = np.linalg.norm(now - was * (was * now).sum(axis=1, keepdims=True) / length, axis=1)
        stays = read & (turned <= STAYS * np.median(turned[read])) if read.any() else read
        array, others = in_place(weight), np.flatnonzero(read & ~stays)
        if array is None or not stays.any() or not len(others):
            continue
        id = int(np.flatnonzero(stays)[0])
        # The row of this id, and of no other: a table of positions can have as many rows.
        texts = [np.full(8, one) for one in (id, others[0])]
        if [_moves_loss(own, array, id, text, np.arange(8) % V) for text in texts] == [True, False]:
            message = f"id {id} was read often, but row {id} of `{name}` still points in the same direction as before."
            raise Told(message, "row-frozen")


your_own_code(training, "learn", lambda own: learn(own, windows_of(own, 1, 16, 4)[0]))
