"""Judges "Attention in one pass" (chapter 16): one query reads keys and values piece by piece.

Axes: S positions answering, K features of a key, U features of a value.
"""

import math

import numpy as np

from glassformer.chapters.ch03.judges.by_hand import attended
from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.scratch.pieces import attention_in_pieces
from glassformer.shapes import Float


def read_in_pieces(
    q: Float[np.ndarray, " K"], k: Float[np.ndarray, "S K"], v: Float[np.ndarray, "S U"], piece: int
) -> tuple[Float[np.ndarray, " U"], float]:
    """Returns what one query reads, and log Σ exp(score), with `piece` scores at a time."""
    largest, total, mixed = -np.inf, 0.0, np.zeros(v.shape[1])
    for start in range(0, len(k), piece):
        rows = slice(start, start + piece)
        scores = k[rows] @ q / np.sqrt(len(q))
        before, largest = largest, max(largest, scores.max())
        shrink = np.exp(before - largest)
        weights = np.exp(scores - largest)
        total = total * shrink + weights.sum()
        mixed = mixed * shrink + weights @ v[rows]
    return mixed / total, largest + np.log(total)


reading = exercise(
    "long.running_softmax", read_in_pieces,
    built_on=(attention_in_pieces,), parts=("mixed", "lse"), axes=("U", ""),
)  # fmt: skip


def _at_once(q, k, v, piece):
    scores = [math.fsum(a * b for a, b in zip(q, key, strict=True)) / math.sqrt(len(q)) for key in k]
    return attended(q[None], k, v)[0][0], math.log(math.fsum(map(math.exp, scores)))


def _scored(*scores):
    """Returns a query of K = 4, and keys whose scores with it are these."""
    return np.array([2.0, 0, 0, 0]), np.array([[score, 0.0, 0.0, 0.0] for score in scores])


_three, _four = math.log(3), math.log(4)
_v = np.array([[8.0, 0, 4], [0, 4, 8]])
_both, _said = _scored(_three, 0), "keys with the scores log 3 and 0, piece"
_want = [6.0, 1, 5], _four
reading.case("all in one piece", *_both, _v, 2, want=_want, what=f"{_said} = 2")
reading.case("two pieces, the larger score first", *_both, _v, 1, want=_want, what=f"{_said} = 1")
_all, _said = _scored(0, _three, _four), "keys with the scores 0, log 3 and log 4, piece"
_rising, _want = np.array([[8.0, 0], [16, 8], [4, 2]]), ([9.0, 4], math.log(8))
reading.case("a larger score comes later", *_all, _rising, 1, want=_want, what=f"{_said} = 1")
reading.also(*_all, _rising, 2, want=_want, what=f"{_said} = 2")
_q, _k, _v7 = numbers(3), numbers(7, 3, seed=1), numbers(7, 2, seed=2)
for _title, _piece in (
    ("the last piece may be short", 3),
    ("", 5),
    ("a piece may be longer than the text", 10),
):
    reading.case(_title, _q, _k, _v7, _piece, want=_at_once, what=f"seven random keys, piece = {_piece}")
reading.case(
    "a single key: its value, and its score", *_scored(5), _v[:1], 4,
    want=([8.0, 0, 4], 5.0), what="one key with a score of 5",
)  # fmt: skip
_large, _said = (1000 + _three, 1000, -1000), "keys with scores near 1000 and one of −1000, which is"
_more, _want = np.concatenate([_v, [[9.0, 9, 9]]]), ([6.0, 1, 5], 1000 + _four)
reading.case("large scores do not overflow", *_scored(*_large), _more, 1, want=_want, what=f"{_said} last")
reading.also(*_scored(*_large[::-1]), _more[::-1], 1, want=_want, what=f"{_said} first")
reading.case(
    "scores far below 0", *_scored(_three - 1000, -1000), _v, 1,
    want=([6.0, 1, 5], _four - 1000), what="keys with the scores log 3 − 1000 and −1000",
)  # fmt: skip


@reading.mistake("each piece by itself")
def _(q, k, v, piece):
    cuts = range(piece, len(k), piece)
    pieces = zip(np.split(k, cuts), np.split(v, cuts), strict=True)
    mixed, lse = zip(*(read_in_pieces(q, *both, piece) for both in pieces), strict=True)
    return np.mean(mixed, axis=0), np.logaddexp.reduce(lse)
