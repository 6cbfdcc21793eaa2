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


def _found(
    title: str, tables: Any, n_new: int, width: int, ids: list[int], p: float, also: bool = False
) -> None:
    what = f"beam with {n_new} new ids and a width of {width}"
    add: Any = tree.also if also else lambda *args, **case: tree.case(title, *args, **case)
    add(_after(tables), n_new, width, want=(ids, math.log(p)), what=what)


@tree.check("a pair: the ids, then their log-probability")
def _(learner):
    got = learner(_after(_TREE), 2, 1)
    if isinstance(got, list | tuple) and len(got) == 1:
        raise Wrong(
            "you returned all of the texts. Return only the best one: its ids and its log-probability."
        )
    if [np.ndim(one) for one in expect_parts(got, tree.parts)] == [0, 1]:
        raise Wrong("your pair is in the wrong order: the ids come first.")


_found("one step: the likeliest id", _TREE, 1, 2, [0], 0.5)
_found("a width of 1 is greedy: 0.5 · 0.4", _TREE, 2, 1, [0, 0], 0.2)
_found("two texts find what greedy misses: 0.4 · 0.9", _TREE, 2, 2, [1, 1], 0.36)
_found("three steps, greedy", _LONG, 3, 1, [0, 0, 0], 0.45 * 0.5 * 0.4)
_found(
    "width 2: the best two of all extensions, whichever text they extend",
    _LONG,
    3,
    2,
    [1, 0, 0],
    0.35 * 0.55 * 0.6,
)
_found("width 3", _LONG, 3, 3, [2, 0, 0], 0.2 * 0.94 * 0.97)
_found("both survivors extend the same text: 0.6 · 0.45 · 0.9", _TWINS, 3, 2, [0, 1, 0], 0.6 * 0.45 * 0.9)
_found("a width larger than the number of texts", _TREE, 2, 50, [1, 1], 0.36)


def _searched(
    score=lambda total, log_p: total + log_p, keep=None, last=lambda texts: texts[0], gives=lambda x: x
):
    def wrong(next_log_p, n_new, width):
        texts = [((), 0.0)]
        for _ in range(n_new):
            grown = [
                [((*ids, i), score(total, float(x))) for i, x in enumerate(next_log_p(ids))]
                for ids, total in texts
            ]
            if keep is None:
                texts = sorted((text for own in grown for text in own), key=lambda text: -text[1])[:width]
            else:
                texts = sorted(keep(grown, width), key=lambda text: -text[1])
        ids, total = last(texts)
        return list(ids), gives(total)

    return wrong


def _best_of_each(grown, width):
    if len(grown) == 1:
        return sorted(grown[0], key=lambda text: -text[1])[:width]
    return [max(own, key=lambda text: text[1]) for own in grown]


def _unlikeliest(grown, width):
    return sorted((text for own in grown for text in own), key=lambda text: text[1])[:width]


tree.mistake("greedy", lambda f, n, width: beam(f, n, 1))
tree.mistake("everything", lambda f, n, width: beam(f, n, 10**6))
tree.mistake("one child each", _searched(keep=_best_of_each))
tree.mistake("last step alone", _searched(score=lambda total, log_p: log_p))
tree.mistake("probabilities added", _searched(score=lambda total, log_p: total + math.exp(log_p)))
tree.mistake("a probability", _searched(gives=math.exp))
tree.mistake("unlikeliest kept", _searched(keep=_unlikeliest))
tree.mistake("unlikeliest kept", _searched(keep=_unlikeliest, last=lambda texts: texts[-1]))
tree.mistake("worst of them", _searched(last=lambda texts: texts[-1]))
tree.mistake("per id", lambda f, n, width: (lambda ids, total: (ids, total / n))(*beam(f, n, width)))
