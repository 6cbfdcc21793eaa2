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


def _fewest(caught):
    for n in range(1, len(caught) + 1):
        for some in itertools.combinations(range(len(caught)), n):
            if (caught[list(some)].any(axis=0) == caught.any(axis=0)).all():
                return list(some)
    return []


_MOST = "(caught & left).sum(axis=1).argmax()"
few.slip("by all they catch", _MOST, 'np.argsort(-caught.sum(axis=1), kind="stable")[len(chosen)]')
few.mistake("fewest", _fewest)
few.slip("the last of equal", _MOST, "len(caught) - 1 - (caught & left)[::-1].sum(axis=1).argmax()")
few.mistake("all tests", lambda caught: list(range(len(caught))))
few.mistake("all tests", lambda caught: np.argsort(-caught.sum(axis=1), kind="stable"))
few.slip("looks too late", "return chosen", "return chosen or [0]")
few.slip("one alone", "return chosen", "return chosen[:1]")
few.slip("from one", "return chosen", "return [1 + i for i in chosen]")
few.slip("in order", "sum(axis=1)", "any(axis=1)")
