"""The stages that learn: the loss, and training."""

import math
from typing import Any

import numpy as np

from glassformer.exercises.attempt import NotAttempted
from glassformer.exercises.expect import Wrong, as_numbers
from glassformer.text import corpus

from .adapter import Missing, Own, Told
from .reading import ids_of
from .stage import CLOSE, Stage, close, name_it, steady

loss = Stage("loss")
training = Stage("training")

NUDGE = 1e-3
MATRICES = 24  # weights whose gradient is looked at, at most
BY_HEART, FROM_TEXT = 400, 120  # steps
FROZEN = 10  # steps after which each weight has moved
WAKING = 6  # times five steps, at most


def _log_softmax(x: np.ndarray) -> np.ndarray:
    x = x - x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def _asked(own: Own, T: int = 12, seed: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Ids that nobody can predict, and what follows them."""
    ids = np.random.default_rng(seed).integers(own.vocab_size, size=T + 1)
    return ids[:-1], ids[1:]


@loss.check("one number, and not below 0")
def _(own: Own) -> None:
    found = own.number("loss", *_asked(own))
    if not math.isfinite(found):
        raise Wrong(f"`loss` is {found}.")
    if found < 0:
        raise Told(f"`loss` is {found:.4f}.", "sign")


@loss.check("the mean of −ln of what the right ids were given")
def _(own: Own) -> None:
    for T, seed in ((12, 4), (5, 6)):
        ids, targets = _asked(own, T, seed)
        targets[1], targets[3], ids[2], ids[4] = 0, own.vocab_size - 1, 0, own.vocab_size - 1
        found, logits = own.number("loss", ids, targets), own.logits(ids)
        log_p, rows = _log_softmax(logits), np.arange(T)
        said = -log_p[rows, targets]
        if close(found, said.mean(), 1e-5):
            continue
        message = f"`loss` of {T} ids is {found:.5f}. By `logits`, the mean of −ln p is {said.mean():.5f}."
        p = np.exp(log_p)
        candidates = [
            ("summed", said.sum()),
            ("base-2", said.mean() / math.log(2)),
            ("of-probability", p[rows, targets].mean()),
            ("softmax-twice", -_log_softmax(p)[rows, targets].mean()),
            ("labels-unshifted", -log_p[rows, ids].mean()),
            ("labels-shifted-twice", -log_p[rows[:-1], targets[1:]].mean()),
            ("labels-shifted-twice", -log_p[rows, np.roll(targets, -1)].mean()),
            ("labels-shifted-twice", -log_p[rows[1:], targets[:-1]].mean()),
            ("last-target", said[-1]),
        ]
        steady(own, ids)
        name_it(found, message, candidates, 1e-5)
        raise Wrong(message)


@loss.check("who knows nothing pays ln V")
def _(own: Own) -> None:
    blind = math.log(own.vocab_size)
    T = min(own.context_length, 32)
    first = float(np.mean([own.number("loss", *_asked(own, T, seed)) for seed in range(4)]))
    message = f"the first loss on random ids is {first:.2f}; ln V = ln {own.vocab_size} is {blind:.2f}."
    if first > blind + 0.75:
        raise Told(message, "first-weights")
    if first < blind - 0.3:
        raise Told(message, "knows-already")


@loss.check("its gradient is what nudging shows")
def _(own: Own) -> None:
    if not own.has("weights", "gradients"):
        return
    ids, targets = _asked(own, 8)
    ids[3] = ids[0]  # one id twice: both places add to its row's gradient
    weights = own.arrays("weights")
    found = own.arrays("gradients", ids, targets)
    rng = np.random.default_rng(0)
    of_table: tuple[str, str] | tuple = ()
    names = list(weights)
    if any(not isinstance(weight, np.ndarray) for weight in weights.values()):
        return  # torch's, and its gradients are torch's, too
    if len(names) > MATRICES:
        names = [names[i] for i in np.linspace(0, len(names) - 1, MATRICES).astype(int)]
    for name in names:
        slope, expected, size = _slopes(own, name, weights[name], found.get(name), ids, targets, rng)
        if expected is None:
            if abs(slope) > 1e-4:
                raise Told(f"`{name}` is not among `gradients`.", "no-gradient")
            continue
        if abs(slope - expected) <= 2e-3 * size + 1e-5:
            continue
        message = f"`{name}`: along one direction the loss changes by {slope:.5f}; its gradient says {expected:.5f}."
        if abs(expected) < 1e-12:
            raise Told(message, "no-gradient")
        if len(weights[name]) == own.vocab_size and not of_table:
            of_table = (name, message)  # it is the table's own fault only where all others are right
            continue
        raise Told(of_table[1] if of_table else message, "gradient")
    if of_table:
        name, message = of_table
        _by_rows(own, name, weights[name], found[name], ids, targets)
        raise Told(message, "gradient")


def _slopes(own, name, weight, gradient, ids, targets, rng):  # noqa: ANN001, ANN202 - as `_` above has them
    """Returns the loss's slope along a direction, by nudging and by the gradient, and a bound on its size."""
    way = rng.choice([-1.0, 1.0], size=weight.shape)
    slope = _slope(own, weight, way, ids, targets)
    if gradient is None:
        return slope, None, abs(slope)
    gradient = as_numbers(gradient, f"the gradient of `{name}`")
    if gradient.shape != weight.shape:
        raise Wrong(
            f"the gradient of `{name}` should have its shape, {weight.shape}; yours has {gradient.shape}."
        )
    return slope, float((gradient * way).sum()), float(np.sqrt((gradient**2).sum())) + abs(slope)


def _slope(own, weight, way, ids, targets) -> float:  # noqa: ANN001
    kept, nudge = weight.copy(), NUDGE if weight.dtype == np.float64 else 30 * NUDGE
    try:
        after, before = [_nudged(own, weight, kept, sign * nudge * way, ids, targets) for sign in (1, -1)]
    finally:
        weight[...] = kept
    return (after - before) / (2 * nudge)


def _nudged(own: Own, weight, kept, by, ids, targets) -> float:  # noqa: ANN001
    weight[...] = kept + by
    return own.number("loss", ids, targets)


def _by_rows(own, name, table, gradient, ids, targets) -> None:  # noqa: ANN001
    """Names what is wrong with the gradient of a table of ids, where some of its rows are right."""
    seen, times = np.unique(ids, return_counts=True)
    rows = {
        "twice": seen[times > 1],
        "read": seen[times == 1],
        "not read": np.setdiff1d(np.arange(len(table)), ids),
    }
    rng, wrong, scale = np.random.default_rng(1), set(), float(np.abs(gradient).max())
    for which, some in rows.items():
        way = np.zeros(table.shape)
        way[some] = rng.choice([-1.0, 1.0], size=way[some].shape)
        slope = _slope(own, table, way, ids, targets)
        if abs(slope - float((gradient * way).sum())) > 2e-3 * scale * way[some].size ** 0.5 + 1e-5:
            wrong.add(which)
    message = f"`{name}`: the gradient does not say how the loss changes"
    if wrong == {"twice"}:
        raise Told(
            f"{message} with the row of id {seen[times > 1][0]}, which stands twice in the text.", "id-twice"
        )
    of_head = bool(np.abs(gradient[rows["not read"]]).max(initial=0.0) > 0)
    if wrong and of_head != (
        "not read" in wrong
    ):  # the table is the head, too, and one of the two is missing
        which = "not read" if "not read" in wrong else "read"
        raise Told(f"{message} with the rows of ids that are {which}.", "tied-gradient-overwritten")


def _windows(own: Own, steps: int, T: int, texts: int) -> np.ndarray:
    """Windows of Shakespeare, (steps, texts, T + 1), in the reader's own ids, or in some of the checker's."""
    text = corpus()[:60_000]
    if own.has("encode"):
        ids = ids_of(own, text)
    else:
        letters = {one: i % own.vocab_size for i, one in enumerate(sorted(set(text)))}
        ids = np.array([letters[one] for one in text])
    starts = np.random.default_rng(2).integers(len(ids) - T - 1, size=(steps, texts))
    return ids[starts[..., None] + np.arange(T + 1)]


def _learn(own: Own, windows: np.ndarray) -> float:
    """A step on windows (texts, T + 1); on the first of them, where the adapter takes one text at a time."""
    if not own.batched:
        return own.number("learn", windows[0, :-1], windows[0, 1:])
    own.batched = False  # the axis of texts is there already
    try:
        return own.number("learn", windows[:, :-1], windows[:, 1:])
    finally:
        own.batched = True


def wake(own: Own, piece: str) -> None:
    """Lets it take a few steps, if it begins with zeros: what it cannot show yet could not be wrong, either.

    `piece` is what is looked at, "block" or "logits".
    """
    for _ in range(WAKING):
        try:
            if not own.has("learn") or _listens(own, piece):
                return
            for windows in _windows(own, 5, 12, 2):
                _learn(own, windows)
        except (Wrong, Missing, NotAttempted):
            return  # the checks will say it


def _listens(own: Own, piece: str) -> bool:
    """Returns whether the first position makes a difference to the last."""
    ids = _asked(own)[0]
    if piece == "logits":
        other = ids.copy()
        other[0] = (ids[0] + 1) % own.vocab_size
        ends = [own.logits(one)[-1] for one in (ids, other)]
    else:
        x = np.random.default_rng(7).normal(size=(len(ids), own.width))
        y = np.concatenate([-x[:1], x[1:]])
        ends = [own.array("block", one, axes="T D")[-1] for one in (x, y)]
    return not close(ends[0], ends[1], CLOSE)


@training.check("a step returns its loss")
def _(own: Own) -> None:
    found = _learn(own, _windows(own, 1, min(own.context_length, 16), 4)[0])
    if not math.isfinite(found):
        raise Wrong(f"the first loss is {found}.")


@training.check("it can learn a batch by heart")
def _(own: Own) -> None:
    [batch] = _windows(own, 1, 16, 4)
    before = {name: np.array(as_array(w)) for name, w in _weights(own).items()}
    losses = [_learn(own, batch)]
    goal = 0.35 * losses[0]
    while losses[-1] > goal and len(losses) < BY_HEART:
        losses.append(_learn(own, batch))
        said = f"after {len(losses)} steps on one batch the loss is {losses[-1]:.4f}; it was {losses[0]:.4f}."
        if not math.isfinite(losses[-1]) or (len(losses) == 12 and losses[-1] > 2 * losses[0] + 1):
            raise Told(said, "uphill" if _climbs(losses) else "too-fast")
        if len(losses) == 8 and max(losses) - min(losses) < 1e-6:
            raise Told(said, "no-move")
        if len(losses) == FROZEN:
            for name, was in before.items():
                weight = _weights(own)[name]
                if np.array_equal(was, np.array(as_array(weight))) and _matters(own, weight, batch):
                    raise Told(f"after {len(losses)} steps `{name}` is what it was.", "frozen")
        if len(losses) == BY_HEART // 2 and min(losses) > 0.85 * losses[0]:
            break
    first, last = losses[0], float(np.min(losses[-20:]))
    said = f"the loss on one batch went from {first:.3f} to {losses[-1]:.3f} in {len(losses)} steps."
    if last > first + 0.3:
        raise Told(said, "uphill" if _climbs(losses) else "too-fast")
    if last > goal:
        raise Told(said, "too-fast" if _jumps(losses) else "too-slow")
    if own.has("loss"):
        text = batch[0]
        judged = own.number("loss", text[:-1], text[1:])
        if judged > losses[-1] + 0.35 * first:
            steady(own, text[:-1])
            raise Told(f"{said} `loss` on a text of that batch is {judged:.3f}.", "other-targets")
    if own.has("logits"):
        steady(own, batch[0][:-1])


def _matters(own: Own, weight: Any, batch: np.ndarray) -> bool:
    """Returns whether the loss depends on a weight that did not move. It does not on a mask or the keys' bias."""
    array = weight if isinstance(weight, np.ndarray) else None
    if array is None and hasattr(weight, "detach"):
        array = weight.detach().cpu().numpy()  # on the CPU the same numbers, not a copy
    if array is None or array.dtype.kind != "f" or not own.has("loss"):
        return False
    if (
        array.ndim > 1
        and len(set(np.unique(array).tolist()) & {0.0, 1.0, -np.inf}) == len(np.unique(array)) > 1
    ):
        return False  # a mask
    kept, text = array.copy(), batch[0]
    before = own.number("loss", text[:-1], text[1:])
    rng = np.random.default_rng(0)
    try:
        array[...] = kept + rng.choice([-0.1, 0.1], size=kept.shape).astype(kept.dtype)
        after = own.number("loss", text[:-1], text[1:])
    finally:
        array[...] = kept
    return not math.isfinite(after) or abs(after - before) > 1e-4 * max(1.0, abs(before))


def _climbs(losses: list[float]) -> bool:
    """Returns whether the loss rises from the beginning and hardly ever falls."""
    return bool((np.diff(losses[:8]) > 0).mean() > 0.8)


def _jumps(losses: list[float]) -> bool:
    """Returns whether the loss goes up and down often instead of steadily."""
    steps = np.diff(losses[: BY_HEART // 2])
    return bool((steps > 0).mean() > 0.2 and (steps < 0).mean() > 0.2)


def _weights(own: Own) -> dict:
    return own.arrays("weights") if own.has("weights") else {}


def as_array(weight: object) -> np.ndarray:
    """A weight in NumPy."""
    return as_numbers(weight, "a weight")


@training.check("what it learns of a text holds where it has not read")
def _(own: Own) -> None:
    if not own.has("loss"):
        return
    T = min(own.context_length, 32)
    windows = _windows(own, FROM_TEXT + 6, T, 4)
    for batch in windows[:FROM_TEXT]:
        now = _learn(own, batch)
        if not math.isfinite(now):
            raise Told(f"the loss is {now} while it reads Shakespeare.", "too-fast")
    found = float(np.mean([own.number("loss", w[0, :-1], w[0, 1:]) for w in windows[FROM_TEXT:]]))
    blind = math.log(own.vocab_size)
    if found > blind - 0.4:
        mistake = "too-fast" if found > blind + 0.3 else "too-slow"
        raise Told(
            f"after {FROM_TEXT} steps on Shakespeare, other lines cost {found:.2f}; guessing blindly costs "
            f"{blind:.2f}.",
            mistake,
        )
