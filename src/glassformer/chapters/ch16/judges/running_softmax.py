"""Judges "Attention in one pass" (chapter 16): one query reads keys and values piece by piece.

Axes: n positions answering in a piece, K features of a key, U features of a value.
"""

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from glassformer.chapters.ch03.judges.by_hand import attended
from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import Wrong
from glassformer.exercises.material import numbers
from glassformer.scratch.pieces import attention_in_pieces
from glassformer.shapes import Float


def read_in_pieces(
    q: Float[np.ndarray, " K"], pieces: Iterable[tuple[Float[np.ndarray, "n K"], Float[np.ndarray, "n U"]]]
) -> tuple[Float[np.ndarray, " U"] | float, float]:
    """Returns what one query reads in pieces that come once each, and log Σ exp(score)."""
    largest, total, mixed = -np.inf, 0.0, 0.0
    for k, v in pieces:
        scores = k @ q / np.sqrt(len(q))
        before, largest = largest, max(largest, scores.max())
        shrink = np.exp(before - largest)
        weights = np.exp(scores - largest)
        total = total * shrink + weights.sum()
        mixed = mixed * shrink + weights @ v
    return mixed / total, largest + np.log(total)


reading = exercise(
    "long.running_softmax", read_in_pieces,
    built_on=(attention_in_pieces,), parts=("mixed", "lse"), axes=("U", ""),
)  # fmt: skip


class _Pieces:
    """Gives pairs of keys and values, once, and overwrites each when it gives the next one."""

    def __init__(self, k: np.ndarray, v: np.ndarray, lengths: Sequence[int]) -> None:
        cuts = np.cumsum(lengths)[:-1]
        self.rest = list(zip(np.split(k, cuts), np.split(v, cuts), strict=True))
        self.given: tuple[np.ndarray, ...] = ()
        self.over = False

    def __iter__(self) -> Iterator[tuple[np.ndarray, ...]]:
        if self.over:
            raise Wrong("your function went through the pieces twice, but they come only once.")
        return self

    def __next__(self) -> tuple[np.ndarray, ...]:
        if not self.rest:
            self.over = True
            raise StopIteration
        for array in self.given:
            array.fill(np.nan)
        self.given = self.rest.pop(0)
        return self.given


def _case(title, q, k, v, *lengths, want, said):
    many = f"pieces of {', '.join(map(str, lengths))}" if lengths[1:] else "one piece"
    reading.case(title, q, _Pieces(k, v, lengths), want=want, what=f"{said}, in {many}")


def _at_once(q, k, v):
    scores = [math.fsum(a * b for a, b in zip(q, key, strict=True)) / math.sqrt(len(q)) for key in k]
    return attended(q[None], k, v)[0][0], math.log(math.fsum(map(math.exp, scores)))


def _scored(*scores):
    """Returns a query of K = 4, and keys whose scores with it are these."""
    return np.array([2.0, 0, 0, 0]), np.array([[score, 0.0, 0.0, 0.0] for score in scores])


_three, _four = math.log(3), math.log(4)
_v = np.array([[8.0, 0, 4], [0, 4, 8]])
_both, _said, _want = _scored(_three, 0), "keys with the scores log 3 and 0", ([6.0, 1, 5], _four)
_case("all in one piece", *_both, _v, 2, want=_want, said=_said)
_case("two pieces, the larger score first", *_both, _v, 1, 1, want=_want, said=_said)
_all, _said = _scored(0, _three, _four), "keys with the scores 0, log 3 and log 4"
_rising, _want = np.array([[8.0, 0], [16, 8], [4, 2]]), ([9.0, 4], math.log(8))
_case("a larger score comes later", *_all, _rising, 1, 1, 1, want=_want, said=_said)
_case("", *_all, _rising, 1, 2, want=_want, said=_said)
_random = numbers(3), numbers(11, 3, seed=1), numbers(11, 2, seed=2)
for _title, *_lengths in (("pieces of any length", 3, 1, 5, 2), ("", 4, 7)):
    _case(_title, *_random, *_lengths, want=_at_once(*_random), said="eleven random keys")
_said = "one key with a score of 5"
_case("a single key: its value, and its score", *_scored(5), _v[:1], 1, want=([8.0, 0, 4], 5.0), said=_said)
_large, _said = (1000 + _three, 1000, -1000), "keys with scores near 1000 and one of −1000, which is"
_more, _want = np.concatenate([_v, [[9.0, 9, 9]]]), ([6.0, 1, 5], 1000 + _four)
_title = "large scores do not overflow"
_case(_title, *_scored(*_large), _more, 1, 1, 1, want=_want, said=f"{_said} last")
_case("", *_scored(*_large[::-1]), _more[::-1], 1, 1, 1, want=_want, said=f"{_said} first")
_want, _said = ([6.0, 1, 5], _four - 1000), "keys with the scores log 3 − 1000 and −1000"
_case("scores far below 0", *_scored(_three - 1000, -1000), _v, 1, 1, want=_want, said=_said)


@reading.mistake("each piece by itself")
def _(q, pieces):
    mixed, lse = zip(*(read_in_pieces(q, [pair]) for pair in pieces), strict=True)
    return np.mean(mixed, axis=0), np.logaddexp.reduce(lse)


@reading.mistake("kept for later")
def _(q, pieces):
    keys, values = zip(*pieces, strict=True)
    return read_in_pieces(q, [(np.concatenate(keys), np.concatenate(values))])
