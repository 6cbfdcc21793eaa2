"""Judges "Several texts at once" (chapter 11): the likeliest texts are continued side by side.

Axes: T positions, V vocabulary.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import Wrong, expect_parts
from glassformer.shapes import Float


def beam(
    next_log_p: Callable[[tuple[int, ...]], Float[np.ndarray, " V"]], n_new: int, width: int
) -> tuple[list[int], float]:
    """Continues the `width` likeliest texts at every step; returns the likeliest and its log-probability."""
    texts = [((), 0.0)]
    for _ in range(n_new):
        grown = [
            ((*ids, token), total + float(log_p))
            for ids, total in texts
            for token, log_p in enumerate(next_log_p(ids))
        ]
        texts = sorted(grown, key=lambda text: -text[1])[:width]
    ids, total = texts[0]
    return list(ids), total


tree = exercise("generating.beam", beam, parts=("ids", "log-probability"), axes=("T", ""))

Tables = Mapping[tuple[int, ...], Sequence[float]]
_TREE: Tables = {
    (): (0.5, 0.4, 0.1), (0,): (0.4, 0.35, 0.25), (1,): (0.05, 0.9, 0.05), (2,): (0.3, 0.3, 0.4),
}  # fmt: skip
_LONG: Tables = {
    (): (0.45, 0.35, 0.2), (0,): (0.5, 0.3, 0.2), (1,): (0.55, 0.25, 0.2), (2,): (0.94, 0.04, 0.02),
    (0, 0): (0.4, 0.3, 0.3), (1, 0): (0.6, 0.2, 0.2), (2, 0): (0.97, 0.02, 0.01), (0, 1): (0.9, 0.06, 0.04),
}  # fmt: skip

_TWINS: Tables = {(): (0.6, 0.3, 0.1), (0,): (0.5, 0.45, 0.05), (0, 1): (0.9, 0.06, 0.04)}


def _after(tables: Tables) -> Callable[[Any], np.ndarray]:
    """Returns a function from ids to the next token's log-probabilities; the same for all ids without a table."""

    def next_log_p(ids: Any) -> np.ndarray:
        return np.log(tables.get(tuple(int(one) for one in ids), (0.4, 0.3, 0.3)))

    return next_log_p


def _found(title: str, tables: Any, n_new: int, width: int, ids: list[int], p: float) -> None:
    what = f"beam with {n_new} new ids and a width of {width}"
    tree.case(title, _after(tables), n_new, width, want=(ids, math.log(p)), what=what)


@tree.check("a pair: the ids, then their log-probability")
def _(learner):
    got = learner(_after(_TREE), 2, 1)
    if isinstance(got, list | tuple) and len(got) == 1:
        raise Wrong("you returned all of the texts. Return only the best: its ids and its log-probability.")
    if [np.ndim(one) for one in expect_parts(got, tree.parts)] == [0, 1]:
        raise Wrong("your pair is in the wrong order: the ids come first.")


_found("one step: the likeliest id", _TREE, 1, 2, [0], 0.5)
_found("a width of 1 is greedy: 0.5 · 0.4", _TREE, 2, 1, [0, 0], 0.2)
_found("two texts find what greedy misses: 0.4 · 0.9", _TREE, 2, 2, [1, 1], 0.36)
_found("three steps, greedy", _LONG, 3, 1, [0, 0, 0], 0.45 * 0.5 * 0.4)
_title = "width 2: the best two of all extensions, whichever text they extend"
_found(_title, _LONG, 3, 2, [1, 0, 0], 0.35 * 0.55 * 0.6)
_found("width 3", _LONG, 3, 3, [2, 0, 0], 0.2 * 0.94 * 0.97)
_found("both survivors extend the same text: 0.6 · 0.45 · 0.9", _TWINS, 3, 2, [0, 1, 0], 0.6 * 0.45 * 0.9)
_found("a width larger than the number of texts", _TREE, 2, 50, [1, 1], 0.36)
