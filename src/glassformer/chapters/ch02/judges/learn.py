"""Judges "Learning the merges" (chapter 02): byte-pair encoding learns its merges in order.

Axes: T tokens, M merges.
"""

import itertools
from collections import Counter

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.shapes import Int, Integer

from .best_pair import best_pair
from .merge import merge


def learn(ids: Integer[np.ndarray, " T"], n_merges: int, first_new: int = 256) -> Int[np.ndarray, "M 2"]:
    """Returns the pairs that byte-pair encoding merges, in order; merge k makes the id first_new + k."""
    merges = []
    for k in range(n_merges):
        merges.append(best_pair(ids))
        ids = merge(ids, tuple(merges[-1]), first_new + k)
    return np.array(merges)


learning = exercise("tokens.learn", learn, axes="M 2")


def byte_ids(text):
    """Returns the bytes of a text as ids."""
    return np.frombuffer(text.encode(), np.uint8).astype(np.int64)


# Worked by hand: aaabdaaabac is the example of Wikipedia's page on byte-pair encoding; a is 97.
_wiki = byte_ids("aaabdaaabac")
learning.case(
    "the first merge is the most frequent pair",
    _wiki, 1, want=[[97, 97]], what='`learn` for "aaabdaaabac" with 1 merge',
)  # fmt: skip
learning.case(
    "the second pair is counted after the first merge, and new ids may be merged again",
    _wiki, 3, want=[[97, 97], [97, 98], [256, 257]], what='`learn` for "aaabdaaabac" with 3 merges',
)  # fmt: skip
learning.case(
    "new ids start at first_new", np.array([0, 1, 0, 1, 0, 1, 2, 0, 1, 0, 1]), 2, first_new=10,
    want=[[0, 1], [10, 10]], what="learn([0, 1, 0, 1, 0, 1, 2, 0, 1, 0, 1], 2, first_new=10)",
)  # fmt: skip


def _by_strings(text, n_merges):
    """Returns the same merges, computed in another way: with strings in place of ids."""
    tokens, ids, merges = list(text), {chr(i): i for i in range(256)}, []
    for k in range(n_merges):
        pairs = Counter(itertools.pairwise(tokens))
        a, b = min(pairs, key=lambda pair: (-pairs[pair], ids[pair[0]], ids[pair[1]]))
        merges.append([ids[a], ids[b]])
        ids[a + b] = 256 + k
        joined: list[str] = []
        while tokens:
            joined.append("".join(tokens[:2]) if tokens[:2] == [a, b] else tokens[0])
            del tokens[: 2 if tokens[:2] == [a, b] else 1]
        tokens = joined
    return np.array(merges)


_rose = "rose is a rose is a rose is a rose"
learning.case(
    "a whole line",
    byte_ids(_rose), 6, want=_by_strings(_rose, 6), what='`learn` for "rose is a rose …" with 6 merges',
)  # fmt: skip


@learning.mistake("never merged")
def _(ids, n_merges, first_new=256):
    pairs = Counter(itertools.pairwise(ids.tolist()))
    return np.array(sorted(pairs, key=lambda p: (-pairs[p], p))[:n_merges])


learning.slip("not kept", "ids = merge", "merge")
learning.slip("own first", "first_new + k", "256 + k")
learning.slip("backwards", "np.array(merges)", "np.array(merges[::-1])")
learning.slip("from 257", "first_new + k", "first_new + k + 1")
