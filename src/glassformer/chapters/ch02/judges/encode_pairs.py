"""Judges "Encoding with merges" (chapter 02).

Learned merges are applied to a text, in the order in which they were learned.

Axes: T tokens, M merges.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.shapes import Int, Integer

from .learn import byte_ids
from .merge import merge, one_merge


def encode_pairs(
    ids: Integer[np.ndarray, " T"], merges: Integer[np.ndarray, "M 2"], first_new: int = 256
) -> Int[np.ndarray, " t"]:
    """Returns the ids after all merges, made in the order in which they were learned; merge k makes first_new + k."""
    for k, pair in enumerate(merges):
        ids = merge(ids, tuple(pair), first_new + k)
    return ids


by_pairs = exercise("tokens.encode_pairs", encode_pairs)

_merges = np.array([[1, 2], [3, 10], [2, 3]])  # with first_new=10: 10, 11, 12
by_pairs.case("merge k makes the id first_new + k", np.array([4, 1, 2]), _merges, first_new=10, want=[4, 10])
by_pairs.case(
    "a merge may use what an earlier one has made",
    np.array([3, 1, 2, 5]), _merges, first_new=10, want=[11, 5],
)  # fmt: skip
by_pairs.case(
    "the merge that was learned first goes first, wherever it fits",
    np.array([2, 3, 1, 2]), _merges, first_new=10, want=[2, 11],
)  # fmt: skip
by_pairs.also(np.array([1, 2, 3]), _merges, first_new=10, want=[10, 3])
by_pairs.also(np.array([1, 2, 1, 2, 3, 1, 2]), _merges, first_new=10, want=[10, 10, 11])
by_pairs.case(
    "bytes, with new ids that start at 256", byte_ids("aaabdaaabac"),
    np.array([[97, 97], [97, 98], [256, 257]]), want=[258, 100, 258, 97, 99],
    what='`encode_pairs` for "aaabdaaabac"',
)  # fmt: skip

by_pairs.slip("not kept", "ids = merge", "merge")
by_pairs.slip("backwards", "enumerate(merges)", "reversed([*enumerate(merges)])")
by_pairs.slip("own first", "first_new + k", "256 + k")
by_pairs.slip("from 257", "first_new + k", "first_new + k + 1")


@by_pairs.mistake("leftmost")
def _(ids, merges, first_new=256):
    ids, ranks = ids.tolist(), {tuple(pair): k for k, pair in enumerate(merges.tolist())}
    while fits := [i for i in range(len(ids) - 1) if (ids[i], ids[i + 1]) in ranks]:
        i = fits[0]
        ids[i : i + 2] = [first_new + ranks[ids[i], ids[i + 1]]]
    return np.array(ids)


by_pairs.slip("once each", merge=one_merge.wrong("first alone"))
