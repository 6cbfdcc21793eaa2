"""The stage *loss*: one number, what a fresh model pays, and gradients compared with finite differences."""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from glassformer.exercises.expect import Wrong, as_numbers

from .adapter import NotLookedAt, Own, Told, in_place
from .culprits import block_of, culprit
from .louder import loud_weights
from .origin import your_own_code
from .slopes import Slope, slope, ways
from .stage import Stage, close, name_it, steady
from .texts import asked, log_softmax
from .trained import to_train

loss = Stage("loss")

SMOOTHING = (0.05, 0.1, 0.2)  # the usual parts of a target that go to all ids
MATRICES = 48  # weights whose gradient is looked at, at most
AGAIN = 6  # of these are looked at again at other weights
LOUDER = 0.1  # by how much all weights are moved then; those that are all alike, such as gains of 1, more
FACTOR = 0.02  # relative: how far two ratios of the same factor may be apart


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
        log_p, rows = log_softmax(logits), np.arange(T)
        said = -log_p[rows, targets]
        if close(found, said.mean(), 1e-5):
            continue
        message = f"`loss` of {T} ids is {found:.5f}. According to `logits`, the average of −ln p is {said.mean():.5f}."
        p = np.exp(log_p)
        candidates = [
            ("summed", said.sum()),
            ("divided-by-context", said.sum() / own.context_length),
            ("base-2", said.mean() / math.log(2)),
            ("logits-reshaped", -log_softmax(logits.reshape(-1, T).T)[rows, targets].mean()),
            ("of-probability", p[rows, targets].mean()),
            ("softmax-twice", -log_softmax(p)[rows, targets].mean()),
            ("labels-unshifted", -log_p[rows, ids].mean()),
            ("labels-shifted-twice", -log_p[rows[:-1], targets[1:]].mean()),
            ("labels-shifted-twice", -log_p[rows, np.roll(targets, -1)].mean()),
            ("labels-shifted-twice", -log_p[rows[1:], targets[:-1]].mean()),
            ("last-target", said[-1]),
            ("squared-error", ((p - np.eye(own.vocab_size)[targets]) ** 2).mean()),
            ("perplexity", np.exp(said.mean())),
            *(("softmax-over-positions", value) for value in _over_positions(logits, targets)),
            *(("no-logarithm", value) for value in _without_log(logits, targets)),
        ]
        steady(own, ids)
        name_it(found, message, candidates, 1e-5)
        if any(_smoothed(own, part) for part in SMOOTHING):
            raise Told(message, "label-smoothing")
        _compared(own, message)
        left_out = _left_out(own, targets)
        if left_out:
            raise Told(f"{message} It seems to leave out {left_out}.", "target-left-out")
        _of_one_id(own, message)
        raise Wrong(
            f"{message} The usual causes are targets that are cut off, shifted or weighted, logits that are changed "
            "before the softmax, and something else that is added."
        )


def _over_positions(logits: np.ndarray, targets: np.ndarray) -> Iterator[float]:
    """Yields losses whose softmax runs over the positions, also if the largest logit of each row was subtracted."""
    for z in (logits, logits - logits.max(axis=-1, keepdims=True)):
        yield -log_softmax(z.T).T[np.arange(len(z)), targets].mean()


def _without_log(logits: np.ndarray, targets: np.ndarray) -> Iterator[float]:
    """Yields losses that subtract the sum of the exponentials and not its logarithm."""
    for z in (logits, logits - logits.max(axis=-1, keepdims=True)):
        yield float((np.exp(z).sum(axis=-1) - z[np.arange(len(z)), targets]).mean())


def _compared(own: Own, message: str) -> None:
    """Raises `Told` if the losses of several texts are the right ones times or plus a number, or of scaled logits."""
    found, right, scaled = [], [], []
    factors = (0.5, 2.0, 0.1, 10.0, own.vocab_size**-0.5, own.vocab_size**0.5)
    for T, seed in ((12, 4), (5, 6), (16, 7), (9, 8)):
        ids, targets = asked(own, T, seed)
        logits, at = own.logits(ids), (np.arange(T), targets)
        found.append(own.number("loss", ids, targets))
        right.append(-log_softmax(logits)[at].mean())
        scaled.append([-log_softmax(factor * logits)[at].mean() for factor in factors])
    ratios, gaps = np.array(found) / right, np.array(found) - right
    if np.ptp(ratios) < 1e-4 * abs(ratios[0]):
        more = f" For several texts, yours is always {ratios[0]:.4g} times the average."
        raise Told(f"{message}{more}", "loss-times")
    if np.ptp(gaps) < 1e-4 * abs(gaps[0]) and abs(gaps[0]) > 1e-3:
        raise Told(
            f"{message} For several texts, yours is always {gaps[0]:.4g} more than the average.", "loss-plus"
        )
    for factor, values in zip(factors, np.transpose(scaled), strict=True):
        if close(found, values, 1e-5):
            raise Told(f"{message} The logits seem to be multiplied by {factor:.3g}.", "loss-of-scaled")


def _of_one_id(own: Own, message: str) -> None:
    """Raises `Told` about a loss that has no target, that is wrong for a single id, or only as an average."""
    ids, targets = asked(own)
    losses = [own.number("loss", ids, (targets + more) % own.vocab_size) for more in range(4)]
    if np.ptp(losses) < 1e-9 * abs(losses[0]):
        raise Told(f"{message} With other targets it is the same.", "loss-without-targets")
    found, right = [], []
    for seed in range(6):
        [one], [target] = asked(own, 1, seed)
        right.append(float(-log_softmax(own.logits(np.array([one])))[0, target]))
        found.append(own.number("loss", np.array([one]), np.array([target])))
    if all(close(one, its, 1e-5) for one, its in zip(found, right, strict=True)):
        raise Told(f"{message} For a text of one id it is right.", "loss-not-average")
    raise Told(
        f"{message} Even for a text of one id it is {found[0]:.5f}, and should be {right[0]:.5f}.",
        "loss-other-function",
    )


def without_one(said: np.ndarray, targets: np.ndarray) -> Iterator[tuple[str, float]]:
    """Yields what is left out, and the loss without it: the targets of one id, or the target at one end."""
    for id in np.unique(targets):
        kept = said[targets != id]
        for all_the_same, count in (
            ("", len(kept)),
            (" (but not from the number that it divides by)", len(said)),
        ):
            yield f"the targets that are id {id}{all_the_same}", kept.sum() / max(1, count)
    yield from (("the first target", said[1:].mean()), ("the last target", said[:-1].mean()))


def _left_out(own: Own, targets: np.ndarray) -> str:
    """Returns what the losses of several texts with these targets all leave out, or nothing."""
    left = {which for which, _ in without_one(np.zeros(len(targets)), targets)}
    for seed in (4, 6, 7):
        ids, _ = asked(own, len(targets), seed)
        said = -log_softmax(own.logits(ids))[np.arange(len(ids)), targets]
        found = own.number("loss", ids, targets)
        left &= {which for which, value in without_one(said, targets) if close(found, value, 1e-5)}
    return min(left, default="")


def _smoothed(own: Own, part: float) -> bool:
    """Returns whether the loss of several texts gives this part of each target to all ids equally."""
    for T, seed in ((12, 4), (5, 6), (16, 7), (9, 8)):
        ids, targets = asked(own, T, seed)
        log_p = log_softmax(own.logits(ids))
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
        raise NotLookedAt("your adapter has no `gradients`")
    ids, targets = asked(own, 8)
    ids[3] = ids[0]  # one id twice: both add to the gradient of its row
    weights = {name: in_place(one) for name, one in own.arrays("weights").items()}
    weights = {name: one for name, one in weights.items() if one is not None and one.size}
    found = _gradients(own, ids, targets)
    again = _gradients(own, ids, targets)
    for name, one in found.items():
        if name in again and not close(again[name], one):
            raise Told(
                f"`gradients` was called twice and gave two results for `{name}`.", "gradients-pile-up"
            )
    if own.number("loss", ids, targets) != own.number("loss", ids, targets):
        raise NotLookedAt("the loss of the same ids is not always the same")
    names, trained = list(weights), to_train(own)
    if len(names) > MATRICES:
        names = [names[i] for i in np.linspace(0, len(names) - 1, MATRICES).astype(int)]
    seen = {}
    for name in names:
        gradient = found.get(name)
        if gradient is not None and gradient.shape != weights[name].shape:
            raise Wrong(
                f"the gradient of `{name}` should have its shape, {weights[name].shape}; yours has {gradient.shape}."
            )
        if gradient is None and (_of_another_name(weights, name, found) or name not in trained):
            continue
        seen[name] = _measured(own, weights[name], gradient, ids, targets)
        if gradient is None and seen[name].wrong:
            raise Told(f"`{name}` is not among `gradients`.", "no-gradient")
    if any(one.wrong for one in seen.values()):
        _seen_clearly(own, seen, found, weights, ids, targets)
    else:
        clear = [name for name, one in seen.items() if one.agrees and name in found]
        unclear = [name for name, one in seen.items() if not one.agrees and name in found]
        some = (
            [clear[i] for i in {*np.linspace(0, len(clear) - 1, AGAIN).astype(int).tolist()}] if clear else []
        )
        _louder(own, seen, found, unclear + some, weights, ids, targets)
    wrong = [name for name, one in seen.items() if one.wrong]
    if not wrong:
        if not any(one.agrees for one in seen.values()):
            raise NotLookedAt("the arrays that `weights` returns cannot be changed from outside")
        return
    if all(one.found == 0 for one in seen.values()):
        raise Told(
            "the arrays that `weights` returned were changed, and the loss did not change.", "weights-copied"
        )
    _tell(own, seen, wrong, weights, found, ids, targets)


def _of_another_name(weights: dict[str, np.ndarray], name: str, found: dict[str, np.ndarray]) -> bool:
    """Returns whether a weight is tied to another, under whose name its gradient is."""
    return any(
        other in found and np.shares_memory(weights[name], weights[other])
        for other in weights
        if other != name
    )


def _gradients(own: Own, ids: np.ndarray, targets: np.ndarray) -> dict[str, np.ndarray]:
    found = own.arrays("gradients", ids, targets)
    return {
        name: np.array(as_numbers(one, f"the gradient of `{name}`"), dtype=np.float64)
        for name, one in found.items()
        if one is not None  # PyTorch's, of a weight that the loss does not reach
    }


def _measured(own: Own, weight, gradient, ids, targets, where=None) -> Slope:  # noqa: ANN001
    """Returns the slope along the first direction in which a gradient is certainly wrong, twice; else along any."""
    gradient = np.zeros(weight.shape) if gradient is None else gradient
    found = Slope(0.0, 0.0, np.inf, agrees=False)
    for first, second in zip(ways(gradient, where), ways(gradient, where, seed=1), strict=True):
        found = slope(lambda: own.number("loss", ids, targets), weight, first, gradient)
        if found.wrong and slope(lambda: own.number("loss", ids, targets), weight, second, gradient).wrong:
            return found
    return found if found.agrees else replace(found, error=np.inf)  # it is not certain


def _louder(own: Own, seen: dict[str, Slope], found, unclear: list[str], weights, ids, targets) -> None:  # noqa: ANN001
    """Measures slopes again at other weights: all are moved, and moved back.

    Some slopes cannot be seen at the first weights, such as those of queries while scores are tiny. And some mistakes
    cannot, such as a gain that is left out while all gains are 1. A backward pass that is right is so at any weights.
    """
    kept, rng = {name: one.copy() for name, one in weights.items()}, np.random.default_rng(8)
    try:
        for one in weights.values():
            size = LOUDER if np.ptp(one) else 5 * LOUDER
            one += (size * rng.normal(size=one.shape)).astype(one.dtype)
        louder = _gradients(own, ids, targets)
        looked = list(unclear)
        for name in looked:
            again = _measured(own, weights[name], louder.get(name), ids, targets)
            if again.wrong:
                seen[name], found[name] = again, louder.get(name, 0 * weights[name])
                looked += [one for one in seen if one in louder and one not in looked]  # to compare them all
    finally:
        for name, one in weights.items():
            one[...] = kept[name]


def _seen_clearly(own: Own, seen: dict[str, Slope], found, weights, ids, targets) -> None:  # noqa: ANN001
    """Measures all slopes again at loud weights, where each can be seen, if gradients are wrong there, too."""
    with loud_weights(own, lambda: own.logits(ids)) as changed:
        if not changed:
            return
        louder = _gradients(own, ids, targets)
        again = {
            name: _measured(own, weights[name], louder.get(name), ids, targets)
            for name in seen
            if louder.get(name) is None or louder[name].shape == weights[name].shape
        }
    if any(one.wrong for one in again.values()):
        seen |= again
        for name in again:
            found.setdefault(name, np.zeros(weights[name].shape))


def _tell(own: Own, seen: dict[str, Slope], wrong: list[str], weights, found, ids, targets) -> None:  # noqa: ANN001
    """Raises `Told` about gradients that are wrong: all by one factor, or those of a table of ids, or any."""
    others = [name for name in wrong if len(weights[name]) != own.vocab_size]
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
        message += f" Every gradient is {ratios[0]:.4g} times the slope, and the text has {len(ids)} ids."
        raise Told(
            message, "gradient-summed" if abs(ratios[0] - len(ids)) < FACTOR * len(ids) else "gradient-times"
        )
    if not right and len(wrong) > 2:
        raise Told(f"{message} No other gradient agrees, either.", "gradient-of-logits")
    if not others:  # the table itself is to blame only if all others are right
        _by_rows(own, name, weights[name], found[name], ids, targets)
    if right and len(wrong) > 1:
        message += (
            f" {_listed([other for other in wrong if other != name])} disagree, too; {_listed(right)} agree."
        )
    raise Told(message, culprit(wrong, [other for other, its in seen.items() if its.agrees]))


def _listed(names: list[str]) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:4])
    return shown if len(names) <= 4 else f"{shown} and {len(names) - 4} more"


def _by_rows(own: Own, name: str, table: np.ndarray, gradient: np.ndarray, ids, targets) -> None:  # noqa: ANN001
    """Names what is wrong with the gradient of a table of ids, if some of its rows are certainly right."""
    seen, times = np.unique(ids, return_counts=True)
    rows = {
        "twice": seen[times > 1],
        "read": seen[times == 1],
        "not read": np.setdiff1d(np.arange(len(table)), ids),
    }
    found = {}
    for which, some in rows.items():
        where = np.zeros(table.shape, bool)
        where[some] = True
        found[which] = _measured(own, table, gradient, ids, targets, where)
    if not all(one.wrong or one.agrees or one.flat for one in found.values()):
        return
    wrong = {which for which, one in found.items() if one.wrong}
    message = f"`{name}`: the gradient is wrong"
    if wrong == {"twice"} and not _shared_out(own, table, gradient, rows["twice"], ids, targets):
        raise Told(
            f"{message} in the row of id {seen[times > 1][0]}, which occurs twice in the text, and right in the "
            "others.",
            "id-twice",
        )
    of_head = bool(np.abs(gradient[rows["not read"]]).max(initial=0.0) > 0)
    # The table is the head, too, and one of the two is missing.
    if wrong and found["read"].wrong and of_head != ("not read" in wrong):
        which = "not read" if "not read" in wrong else "read"
        raise Told(f"{message} in the rows of ids that are {which}.", "tied-gradient-overwritten")


def _shared_out(own: Own, table: np.ndarray, gradient: np.ndarray, rows: np.ndarray, ids, targets) -> bool:  # noqa: ANN001
    """Returns whether the gradient of these rows is off by one factor in all directions, as an average would be.

    One of two contributions points another way than their sum.
    """
    where, ratios = np.zeros(table.shape, bool), []
    where[rows] = True
    for seed in (2, 3):
        for way in ways(gradient, where, seed):
            one = slope(lambda: own.number("loss", ids, targets), table, way, gradient)
            ratios.append(one.predicted / one.found if one.found else np.inf)
    return bool(np.ptp(ratios) < FACTOR * abs(ratios[0]))


your_own_code(loss, "loss", lambda own: own.number("loss", *asked(own)))
