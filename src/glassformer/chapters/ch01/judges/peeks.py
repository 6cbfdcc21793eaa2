"""Judges "Does it peek?" (chapter 01): a test that finds out whether a function's rows depend on later rows.

Axes: T tokens, D d_model.
"""

from collections.abc import Callable

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.shapes import Float


def peeks(f: Callable[[np.ndarray], np.ndarray], x: Float[np.ndarray, "T D"]) -> bool:
    """Returns whether some row of f(x) changes when only rows after it are changed."""
    before, rng = f(x), np.random.default_rng(0)
    for t in range(len(x) - 1):
        changed = np.array(x, dtype=float)
        changed[t + 1 :] += rng.normal(size=changed[t + 1 :].shape)
        if not np.allclose(f(changed)[: t + 1], before[: t + 1]):
            return True
    return False


future = exercise("machine.peeks", peeks)


def _mixed(weights: Callable[[int], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    """A layer that mixes rows with these weights (T, T), as attention does."""
    return lambda x: weights(len(x)) @ x


def _tri(T: int, k: int = 0) -> np.ndarray:
    """Each row the mean of those up to itself, or k further."""
    mask = np.tri(T, T, k)
    return mask / np.maximum(mask.sum(axis=1, keepdims=True), 1)


def _one_row(row: int, *seen: int) -> Callable[[int], np.ndarray]:
    """Returns the right weights, except that one row sees only itself and these."""

    def weights(T):
        weights = _tri(T)
        weights[row] = 0
        weights[row, [row, *seen]] = 1 / (1 + len(seen))
        return weights

    return weights


def _normed(x: np.ndarray) -> np.ndarray:
    """Every row with mean 0 and variance 1: what is added to all of a row, and its length, are gone."""
    return (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)


_rows = np.random.default_rng(3).normal(size=(6, 4))
_table = np.random.default_rng(4).normal(size=_rows.shape)


def _with_table(x):
    if len(x) != len(_table):
        raise ValueError(f"this layer reads {len(_table)} rows at a time, got {len(x)}")
    return _tri(len(x)) @ (x + _table)


def _layer(what: str, layer: Callable, sees: bool, title: str = "", x: np.ndarray = _rows) -> None:
    """Add a check of that title, or another call to the last one: `peeks` of this layer is `sees`."""
    future.case(title, layer, x, want=sees, what=f"`peeks` for {what}")


_layer("a mean over all rows", _mixed(lambda T: np.full((T, T), 1 / T)), True, "a mean over all rows does")
_layer("a mean over all rows so far", _mixed(_tri), False, "a causal mean does not")
_layer("a layer that treats each row on its own", lambda x: 3 * x + 1, False)
_layer("a layer that returns 1 whatever it reads", lambda x: 0 * x + 1, False)
_layer("a causal layer that reads all six rows or none", _with_table, False)
_layer(
    "a mean over all rows so far and one more row",
    _mixed(lambda T: _tri(T, 1)), True, "a mask that lets through one position too many does",
)  # fmt: skip
_layer(
    "a causal mean whose second-to-last row sees the last",
    _mixed(_one_row(4, 5)), True, "a single row that peeks is enough, even near the end",
)  # fmt: skip
_layer("a causal mean whose first row sees the second", _mixed(_one_row(0, 1)), True)
_layer("a causal mean whose row 2 sees row 3", _mixed(_one_row(2, 3)), True)
_layer("a causal mean whose row 0 sees row 2 but not row 1", _mixed(_one_row(0, 2)), True)
_layer("a causal mean whose row 1 sees the last row as well", _mixed(_one_row(1, 5)), True)
_ahead = _mixed(lambda T: _tri(T).T)
_layer("a mean over all rows from here on", _ahead, True, "a transposed mask does")
_layer(
    "a mean over all rows from here on, with x = np.random.default_rng(0).normal(size=(6, 4)),",
    _ahead, True, x=np.random.default_rng(0).normal(size=(6, 4)),
)  # fmt: skip
_layer(
    "a layer that subtracts each row's mean and then sees all rows",
    lambda x: x + (x - x.mean(axis=-1, keepdims=True)).mean(axis=0), True,
)  # fmt: skip
_layer("a layer that norms its rows and uses a transposed mask", lambda x: _ahead(_normed(x)), True)
_layer("a causal mean over one row", _mixed(_tri), False, "one row has no future", _rows[:1])
