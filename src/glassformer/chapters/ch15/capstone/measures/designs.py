"""Measures what an attention has inside besides the formula: a bias, a sink, a rotation, a norm, a soft cap.

With the unit vectors as values, the weights themselves come out; with queries of zeros, what is added to the scores.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from glassformer.scratch import softmax

from ..words import remark
from .formula import AHEAD, BASES, KEYS, K, Q, T, V, rotated

CAPS = (5.0, 10.0, 15.0, 20.0, 30.0, 50.0)
FIT = 1e-3  # how much of what is measured a fitted number may leave unexplained

UNITS = np.broadcast_to(np.eye(T, K), V.shape)
Scores = Callable[[np.ndarray, np.ndarray], np.ndarray]
Attend = Callable[[np.ndarray, np.ndarray, np.ndarray, bool], np.ndarray]


@dataclass(frozen=True)
class Design:
    """A right attention that has something inside.

    Attributes:
        has: what it has inside, in words.
        scores: queries and keys to scores.
        plain: whether causal → the weights (H, T, T) where all queries are 0; none of a mask that is wrong.
    """

    has: tuple[str, ...]
    scores: Scores
    plain: dict[bool, np.ndarray]

    def __call__(self, q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool) -> np.ndarray:
        """Computes what this design should return."""
        if causal not in self.plain:
            return np.full(v.shape, np.nan)
        plain = self.plain[causal]
        sink = 1 - plain.sum(axis=-1, keepdims=True)  # its score is 0
        with np.errstate(divide="ignore"):
            bias = np.log(np.concatenate([plain, np.where(sink > 1e-5, sink, 0)], axis=-1))
        return softmax(bias + np.concatenate([self.scores(q, k), 0 * sink], axis=-1))[..., :-1] @ v


def weights_of(attend: Attend, q: np.ndarray, k: np.ndarray, causal: bool) -> np.ndarray | None:
    """Reads off the attention weights (H, T, T); None if what comes out cannot be weights."""
    mixed = attend(q, k, UNITS, causal)
    weights = mixed[..., :T]
    sums = weights.sum(axis=-1)
    right = np.isfinite(mixed).all() and (weights > -1e-6).all() and (sums < 1 + 1e-4).all()
    if not right or (sums <= 1e-6).any() or np.abs(mixed[..., T:]).max(initial=0.0) > 1e-6:
        return None
    return np.maximum(weights, 0)


def bias_of(attend: Attend) -> np.ndarray:
    """Measures what is added to the scores without a mask; 0 if it cannot be measured."""
    weights = weights_of(attend, 0 * Q, KEYS, False)
    return np.zeros(1) if weights is None or (weights <= 0).any() else np.log(weights)


def scale_of(attend: Attend, bias: np.ndarray) -> float | None:
    """Measures the number by which q kᵀ is multiplied before a bias is added; None if it is not just that."""
    weights = weights_of(attend, Q, KEYS, False)
    if weights is None or (weights <= 0).any():
        return None
    measured = _rows_centred(np.log(weights) - bias, weights > 0)
    expected = _rows_centred(Q @ KEYS.swapaxes(-1, -2), weights > 0)
    factor = float((measured * expected).sum() / (expected * expected).sum())
    return factor if np.abs(measured - factor * expected).max() < FIT * np.abs(measured).max() else None


def design_of(attend: Attend) -> Design | None:
    """Returns the design that explains the weights of this attention; None if it is the formula, or something else."""
    free, masked = (weights_of(attend, 0 * Q, KEYS, causal) for causal in (False, True))
    weights = weights_of(attend, Q, KEYS, False)
    if weights is None or free is None or (free[:, AHEAD] == 0).all():
        return None
    plain, last = {False: free}, free[:, -1]
    if (
        masked is not None
        and not (masked[:, AHEAD] > 1e-6).any()
        and (np.diagonal(masked, axis1=1, axis2=2) > 0).all()
    ):
        # Some add their bias in the same step as the mask, so only there. Its last row sees all positions.
        plain[True], last = masked, masked[:, -1]
    both = (free > 0) & (weights > 0)
    with np.errstate(all="ignore"):
        measured = _rows_centred(np.log(weights) - np.log(free), both)
    has = ["sink"] if (free.sum(axis=-1) < 1 - 1e-3).any() else []
    if (free == 0).any() or max(np.ptp(free, axis=-1).max(), np.ptp(last, axis=-1).max()) > 1e-4:
        has.append("bias")
        if (np.diff(last, axis=-1) < -1e-6).all():
            has.append("far-bias")
    for inside, scores, free_factor in _maps():
        expected, factor = _rows_centred(scores(Q, KEYS), both), 1.0
        if free_factor:
            factor = float((measured * expected).sum() / (expected * expected).sum())
        if factor > 0 and np.abs(measured - factor * expected).max() < FIT * max(1.0, np.abs(measured).max()):
            return Design((*has, *inside), partial(_times, factor, scores), plain) if has or inside else None
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
    turns += [
        (("rotation",), partial(rotated, layout=layout, base=base))
        for layout in ("half", "interleaved")
        for base in BASES
    ]
    for has, turn in turns:
        yield has, dot(turn), False
        for norm in (sized, centred):  # before or after the rotation, which changes no length
            yield (*has, "norm"), dot(lambda x, turn=turn, norm=norm: turn(norm(x))), True
    plain = dot(lambda x: x)
    for cap in CAPS:
        yield ("softcap",), lambda q, k, cap=cap: cap * np.tanh(plain(q, k) / cap), False


def _rows_centred(x: np.ndarray, where: np.ndarray) -> np.ndarray:
    return np.where(where, x - np.mean(x, axis=-1, keepdims=True, where=where), 0)


def in_words(has: tuple[str, ...]) -> str:
    """Returns what is inside, as a reader is told."""
    return " and ".join(remark(one) for one in has if one != "far-bias")
