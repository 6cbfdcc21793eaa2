"""Judges "Exactly k" (chapter 16): the k best visible keys of each query.

Axes: T positions asking, S positions answering.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.scratch.indexer import Indexer
from glassformer.shapes import Bool, Float


def choose(
    scores: Float[np.ndarray, "T S"], visible: Bool[np.ndarray, "T S"], k: int
) -> Bool[np.ndarray, "T S"]:
    """Returns True at the k largest visible scores of each query; of equal scores, the earlier key wins."""
    scores = np.where(visible, scores, -np.inf)
    best = np.argsort(-scores, axis=-1, kind="stable")[:, :k]
    chosen = np.zeros(scores.shape, dtype=bool)
    np.put_along_axis(chosen, best, True, axis=-1)
    return chosen & visible


chosen = exercise("long.top_k", choose, built_on=(Indexer.choose,), axes="T S")


def _sorted(scores, visible, k):
    """Returns what Python's own sort, which is stable, puts first."""
    rows = []
    for row, seen in zip(scores.tolist(), visible.tolist(), strict=True):
        best = sorted((s for s, sees in enumerate(seen) if sees), key=lambda s: -row[s])[:k]
        rows.append([s in best for s in range(len(row))])
    return np.array(rows)


for _title, _what, _scores, _visible, _k, _want in (
    ("the two largest of five", "[3, 1, 2, 0, −4], k = 2", [[3, 1, 2, 0, -4]], None, 2, [[1, 0, 1, 0, 0]]),
    ("each query chooses for itself", "the scores of two queries, k = 2",
     [[0.1, 0.7, 0.2, 0.9], [5, 2, 4, 3]], None, 2, [[0, 1, 0, 1], [1, 0, 1, 0]]),
    ("only visible keys, even if all their scores are negative", "scores, the largest hidden, k = 2",
     [[7, -3, -2, 9], [7, -3, 9, -2]], [[0, 1, 1, 0], [1, 1, 1, 0]], 2, [[0, 1, 1, 0], [1, 0, 1, 0]]),
    ("", "scores near −10¹², of which the largest is hidden, k = 2",
     [[-2e12, 7, -1e12, -3e12]], [[1, 0, 1, 1]], 2, [[1, 0, 1, 0]]),
    ("a query that sees at most k keys gets them all, and no other", "scores under a causal mask, k = 2",
     np.arange(12).reshape(3, 4) - 5, np.tri(3, 4), 2, [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0]]),
    ("", "the scores of three keys, k = 8",
     [[2, 1, 0]] * 2, [[1, 1, 0], [0, 0, 0]], 8, [[1, 1, 0], [0, 0, 0]]),
    ("of equal scores, the earlier keys win", "[2, 5, 5, 1, 5], k = 2",
     [[2, 5, 5, 1, 5]], None, 2, [[0, 1, 1, 0, 0]]),
    ("", "six zeros of which the first and the third are hidden, k = 3",
     [[0] * 6], [[0, 1, 0, 1, 1, 1]], 3, [[0, 1, 0, 1, 1, 0]]),
    ("nearly equal scores are not equal", "[1, 1.000001, 0], k = 1", [[1, 1.000001, 0]], None, 1, [[0, 1, 0]]),
):  # fmt: skip
    _all = np.array(_scores, dtype=float)
    _seen = np.ones(_all.shape, bool) if _visible is None else np.array(_visible, dtype=bool)
    chosen.case(_title, _all, _seen, _k, want=np.array(_want, dtype=bool), what=f"the choice from {_what}")
_many = np.round(numbers(5, 300))
chosen.case(
    "exactly k of 300 keys, many of them equal",
    _many, numbers(5, 300, seed=1) > -0.5, 100, want=_sorted, what="the choice from 300 scores, k = 100",
)  # fmt: skip
