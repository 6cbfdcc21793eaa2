"""The stage *attention*: the plain formula, the mistakes that look like it, and right designs that do more."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from glassformer.exercises.expect import Wrong

from .adapter import LeaveOut, Own, Told
from .attending import (
    AHEAD,
    BASES,
    KEYS,
    K,
    Q,
    T,
    V,
    mixed,
    of_masks,
    of_scores,
    of_whole_tables,
    rotated,
    softmax,
    values_rotated,
)
from .origin import your_own_code
from .stage import Stage, close, largest, name_it
from .words import remark

attention = Stage("attention")

CAPS = (5.0, 10.0, 15.0, 20.0, 30.0, 50.0)
LOUD = 400  # makes scores of thousands
NEARLY = 0.02  # relative: what is this near is rounded, or has something small added to it
FIT = 1e-3  # how much of what is measured a fitted number may leave unexplained

UNITS = np.broadcast_to(np.eye(T, K), V.shape)
Scores = Callable[[np.ndarray, np.ndarray], np.ndarray]


def _attend(own: Own, q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool) -> np.ndarray:
    what = f"`attention` of (H, T, K) = {q.shape}"
    found = own.array("attention", q, k, v, causal, axes="H T K", what=what)
    if found.shape != v.shape:
        message = f"{what} should have the same shape; yours has shape {found.shape}"
        if found.shape == tuple(np.array(v.shape)[[1, 0, 2]]):
            raise Told(f"{message}: heads and positions are exchanged.", "axes-swapped")
        raise Wrong(f"{message}.")
    return found


# Designs that do more than the formula


@dataclass(frozen=True)
class Design:
    """A right attention that has something inside. `plain` has each pair's weight where all queries are 0.

    Attributes:
        has: what it has inside, in words.
        scores: queries and keys to scores.
        plain: whether causal → (H, T, T).
    """

    has: tuple[str, ...]
    scores: Scores
    plain: dict[bool, np.ndarray]

    def __call__(self, q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool) -> np.ndarray:
        """Computes what this design should return."""
        plain, scores = self.plain[causal], self.scores(q, k)
        seen = np.where(plain > 0, scores, -np.inf)
        rest = 1 - plain.sum(axis=-1, keepdims=True)  # what goes to a sink, whose score is 0
        rest = np.where(rest > 1e-5, rest, 0)
        largest_seen = seen.max(axis=-1, keepdims=True)
        largest_seen = np.where(rest > 0, np.maximum(largest_seen, 0), largest_seen)
        powers = plain * np.exp(seen - largest_seen)
        sink = rest * np.exp(-np.maximum(largest_seen, 0))
        return powers / (powers.sum(axis=-1, keepdims=True) + sink) @ v


def _weights_of(own: Own, q: np.ndarray, k: np.ndarray, causal: bool) -> np.ndarray | None:
    """Reads off the attention weights (H, T, T): with the unit vectors as values they come out themselves."""
    found = _attend(own, q, k, UNITS, causal)
    weights = found[..., :T]
    sums = weights.sum(axis=-1)
    right = (
        np.isfinite(found).all()
        and (weights > -1e-6).all()
        and (sums < 1 + 1e-4).all()
        and (sums > 1e-6).all()
    )
    if not right or np.abs(found[..., T:]).max(initial=0.0) > 1e-6:
        return None
    return np.maximum(weights, 0)


def _maps() -> Iterator[tuple[tuple[str, ...], Scores, bool]]:
    """Yields what may be inside, how scores come from queries and keys, and whether a factor is free."""

    def sized(x: np.ndarray) -> np.ndarray:
        return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-12)

    def centred(x: np.ndarray) -> np.ndarray:
        return sized(x - x.mean(axis=-1, keepdims=True))

    rotations: list[tuple[tuple[str, ...], Callable]] = [((), lambda x: x)]
    for layout in ("half", "neighbours"):
        for base in BASES:
            rotations.append((("rotation",), lambda x, layout=layout, base=base: rotated(x, layout, base)))
    for has, turn in rotations:
        yield has, lambda q, k, turn=turn: turn(q) @ turn(k).swapaxes(-1, -2) / np.sqrt(K), False
        for norm in (sized, centred):
            # Before or after the rotation, which changes no length
            yield (
                (*has, "norm"),
                lambda q, k, turn=turn, norm=norm: (
                    turn(norm(q)) @ turn(norm(k)).swapaxes(-1, -2) / np.sqrt(K)
                ),
                True,
            )
    for cap in CAPS:
        yield (
            ("softcap",),
            lambda q, k, cap=cap: cap * np.tanh(q @ k.swapaxes(-1, -2) / np.sqrt(K) / cap),
            False,
        )


def _rows_centred(x: np.ndarray, where: np.ndarray) -> np.ndarray:
    count = np.maximum(where.sum(axis=-1, keepdims=True), 1)
    return np.where(where, x - np.where(where, x, 0).sum(axis=-1, keepdims=True) / count, 0)


def _design(own: Own) -> Design | None:
    """Returns the design that explains the weights of this attention, or None."""
    plain = {causal: _weights_of(own, 0 * Q, KEYS, causal) for causal in (False, True)}
    weights = _weights_of(own, Q, KEYS, False)
    if weights is None or any(one is None for one in plain.values()):
        return None
    bare, masked = plain[False], plain[True]
    assert bare is not None
    assert masked is not None
    if (masked[:, AHEAD] > 1e-6).any() or (np.diagonal(masked, axis1=1, axis2=2) <= 0).any():
        return None  # the mask is wrong: no design
    if (bare[:, AHEAD] == 0).all():
        return None  # it hides the future always
    both = (bare > 0) & (weights > 0)
    with np.errstate(all="ignore"):
        measured = _rows_centred(np.log(weights) - np.log(bare), both)
    has = []
    if (bare.sum(axis=-1) < 1 - 1e-3).any():
        has.append("sink")
    # Some add their bias in the same step as the mask, so only under `causal`; there the last row sees all positions.
    if np.ptp(np.where(bare > 0, bare, np.nan)[..., -1, :][0]) > 1e-4 or (bare == 0).any() or _uneven(masked):
        has.append("bias")
    exact = {True: masked, False: bare}
    for inside, scores, free in _maps():
        expected = _rows_centred(scores(Q, KEYS), both)
        factor = 1.0
        if free:
            factor = float((measured * expected).sum() / (expected * expected).sum())
        if factor <= 0 or np.abs(measured - factor * expected).max() > FIT * max(1.0, np.abs(measured).max()):
            continue
        if not inside and not has:
            return None  # the plain formula
        return Design(
            (*has, *inside), lambda q, k, scores=scores, factor=factor: factor * scores(q, k), exact
        )
    return None


def _uneven(weights: np.ndarray) -> bool:
    """Returns whether some head's last position prefers some positions, although all scores are 0."""
    return bool(np.ptp(weights[:, -1], axis=-1).max() > 1e-4)


def _unknown_inside(own: Own) -> list[str]:
    """Returns what this attention seems to have inside, where its numbers cannot be known, such as trained gains."""
    once, louder = (_weights_of(own, size * Q, KEYS, False) for size in (1.0, 3.0))
    alike = _weights_of(own, *(np.repeat(x[:, :1], T, axis=1) for x in (Q, KEYS)), causal=False)
    hidden = _weights_of(own, Q, KEYS, True)
    if once is None or louder is None or alike is None or hidden is None or (hidden[:, AHEAD] > 1e-6).any():
        return []
    even, found = np.full(once.shape, 1 / T), []
    if (once.sum(axis=-1) < 1 - 1e-3).any():
        found.append("sink")
    if close(once, louder, 1e-5) and not close(once, even):
        found.append("norm")
    if not close(alike / alike.sum(axis=-1, keepdims=True), even):
        found.append("bias")
    return found


def _in_words(has: Sequence[str]) -> str:
    return " and ".join(remark(one) for one in has)


def _told_or_a_design(
    own: Own,
    arguments: tuple[np.ndarray, np.ndarray, np.ndarray, bool],
    found: np.ndarray,
    message: str,
    candidates: Iterator[tuple[str, np.ndarray]],
) -> None:
    """Returns if a right design explains what was found.

    Raises:
        Told: a known mistake explains it.
        LeaveOut: it has something inside that cannot be judged here.
        Wrong: neither.
    """
    name_it(found, message, candidates)
    if "design" not in own.found:
        own.found["design"] = _design(own)
    design = own.found["design"]
    if design is not None and close(found, design(*arguments)):
        return own.remark(remark("attention-design", what=_in_words(design.has)))
    q, k, v, causal = arguments
    _nearly(found, mixed(q, k, v, AHEAD if causal else None), message)
    _another_scale(own, message)
    inside = _unknown_inside(own)
    if inside:
        raise LeaveOut(
            f"your `attention` seems to have something inside that this stage cannot judge: {_in_words(inside)}. It "
            "judges only softmax(q kᵀ / √K) v. If this is on purpose, leave `attention` out of the adapter: the stages "
            "*block* and *model* check it."
        )
    raise Wrong(
        f"{message} Compare your lines with the formula: the scores are q kᵀ, divided by √K; hidden ones become −∞; "
        "the softmax runs over the keys, the last axis; and the weights are multiplied by v."
    )


def _times_a_number(found: np.ndarray, message: str) -> None:
    """Raises `Told` if the result is the right one times a number."""
    want = mixed(Q, KEYS, V)
    factor = float((found * want).sum() / (want * want).sum())
    if np.isfinite(factor) and abs(factor) > FIT and close(found / factor, want):
        raise Told(f"{message} All of it is {factor:.4g} times what it should be.", "attention-times")


def _nearly(found: np.ndarray, want: np.ndarray, message: str) -> None:
    """Raises `Told` if the result is right but for its last digits."""
    if np.abs(found - want).max() < NEARLY * np.abs(want).max():
        raise Told(message, "attention-rounded")


def _another_scale(own: Own, message: str) -> None:
    """Raises `Told` if the scores are q kᵀ times a number that is not 1/√K."""
    weights = _weights_of(own, Q, KEYS, False)
    if weights is None or (weights <= 0).any():
        return
    measured = _rows_centred(np.log(weights), weights > 0)
    expected = _rows_centred(Q @ KEYS.swapaxes(-1, -2), weights > 0)
    factor = float((measured * expected).sum() / (expected * expected).sum())
    if abs(factor * np.sqrt(K) - 1) < 10 * FIT:
        return  # that is not what is wrong
    if np.abs(measured - factor * expected).max() < FIT * np.abs(measured).max():
        raise Told(
            f"{message} Your scores are q kᵀ times {factor:.4g}; 1/√K is {1 / np.sqrt(K):.4g}.", "other-scale"
        )


@attention.check("a query of zeros gets the average of the values")
def _(own: Own) -> None:
    found = _attend(own, 0 * Q, KEYS, V, False)
    want = np.broadcast_to(V.mean(axis=1, keepdims=True), V.shape)
    if close(found, want):
        return
    message = f"with q = 0 all weights should be equal, so {largest(found, want, 'H T K')}"
    candidates = [
        ("no-softmax", 0 * V),
        ("always-causal", mixed(0 * Q, KEYS, V, AHEAD)),
        ("softmax-axis", mixed(0 * Q, KEYS, V, axis=-3)),
        *of_whole_tables(0 * Q, KEYS, V, None),
        *values_rotated(0 * Q, KEYS, V, None),
    ]
    again = _attend(own, 0 * Q, KEYS, V, False)
    if not close(found, again):
        raise Told("the same queries, keys and values gave two different results.", "dropout-in-evaluation")
    telling = _attend(own, Q, KEYS, V, False)  # other queries tell more
    name_it(telling, message, of_scores())
    _times_a_number(telling, message)
    name_it(found, message, candidates)
    _told_or_a_design(own, (0 * Q, KEYS, V, False), found, message, iter(()))


@attention.check("the better a key matches the query, the more weight its value gets")
def _(own: Own) -> None:
    found, want = _attend(own, Q, KEYS, V, False), mixed(Q, KEYS, V)
    if not close(found, want):
        message = f"the result is not softmax(q kᵀ / √K) v: {largest(found, want, 'H T K')}"
        widths = [own.width] if own.has("embed") else []
        _told_or_a_design(own, (Q, KEYS, V, False), found, message, of_scores(widths))


@attention.check("under the causal mask, a position sees itself and the ones before it")
def _(own: Own) -> None:
    found, want = _attend(own, Q, KEYS, V, True), mixed(Q, KEYS, V, AHEAD)
    if not close(found, want):
        message = f"with `causal`, {largest(found, want, 'H T K')}"
        name_it(found, message, of_masks())
        _hides_itself(own, message)
        _hides_too_little(own, message)
        _told_or_a_design(own, (Q, KEYS, V, True), found, message, iter(()))
    _zeros_are_scores(own)


def _zeros_are_scores(own: Own) -> None:
    """Checks that a score of 0 is not taken for a hidden one, as if the mask were read off the scores."""
    arguments = (0 * Q, KEYS, V, True)
    found, want = _attend(own, *arguments), mixed(0 * Q, KEYS, V, AHEAD)
    if close(found, want):
        return
    message = f"with `causal` and q = 0, so that every score is 0, {largest(found, want, 'H T K')}"
    everything = np.broadcast_to(V.mean(axis=1, keepdims=True), V.shape)
    hidden = [("mask-by-value", one) for one in (np.full(V.shape, np.nan), 0 * V, everything)]
    _told_or_a_design(own, arguments, found, message, iter(hidden))


def _hides_itself(own: Own, message: str) -> None:
    """Raises `Told` if positions that see others give themselves no weight, or if the mask has another shape."""
    weights = _weights_of(own, Q, KEYS, True)
    if weights is None:
        return
    seen = np.asarray((weights > 0).all(axis=0))
    with np.errstate(all="ignore"):
        only_the_mask = close(
            weights, softmax(np.where(seen, Q @ KEYS.swapaxes(-1, -2) / np.sqrt(K), -np.inf))
        )
    if only_the_mask and (seen & AHEAD).any():
        at = int(np.flatnonzero((seen != ~AHEAD).any(axis=1))[0])
        listed = ", ".join(map(str, np.flatnonzero(seen[at])))
        raise Told(f"{message} Position {at} sees {listed}.", "mask-other")
    blind = np.flatnonzero((np.diagonal(weights, axis1=1, axis2=2) == 0).all(axis=0))
    if len(blind):
        raise Told(f"{message} Position {blind[0]} gives itself no weight.", "mask-of-self")


def _hides_too_little(own: Own, message: str) -> None:
    """Raises `Told` if hidden keys get weight: in some heads, or because a hidden score is a number not low enough."""
    weights = _weights_of(own, Q, KEYS, True)
    if weights is None or not (weights[:, AHEAD] > 1e-6).any():
        return
    heads = (weights[:, AHEAD] > 1e-6).any(axis=-1)
    if not heads.all():
        listed = ", ".join(map(str, np.flatnonzero(heads)))
        raise Told(
            f"{message} Later positions get weight in head {listed}, and in the others not.", "mask-of-some"
        )
    scores = Q @ KEYS.swapaxes(-1, -2) / np.sqrt(K)
    with np.errstate(all="ignore"):
        for instead in (0 * scores, scores):  # a number in the place of the score, or added to it
            apart = np.log(weights) - instead
            seen = np.log(weights[..., 0] / np.exp(scores[..., 0]))[
                ..., None
            ]  # what every row's softmax subtracts
            number = (apart - seen)[:, AHEAD]
            if np.isfinite(number).all() and np.ptp(number) < FIT * max(1.0, np.abs(number).max()):
                raise Told(f"{message} The number seems to be {number.flat[0]:.4g}.", "mask-finite")


@attention.check("large scores do no harm")
def _(own: Own) -> None:
    found, want = _attend(own, LOUD * Q, KEYS, V, True), mixed(LOUD * Q, KEYS, V, AHEAD)
    lost = ~np.isfinite(found).all(axis=-1)
    if lost.any():
        head, position = np.argwhere(lost)[0]
        row = found[head, position]
        first = row[~np.isfinite(row)][0]
        message = f"with scores in the thousands there is {first} at head {head}, position {position}."
        for mistake, rows in _rows_lost():
            if np.array_equal(lost, rows):
                raise Told(message, mistake)
        raise Wrong(
            f"{message} Usual causes: the softmax does not subtract the largest score of each row, or a whole row "
            "of scores is −∞."
        )
    if not close(found, want):
        message = f"with scores in the thousands, {largest(found, want, 'H T K')}"
        weights = _weights_of(own, LOUD * Q, KEYS, True)
        if weights is not None and (weights[:, AHEAD] > 1e-6).any():
            raise Told(message, "mask-finite")  # the check before has seen that among small scores it hides
        _told_or_a_design(own, (LOUD * Q, KEYS, V, True), found, message, iter(()))


def _rows_lost() -> Iterator[tuple[str, np.ndarray]]:
    """Yields the rows (H, T) in which a softmax is not a number, for each thing that it may have subtracted."""
    scores = np.where(AHEAD, -np.inf, LOUD * Q @ KEYS.swapaxes(-1, -2) / np.sqrt(K))
    own_largest = scores.max(axis=-1, keepdims=True)
    largest_of_all = [scores.max(axis=axes, keepdims=True) for axes in ((-3, -2, -1), (-2, -1))]
    with np.errstate(all="ignore"):
        for kind in (np.float64, np.float32):
            sums = np.exp(scores.astype(kind)).sum(axis=-1)
            yield "softmax-overflow", np.isinf(sums) | (sums == 0)
            for top in largest_of_all:
                yield "softmax-one-max", np.exp((own_largest - top).astype(kind))[..., 0] == 0


your_own_code(attention, "attention", lambda own: own.call("attention", Q, KEYS, V, True))
