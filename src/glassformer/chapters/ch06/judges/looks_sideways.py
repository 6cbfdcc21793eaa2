"""Judges "Who looks sideways?" (chapter 06).

A test that finds out whether a row of the output depends on another row of the input.

Axes: T positions, D d_model.
"""

from collections.abc import Callable

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


def _layer(what: str, layer: Callable, sees: bool, title: str = "", x: np.ndarray = _rows) -> None:
    """Add a check of that title, or another call to the last one: `looks_sideways` of this layer is `sees`."""
    sideways.case(title, layer, x, want=sees, what=f"`looks_sideways` for {what}")


_layer(
    "a feed-forward network", lambda x: np.maximum(x @ _W, 0) @ _W.T, False, "a feed-forward network does not"
)
_layer(
    "a layer that returns 1 whatever it reads",
    lambda x: 0 * x + 1, False, "nor does a layer that returns 1 whatever it reads",
)  # fmt: skip
_layer("a mean over all rows", lambda x: x + x.mean(axis=0), True, "a mean over all rows does")
_layer(
    "a layer that reverses the order of the rows", lambda x: x[::-1], True,
    "a layer that swaps rows looks sideways, even if a change in one row moves only one row",
)  # fmt: skip
_layer("a layer that moves every row one position down", lambda x: np.roll(x, 1, axis=0), True)
_layer(
    "a mean over rows that were centred first",
    lambda x: x + (x - x.mean(axis=1, keepdims=True)).mean(axis=0), True, "after a norm, and at any feature",
)  # fmt: skip
for _feature in range(3):
    _layer("a layer that shares a single feature", lambda x, i=_feature: x + x[:, [i]].mean(axis=0), True)
_layer(
    "a sum of all rows so far",
    lambda x: np.cumsum(x, axis=0), True, "looking in one direction is enough, forwards or backwards",
)  # fmt: skip
_layer("a sum of all rows from here on", lambda x: np.cumsum(x[::-1], axis=0)[::-1], True)
for _row in range(1, 5):
    _layer("a layer whose row 0 sees another row", lambda x, t=_row: x + _only(0, x) * x[t], True)
_layer("a layer whose row 2 sees row 3", lambda x: x + _only(2, x) * x[3 % len(x)], True)
_layer("a layer whose last row sees row 1", lambda x: np.tanh(x) + _only(4, x) * x[1 % len(x)], True)
_layer(
    "a layer that multiplies row t by t + 1", lambda x: x * np.arange(1, len(x) + 1)[:, None], False,
    "a layer that treats each position differently does not",
)  # fmt: skip
_layer("a single row", lambda x: x + x.mean(axis=0), False, "one row has no others", _rows[:1])
