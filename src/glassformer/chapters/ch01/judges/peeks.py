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


future.case(
    "a mean over all rows does", _mixed(lambda T: np.full((T, T), 1 / T)), _rows, want=True,
    what="`peeks` for a mean over all rows",
)  # fmt: skip
future.case(
    "a causal mean does not", _mixed(_tri), _rows, want=False, what="`peeks` for a mean over all rows so far"
)
future.also(
    lambda x: 3 * x + 1, _rows, want=False, what="`peeks` for a layer that treats each row on its own"
)
future.also(
    lambda x: 0 * x + 1, _rows, want=False, what="`peeks` for a layer that returns 1 whatever it reads"
)
future.also(_with_table, _rows, want=False, what="`peeks` for a causal layer that reads all six rows or none")
future.case(
    "a mask that lets through one position too many does", _mixed(lambda T: _tri(T, 1)), _rows, want=True,
    what="`peeks` for a mean over all rows so far and one more row",
)  # fmt: skip
future.case(
    "a single row that peeks is enough, even near the end", _mixed(_one_row(4, 5)), _rows, want=True,
    what="`peeks` for a causal mean whose second-to-last row sees the last",
)  # fmt: skip
future.also(
    _mixed(_one_row(0, 1)), _rows, want=True, what="`peeks` for a causal mean whose first row sees the second"
)
future.also(_mixed(_one_row(2, 3)), _rows, want=True, what="`peeks` for a causal mean whose row 2 sees row 3")
future.also(
    _mixed(_one_row(0, 2)),
    _rows,
    want=True,
    what="`peeks` for a causal mean whose row 0 sees row 2 but not row 1",
)
future.also(
    _mixed(_one_row(1, 5)),
    _rows,
    want=True,
    what="`peeks` for a causal mean whose row 1 sees the last row as well",
)
future.case(
    "a transposed mask does", _mixed(lambda T: _tri(T).T), _rows, want=True,
    what="`peeks` for a mean over all rows from here on",
)  # fmt: skip
future.also(
    _mixed(lambda T: _tri(T).T), np.random.default_rng(0).normal(size=(6, 4)), want=True,
    what="`peeks` for a mean over all rows from here on, with x = np.random.default_rng(0).normal(size=(6, 4)),",
)  # fmt: skip
future.also(
    lambda x: x + (x - x.mean(axis=-1, keepdims=True)).mean(axis=0), _rows, want=True,
    what="`peeks` for a layer that subtracts each row's mean and then sees all rows",
)  # fmt: skip
future.also(
    lambda x: _tri(len(x)).T @ _normed(x), _rows, want=True,
    what="`peeks` for a layer that norms its rows and uses a transposed mask",
)  # fmt: skip
future.case(
    "one row has no future",
    _mixed(_tri),
    _rows[:1],
    want=False,
    what="`peeks` for a causal mean over one row",
)


def _changed(x, at):
    changed = np.array(x, dtype=float)
    changed[at] += np.random.default_rng(5).normal(size=changed[at].shape)
    return changed


def _differs(a, b):
    return bool(not np.allclose(a, b))


future.mistake("by shape", lambda f, x: f(x).shape != x.shape)
future.mistake("the whole output", lambda f, x: _differs(f(_changed(x, -1)), f(x)))
future.mistake("the past changed", lambda f, x: _differs(f(_changed(x, 0))[1:], f(x)[1:]))
future.mistake("first row alone", lambda f, x: _differs(f(_changed(x, slice(1, None)))[0], f(x)[0]))
future.mistake("last row alone", lambda f, x: _differs(f(_changed(x, -1))[:-1], f(x)[:-1]))
future.mistake("always", lambda f, x: True)


@future.mistake("one cut")
def _one_cut(f, x):
    t = len(x) // 2
    return _differs(f(_changed(x, slice(t, None)))[:t], f(x)[:t])


@future.mistake("the same again")
def _the_same_again(f, x):
    others = np.random.default_rng(0).normal(size=x.shape)
    halves = ((t, np.concatenate([x[:t], others[t:]])) for t in range(1, len(x)))
    return any(_differs(f(changed)[:t], f(x)[:t]) for t, changed in halves)


@future.mistake("neighbour")
def _neighbour(f, x):
    return any(_differs(f(_changed(x, t))[t - 1], f(x)[t - 1]) for t in range(1, len(x)))


@future.mistake("a constant")
def _a_constant(f, x):
    rows = np.arange(len(x))[:, None]
    return any(_differs(f(x + 7.0 * (rows >= t))[:t], f(x)[:t]) for t in range(1, len(x)))


future.mistake("the other way", lambda f, x: not peeks(f, x))
