"""Judges "Who looks sideways?" (chapter 06).

A test that finds out whether a row of the output depends on another row of the input.

Axes: T positions, D d_model.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.shapes import Float


def looks_sideways(f: Callable[[np.ndarray], np.ndarray], x: Float[np.ndarray, "T D"]) -> bool:
    """Returns whether a row of f(x) depends on another row of x."""
    before = np.asarray(f(x))
    for t in range(len(x)):
        changed = x.copy()
        changed[t] += np.random.default_rng(t).normal(size=x.shape[1])
        others = np.arange(len(x)) != t
        if not np.allclose(np.asarray(f(changed))[others], before[others]):
            return True
    return False


sideways = exercise("feedforward.looks_sideways", looks_sideways)

_rows = numbers(5, 3, seed=3)
_W = numbers(3, 3, seed=4)


def _only(row: int, x: np.ndarray) -> np.ndarray:
    """A column with a 1 in that row."""
    return (np.arange(len(x)) == row)[:, None]


def _said(what: str) -> dict[str, Any]:
    return {"what": f"`looks_sideways` for {what}"}


sideways.case(
    "a feed-forward network does not",
    lambda x: np.maximum(x @ _W, 0) @ _W.T, _rows, want=False, **_said("a feed-forward network"),
)  # fmt: skip
sideways.case(
    "nor does a layer that returns 1 whatever it reads",
    lambda x: 0 * x + 1, _rows, want=False, **_said("a layer that returns 1 whatever it reads"),
)  # fmt: skip
sideways.case(
    "a mean over all rows does",
    lambda x: x + x.mean(axis=0),
    _rows,
    want=True,
    **_said("a mean over all rows"),
)
sideways.case(
    "a layer that swaps rows looks sideways, even if a change in one row moves only one row",
    lambda x: x[::-1], _rows, want=True, **_said("a layer that reverses the order of the rows"),
)  # fmt: skip
sideways.also(
    lambda x: np.roll(x, 1, axis=0),
    _rows,
    want=True,
    **_said("a layer that moves every row one position down"),
)
sideways.case(
    "after a norm, and at any feature",
    lambda x: x + (x - x.mean(axis=1, keepdims=True)).mean(axis=0), _rows, want=True,
    **_said("a mean over rows that were centred first"),
)  # fmt: skip
for _feature in range(3):
    sideways.also(
        lambda x, i=_feature: x + x[:, [i]].mean(axis=0), _rows, want=True,
        **_said("a layer that shares a single feature"),
    )  # fmt: skip
sideways.case(
    "looking in one direction is enough, forwards or backwards",
    lambda x: np.cumsum(x, axis=0), _rows, want=True, **_said("a sum of all rows so far"),
)  # fmt: skip
sideways.also(
    lambda x: np.cumsum(x[::-1], axis=0)[::-1], _rows, want=True, **_said("a sum of all rows from here on")
)
for _row in range(1, 5):
    sideways.also(
        lambda x, t=_row: x + _only(0, x) * x[t],
        _rows,
        want=True,
        **_said("a layer whose row 0 sees another row"),
    )
sideways.also(
    lambda x: x + _only(2, x) * x[3 % len(x)], _rows, want=True, **_said("a layer whose row 2 sees row 3")
)
sideways.also(
    lambda x: np.tanh(x) + _only(4, x) * x[1 % len(x)], _rows, want=True,
    **_said("a layer whose last row sees row 1"),
)  # fmt: skip
sideways.case(
    "a layer that treats each position differently does not",
    lambda x: x * np.arange(1, len(x) + 1)[:, None], _rows, want=False,
    **_said("a layer that multiplies row t by t + 1"),
)  # fmt: skip
sideways.case(
    "one row has no others", lambda x: x + x.mean(axis=0), _rows[:1], want=False, **_said("a single row")
)


def _touched(x, t):
    changed = np.array(x, dtype=float)
    changed[t] += np.random.default_rng(9).normal(size=changed[t].shape)
    return changed


def _moves(f, x, t, rows):
    return not np.allclose(np.asarray(f(_touched(x, t)))[rows], np.asarray(f(x))[rows])


def _rows_moved(f, x, t):
    return abs(np.asarray(f(_touched(x, t))) - np.asarray(f(x))).max(axis=1) > 1e-9


def _sees(f, x, t, by):
    """Returns whether another row changes when `by` is added to row t."""
    changed = np.array(x, dtype=float)
    changed[t] += by
    others = np.arange(len(x)) != t
    return not np.allclose(np.asarray(f(changed))[others], np.asarray(f(x))[others])


@sideways.mistake("shuffles")
def _(f, x):
    order = np.arange(len(x))[::-1]
    return bool(not np.allclose(f(x[order]), np.asarray(f(x))[order]))


@sideways.mistake("row by row")
def _(f, x):
    alone = np.concatenate([np.asarray(f(x[[t]])) for t in range(len(x))])
    return bool(not np.allclose(alone, f(x)))


sideways.mistake("first row", lambda f, x: _moves(f, x, 0, slice(1, None)))
sideways.mistake("last row", lambda f, x: _moves(f, x, -1, slice(None, -1)))
sideways.mistake("its own row", lambda f, x: any(_moves(f, x, t, slice(None)) for t in range(len(x))))
sideways.mistake("too many rows", lambda f, x: any(_rows_moved(f, x, t).sum() > 1 for t in range(len(x))))
sideways.mistake("a row must move", lambda f, x: any(_rows_moved(f, x, t).sum() != 1 for t in range(len(x))))
sideways.mistake(
    "the same everywhere", lambda f, x: any(_sees(f, x, t, np.ones(x.shape[1])) for t in range(len(x)))
)
sideways.mistake(
    "one feature", lambda f, x: any(_sees(f, x, t, np.eye(x.shape[1])[0]) for t in range(len(x)))
)
sideways.mistake("earlier rows", lambda f, x: any(_moves(f, x, t, slice(t)) for t in range(len(x))))
sideways.mistake("later rows", lambda f, x: any(_moves(f, x, t, slice(t + 1, None)) for t in range(len(x))))
sideways.mistake(
    "some rows", lambda f, x: any(_sees(f, x, t, np.arange(1, 1 + x.shape[1])) for t in {0, 1, len(x) - 1})
)
sideways.mistake("neighbours", lambda f, x: any(_moves(f, x, t, [t - 1]) for t in range(1, len(x))))
sideways.mistake("the other way", lambda f, x: not looks_sideways(f, x))
sideways.mistake("by shape", lambda f, x: np.shape(f(x)) != np.shape(x))
