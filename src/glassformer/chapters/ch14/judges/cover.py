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


def _case(title: str, rows: str, want: list[int]) -> None:
    table = np.array([[one == "#" for one in row] for row in rows.split()])
    few.case(title, table, want=want, what=f"cover({rows})")


_case("one test catches all", "#.. ### .##", [1])
_case(
    "the second test is chosen by what is left, not by everything it catches", "####.. ###.#. ....##", [0, 2]
)
_case("of equally good tests, the first", ".## ##. #.#", [0, 1])
_case("mistakes that no test catches are ignored", "#... .#..", [0, 1])
_case("a table in which nothing is caught", "... ...", [])
_case("the greedy choice, even if it is not the smallest", "####.... #.#.#.#. .#.#.#.# ....##..", [0, 1, 2])


def _fewest(caught):
    for n in range(1, len(caught) + 1):
        for some in itertools.combinations(range(len(caught)), n):
            if (caught[list(some)].any(axis=0) == caught.any(axis=0)).all():
                return list(some)
    return []


few.mistake("fewest", _fewest)
few.mistake("all tests", lambda caught: list(range(len(caught))))
few.mistake("all tests", lambda caught: np.argsort(-caught.sum(axis=1), kind="stable"))
