"""The stage *loss*: one number, what a fresh model pays, and gradients compared with finite differences."""

import math

import numpy as np

from glassformer.exercises.expect import Wrong, as_numbers

from .adapter import Own, Told
from .origin import your_own_code
from .stage import Stage, close, name_it, steady

loss = Stage("loss")

NUDGE = 1e-3
SMOOTHING = (0.05, 0.1, 0.2)  # the usual parts of a target that go to all ids
MATRICES = 24  # weights whose gradient is looked at, at most


def _log_softmax(x: np.ndarray) -> np.ndarray:
    x = x - x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def asked(own: Own, T: int = 12, seed: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Returns random ids, which nothing can predict, and those that follow them."""
    ids = np.random.default_rng(seed).integers(own.vocab_size, size=T + 1)
    return ids[:-1], ids[1:]


@loss.check("it is one number, and not below 0")
def _(own: Own) -> None:
    found = own.number("loss", *asked(own))
    if not math.isfinite(found):
        raise Wrong(f"`loss` is {found}.")
    if found < 0:
        raise Told(f"`loss` is {found:.4f}.", "sign")


@loss.check("it is the average of −ln p over the right ids")
def _(own: Own) -> None:
    for T, seed in ((12, 4), (5, 6)):
        ids, targets = asked(own, T, seed)
        targets[1], targets[3], ids[2], ids[4] = 0, own.vocab_size - 1, 0, own.vocab_size - 1
        found, logits = own.number("loss", ids, targets), own.logits(ids)
        log_p, rows = _log_softmax(logits), np.arange(T)
        said = -log_p[rows, targets]
        if close(found, said.mean(), 1e-5):
            continue
        message = f"`loss` of {T} ids is {found:.5f}. According to `logits`, the average of −ln p is {said.mean():.5f}."
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
        if any(_smoothed(own, part) for part in SMOOTHING):
            raise Told(message, "label-smoothing")
        raise Wrong(message)


def _smoothed(own: Own, part: float) -> bool:
    """Returns whether the loss of several texts gives this part of each target to all ids equally."""
    for T, seed in ((12, 4), (5, 6), (16, 7), (9, 8)):
        ids, targets = asked(own, T, seed)
        log_p = _log_softmax(own.logits(ids))
        said = -(1 - part) * log_p[np.arange(T), targets].mean() - part * log_p.mean()
        if not close(own.number("loss", ids, targets), said, 1e-5):
            return False
    return True


@loss.check("a fresh model pays about ln V")
def _(own: Own) -> None:
    blind = math.log(own.vocab_size)
    T = min(own.context_length, 32)
    first = float(np.mean([own.number("loss", *asked(own, T, seed)) for seed in range(4)]))
    message = f"the first loss on random ids is {first:.2f}; ln V = ln {own.vocab_size} is {blind:.2f}."
    if first > blind + 0.75:
        raise Told(message, "first-weights")
    if first < blind - 0.3:
        raise Told(message, "knows-already")


@loss.check("its gradient agrees with finite differences")
def _(own: Own) -> None:
    if not own.has("weights", "gradients"):
        return
    ids, targets = asked(own, 8)
    ids[3] = ids[0]  # one id twice: both add to the gradient of its row
    weights = own.arrays("weights")
    found = own.arrays("gradients", ids, targets)
    found = {name: np.array(as_numbers(one, f"the gradient of `{name}`")) for name, one in found.items()}
    again = own.arrays("gradients", ids, targets)
    for name, one in found.items():
        if name in again and not close(as_numbers(again[name], f"the gradient of `{name}`"), one):
            raise Told(f"`gradients`, called twice: `{name}` differs.", "gradients-pile-up")
    rng = np.random.default_rng(0)
    of_table: tuple[str, str] | tuple = ()
    names = list(weights)
    if any(not isinstance(weight, np.ndarray) for weight in weights.values()):
        return  # torch's weights, whose gradients are torch's, too
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
        message = f"`{name}`: along one direction the slope of the loss is {slope:.5f}, and by its gradient "
        message += f"{expected:.5f}."
        if abs(expected) < 1e-12:
            raise Told(message, "no-gradient")
        if len(weights[name]) == own.vocab_size and not of_table:
            of_table = (name, message)  # the table itself is to blame only if all others are right
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
    """Names what is wrong with the gradient of a table of ids, if some of its rows are right."""
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
    message = f"`{name}`: the gradient is wrong"
    if wrong == {"twice"}:
        raise Told(
            f"{message} in the row of id {seen[times > 1][0]}, which occurs twice in the text.", "id-twice"
        )
    of_head = bool(np.abs(gradient[rows["not read"]]).max(initial=0.0) > 0)
    if wrong and of_head != (
        "not read" in wrong
    ):  # the table is the head, too, and one of the two is missing
        which = "not read" if "not read" in wrong else "read"
        raise Told(f"{message} in the rows of ids that are {which}.", "tied-gradient-overwritten")


your_own_code(loss, "loss", lambda own: own.number("loss", *asked(own)))
