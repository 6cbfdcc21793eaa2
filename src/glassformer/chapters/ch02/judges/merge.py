"""Judges "One merge" (chapter 02): a pair of neighbours is replaced by a new id, from left to right.

Axis: T tokens.
"""

from collections.abc import Sequence

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.shapes import Int, Integer


def merge(
    ids: Integer[np.ndarray, " T"], pair: Sequence[int | np.integer], new_id: int
) -> Int[np.ndarray, " t"]:
    """Returns the ids with every `pair` of neighbours replaced by `new_id`, from left to right."""
    merged, i = [], 0
    while i < len(ids):
        fits = i + 1 < len(ids) and (ids[i], ids[i + 1]) == tuple(pair)
        merged.append(new_id if fits else ids[i])
        i += 2 if fits else 1
    return np.array(merged)


one_merge = exercise("tokens.merge", merge)

_ids = np.array([1, 2, 3, 1, 2])
one_merge.case("every such pair becomes one id", _ids, (1, 2), 9, want=[9, 3, 9])
one_merge.case("only in this order", np.array([2, 1, 2, 2, 1]), (1, 2), 7, want=[2, 7, 2, 1])
one_merge.case(
    "all other ids stay, including the last one", np.array([4, 1, 2, 5, 1]), (1, 2), 6, want=[4, 6, 5, 1]
)
one_merge.also(np.array([5, 4, 1]), (1, 2), 6, want=[5, 4, 1])
one_merge.case(
    "an id is one number: 11 2 is not 1 2", np.array([11, 2, 1, 2, 21]), (1, 2), 9, want=[11, 2, 9, 21]
)
one_merge.case(
    "from left to right, and no id is used twice", np.array([3, 3, 3, 0]), (3, 3), 8, want=[8, 3, 0]
)
one_merge.also(np.array([3, 3, 3, 3, 3]), (3, 3), 8, want=[8, 8, 3])

_IS_PAIR = "(ids[i], ids[i + 1]) == tuple(pair)"
one_merge.mistake("either way round", lambda ids, pair, new: merge(merge(ids, pair, new), pair[::-1], new))
one_merge.slip("either way round", _IS_PAIR, "(ids[i], ids[i + 1]) in (tuple(pair), tuple(pair)[::-1])")


@one_merge.mistake("digits")
def _(ids, pair, new_id):
    text = " ".join(map(str, ids)).replace(" ".join(map(str, pair)), str(new_id))
    return np.array([int(i) for i in text.split()])


@one_merge.mistake("used twice")
def _(ids, pair, new_id):
    ids = ids.tolist()
    fits = [(a, b) == tuple(pair) for a, b in zip(ids, [*ids[1:], None], strict=True)]
    used = [False, *fits[:-1]]
    return np.array([new_id if f else i for i, f, u in zip(ids, fits, used, strict=True) if f or not u])
