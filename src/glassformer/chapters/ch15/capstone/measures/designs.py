"""Measures what an attention has inside besides the formula: a bias, a sink, a rotation, a norm, a soft cap.

With the unit vectors as values, the weights themselves come out; with queries of zeros, what is added to the scores.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..adapter import Told
from ..words import remark
from .comparing import close
from .formula import AHEAD, BASES, KEYS, K, Q, T, V, rotated

CAPS = (5.0, 10.0, 15.0, 20.0, 30.0, 50.0)
FIT = 1e-3  # how much of what is measured a fitted number may leave unexplained

UNITS = np.broadcast_to(np.eye(T, K), V.shape)
Scores = Callable[[np.ndarray, np.ndarray], np.ndarray]
Attend = Callable[[np.ndarray, np.ndarray, np.ndarray, bool], np.ndarray]


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
        top = seen.max(axis=-1, keepdims=True)
        top = np.where(rest > 0, np.maximum(top, 0), top)
        powers = plain * np.exp(seen - top)
        return powers / (powers.sum(axis=-1, keepdims=True) + rest * np.exp(-np.maximum(top, 0))) @ v


def weights_of(attend: Attend, q: np.ndarray, k: np.ndarray, causal: bool) -> np.ndarray | None:
    """Reads off the attention weights (H, T, T); None if what comes out cannot be weights."""
    found = attend(q, k, UNITS, causal)
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


def bias_of(attend: Attend, causal: bool) -> np.ndarray | None:
    """Measures what is added to the scores; None if it cannot be measured, and where the mask is wrong."""
    weights, seen = weights_of(attend, 0 * Q, KEYS, causal), ~AHEAD if causal else AHEAD | ~AHEAD
    if weights is None or (weights[:, seen] <= 0).any() or (weights[:, ~seen] > 1e-6).any():
        return None
    with np.errstate(divide="ignore"):
        return np.log(weights)


def scale_of(attend: Attend, bias: np.ndarray | None = None) -> float | None:
    """Measures the number by which q kᵀ is multiplied, whatever is added then; None if it is not just that."""
    weights = weights_of(attend, Q, KEYS, False)
    if weights is None or (weights <= 0).any():
        return None
    measured = _rows_centred(np.log(weights) - (0 if bias is None else bias), weights > 0)
    expected = _rows_centred(Q @ KEYS.swapaxes(-1, -2), weights > 0)
    factor = float((measured * expected).sum() / (expected * expected).sum())
    return factor if np.abs(measured - factor * expected).max() < FIT * np.abs(measured).max() else None


def design_of(attend: Attend) -> Design | None:
    """Returns the design that explains the weights of this attention, or None."""
    bare, masked = (weights_of(attend, 0 * Q, KEYS, causal) for causal in (False, True))
    weights = weights_of(attend, Q, KEYS, False)
    if weights is None or bare is None or masked is None:
        return None
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
    uneven = np.ptp(masked[:, -1], axis=-1).max() > 1e-4
    if np.ptp(np.where(bare > 0, bare, np.nan)[..., -1, :][0]) > 1e-4 or (bare == 0).any() or uneven:
        has.append("bias")
    for inside, scores, free in _maps():
        expected, factor = _rows_centred(scores(Q, KEYS), both), 1.0
        if free:
            factor = float((measured * expected).sum() / (expected * expected).sum())
        if factor <= 0 or np.abs(measured - factor * expected).max() > FIT * max(1.0, np.abs(measured).max()):
            continue
        if not inside and not has:
            return None  # the plain formula
        if "bias" in has and (np.diff(masked[:, -1], axis=-1) < -1e-6).all():
            has.append("far-bias")
        return Design((*has, *inside), partial(_times, factor, scores), {True: masked, False: bare})
    return None


def _times(factor: float, scores: Scores, q: np.ndarray, k: np.ndarray) -> np.ndarray:
    return factor * scores(q, k)


def _maps() -> Iterator[tuple[tuple[str, ...], Scores, bool]]:
    """Yields what may be inside, how scores come from queries and keys, and whether a factor is free."""

    def sized(x: np.ndarray) -> np.ndarray:
        return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-12)

    def centred(x: np.ndarray) -> np.ndarray:
        return sized(x - x.mean(axis=-1, keepdims=True))

    def dot(of: Callable[[np.ndarray], np.ndarray]) -> Scores:
        return lambda q, k: of(q) @ of(k).swapaxes(-1, -2) / np.sqrt(K)

    turns: list[tuple[tuple[str, ...], Callable]] = [((), lambda x: x)]
    for layout in ("half", "neighbours"):
        for base in BASES:
            turns.append((("rotation",), lambda x, layout=layout, base=base: rotated(x, layout, base)))
    for has, turn in turns:
        yield has, dot(turn), False
        for norm in (sized, centred):  # before or after the rotation, which changes no length
            yield (*has, "norm"), dot(lambda x, turn=turn, norm=norm: turn(norm(x))), True
    plain = dot(lambda x: x)
    for cap in CAPS:
        yield ("softcap",), lambda q, k, cap=cap: cap * np.tanh(plain(q, k) / cap), False


def _rows_centred(x: np.ndarray, where: np.ndarray) -> np.ndarray:
    count = np.maximum(where.sum(axis=-1, keepdims=True), 1)
    return np.where(where, x - np.where(where, x, 0).sum(axis=-1, keepdims=True) / count, 0)


def unknown_inside(attend: Attend) -> list[str]:
    """Returns what this attention seems to have inside, where its numbers cannot be known, such as trained gains."""
    once, louder = (weights_of(attend, size * Q, KEYS, False) for size in (1.0, 3.0))
    alike = weights_of(attend, *(np.repeat(x[:, :1], T, axis=1) for x in (Q, KEYS)), causal=False)
    hidden = weights_of(attend, Q, KEYS, True)
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


def in_words(has: tuple[str, ...] | list[str]) -> str:
    """Returns what is inside, as a reader is told."""
    return " and ".join(remark(one) for one in has)


def told_if_hidden_gets_weight(attend: Attend, message: str) -> None:
    """Raises `Told` if hidden keys get weight: in some heads, or because a hidden score is a number not low enough."""
    weights, bias = weights_of(attend, Q, KEYS, True), bias_of(attend, False)
    if weights is None:
        return
    blind = np.flatnonzero((np.diagonal(weights, axis1=1, axis2=2) == 0).all(axis=0))
    heads = (weights[:, AHEAD] > 1e-6).any(axis=-1)
    if len(blind) and not heads.any():
        raise Told(f"{message} Position {blind[0]} gives itself no weight.", "mask-of-self")
    if not heads.any():
        return
    if not heads.all():
        listed = ", ".join(map(str, np.flatnonzero(heads)))
        raise Told(
            f"{message} Later positions get weight in head {listed}, and in the others not.", "mask-of-some"
        )
    scores = Q @ KEYS.swapaxes(-1, -2) / np.sqrt(K) + (0 if bias is None else bias)
    with np.errstate(all="ignore"):
        for instead in (0 * scores, scores):  # a number in the place of the score, or added to it
            # what every row's softmax subtracts is seen at its first key
            subtracted = np.log(weights[..., 0] / np.exp(scores[..., 0]))[..., None]
            number = (np.log(weights) - instead - subtracted)[:, AHEAD]
            if np.isfinite(number).all() and np.ptp(number) < FIT * max(1.0, np.abs(number).max()):
                raise Told(f"{message} The number seems to be {number.flat[0]:.4g}.", "mask-finite")
