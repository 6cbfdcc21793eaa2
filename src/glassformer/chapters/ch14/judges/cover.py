"""Judges "Few tests for many mistakes" (chapter 14): a few tests that together catch as many mistakes as possible.

Axes: N tests, M mistakes.
"""

import itertools

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.shapes import Bool


def cover(caught: Bool[np.ndarray, "N M"]) -> list[int]:
    """The tests, each time the one that catches most of what is left; of equal ones the first."""
    chosen, left = [], caught.any(axis=0)
    while left.any():
        chosen.append(int((caught & left).sum(axis=1).argmax()))
        left = left & ~caught[chosen[-1]]
    return chosen


few = exercise("clinic.cover", cover)


def _table(*rows: str) -> np.ndarray:
    return np.array([[one == "#" for one in row] for row in rows])


few.case("one test catches all", _table("#..", "###", ".##"), want=[1], what="cover(#.. ### .##)")
few.case(
    "the second test is chosen by what is left, not by everything it catches",
    _table("####..", "###.#.", "....##"), want=[0, 2], what="cover(####.. ###.#. ....##)",
)  # fmt: skip
few.case(
    "of equally good tests, the first", _table(".##", "##.", "#.#"), want=[0, 1], what="cover(.## ##. #.#)"
)
few.case(
    "mistakes that no test catches are ignored", _table("#...", ".#.."), want=[0, 1], what="cover(#... .#..)"
)
few.case("a table in which nothing is caught", _table("...", "..."), want=[], what="cover(... ...)")
few.case("the greedy choice, even if it is not the smallest", _table(
    "####....", "#.#.#.#.", ".#.#.#.#", "....##..",
), want=[0, 1, 2], what="cover(####.... #.#.#.#. .#.#.#.# ....##..)")  # fmt: skip


def _by_count(caught):
    order = np.argsort(-caught.sum(axis=1), kind="stable")
    chosen, left = [], caught.any(axis=0)
    for i in order:
        if not left.any():
            break
        chosen.append(int(i))
        left = left & ~caught[i]
    return chosen


def _fewest(caught):
    for n in range(1, len(caught) + 1):
        for some in itertools.combinations(range(len(caught)), n):
            if (caught[list(some)].any(axis=0) == caught.any(axis=0)).all():
                return list(some)
    return []


def _last_of_equal(caught):
    chosen, left = [], caught.any(axis=0)
    while left.any():
        counts = (caught & left).sum(axis=1)
        chosen.append(len(counts) - 1 - int(counts[::-1].argmax()))
        left = left & ~caught[chosen[-1]]
    return chosen


few.mistake("by all they catch", _by_count)
few.mistake("fewest", _fewest)
few.mistake("the last of equal", _last_of_equal)
few.mistake("all tests", lambda caught: list(range(len(caught))))
few.mistake("all tests", lambda caught: np.argsort(-caught.sum(axis=1), kind="stable"))
few.mistake("looks too late", lambda caught: cover(caught) or [0])
few.mistake("one alone", lambda caught: cover(caught)[:1])
few.mistake("from one", lambda caught: [1 + i for i in cover(caught)])
few.mistake("in order", lambda caught: sorted(_by_first(caught)))


def _by_first(caught):
    """Returns each test that adds something, in the order of the table."""
    chosen, left = [], caught.any(axis=0)
    for i, row in enumerate(caught):
        if (row & left).any():
            chosen.append(i)
            left = left & ~row
    return chosen
