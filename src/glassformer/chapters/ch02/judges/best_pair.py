"""Judges "The most frequent pair" (chapter 02): the pair of neighbours that occurs most often.

Axis: T tokens.
"""

from collections import Counter

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import Wrong, expect
from glassformer.shapes import Int, Integer


def best_pair(ids: Integer[np.ndarray, " T"]) -> Int[np.ndarray, "2"]:
    """Returns the pair of neighbours that occurs most often; among equal counts, the pair with the lower ids."""
    ids, counts = ids.tolist(), {}
    for i in range(len(ids) - 1):
        pair = ids[i], ids[i + 1]
        counts[pair] = counts.get(pair, 0) + 1
    return np.array(min(counts, key=lambda pair: (-counts[pair], pair)))


pair = exercise("tokens.best_pair", best_pair)


@pair.check("the pair that occurs most often")
def _(best_pair):
    got = best_pair(np.array([5, 1, 2, 1, 2, 7, 1, 2]))
    if isinstance(got, tuple | list) and len(got) == 2 and np.ndim(got[0]) == 1:
        raise Wrong("two ids should come back; yours is the pair and its count. Return the pair alone.")
    expect(got, [1, 2], "best_pair([5, 1, 2, 1, 2, 7, 1, 2])")


_ids = [2, 1, 9, 2, 1, 5, 6, 1, 2, 5, 6, 1, 2, 5, 6]
pair.case("order counts: 1 2 is not 2 1", np.array(_ids), want=[5, 6], what=f"best_pair({_ids})")
pair.case("3 3 3 contains the pair 3 3 twice", np.array([3, 3, 3, 1, 2]), want=[3, 3])
pair.case(
    "all neighbours are pairs, wherever the pair starts", np.array([0, 8, 4, 0, 8, 4, 4, 9]), want=[0, 8]
)
pair.also(np.array([6, 8, 4, 0, 8, 4]), want=[8, 4])
pair.case("among equal counts, the lower first id wins", np.array([7, 3, 5, 2, 7, 3, 0, 5, 2]), want=[5, 2])
_ids = [2, 3, 0, 1, 9, 7, 2, 3, 5, 1, 9]
pair.also(np.array(_ids), want=[1, 9], what=f"best_pair({_ids})")
pair.case("then the lower second id wins", np.array([4, 9, 0, 4, 6, 1, 4, 9, 2, 4, 6]), want=[4, 6])
pair.also(np.array([12, 40]), want=[12, 40])

_PAIR = "pair = ids[i], ids[i + 1]"
pair.slip("either way round", _PAIR, "pair = tuple(sorted(ids[i : i + 2]))")
pair.slip(
    "counted once", "counts = ids.tolist(), {}", "counts, free = ids.tolist(), {}, {}",
    _PAIR, f"{_PAIR}\n        if i < free.get(pair, 0):\n            continue\n        free[pair] = i + 2",
)  # fmt: skip


@pair.mistake("two most frequent")
def _(ids):
    singles = Counter(ids.tolist())
    return np.array(sorted(singles, key=lambda i: (-singles[i], i))[:2])
