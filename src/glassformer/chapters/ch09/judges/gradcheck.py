"""Judges "Trust nobody" (chapter 09): a gradient check by finite differences."""

from collections.abc import Callable

import numpy as np

from glassformer.exercises.catalogue import exercise

from .slopes import drawn


def gradcheck(f: Callable[[np.ndarray], float], x: np.ndarray, grad: np.ndarray) -> bool:
    """Returns whether `grad` is the gradient of f at x, by nudging each number up and down, in float64."""
    x = np.array(x, dtype=np.float64)
    if grad.shape != x.shape:
        return False
    measured = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        before = x[place]
        x[place] = before + 1e-5
        up = f(x)
        x[place] = before - 1e-5
        measured[place] = (up - f(x)) / 2e-5
        x[place] = before
    return bool(np.abs(measured - grad).max() <= 1e-5 * np.abs(measured).max())


gradient_check = exercise("back.gradcheck", gradcheck)


def _curve(x):
    return float((x**3).sum() + np.sin(5 * x).sum())


def _curve_slope(x):
    return 3 * x**2 + 5 * np.cos(5 * x)


def _faint(x):
    return 1e-5 * _curve(x)


_first = np.array([[True] * 3, [True, True, False]])


def _lopsided(x):
    """The last number's slope is next to nothing."""
    return _curve(np.where(_first, x, 0)) + 1e-10 * float(x[1, 2])


def _square_of_sum(x):
    return float(x.sum() ** 2)


_x = drawn(2, 3, seed=3)
_right = _curve_slope(_x)
gradient_check.case("a right gradient", _curve, _x, _right, want=True)
_other = _right.copy()
_other[1, 2] += 0.01
gradient_check.case("slightly wrong in the last number", _curve, _x, _other, want=False)
gradient_check.case("twice as long", _curve, _x, 2 * _right, want=False)
gradient_check.case("the opposite sign", _curve, _x, -_right, want=False)
_other = _right.copy()
_other[0, 0] += 0.02
_other[0, 1] -= 0.02
gradient_check.case("two mistakes that cancel in the sum", _curve, _x, _other, want=False)
gradient_check.case("small slopes, wrong by half", _faint, _x, 0.5e-5 * _right, want=False)
gradient_check.also(_faint, _x, 1e-5 * _right, want=True)
gradient_check.case(
    "one row instead of two, which would broadcast", _curve, np.tile(_x[:1], (2, 1)), _right[0], want=False
)
gradient_check.case(
    "x in single precision: nudge a copy in float64", _curve, _x.astype(np.float32),
    _curve_slope(_x.astype(np.float32).astype(np.float64)), want=True,
)  # fmt: skip
gradient_check.case(
    "even smaller slopes, wrong by half", lambda x: 1e-10 * _curve(x), _x, 0.5e-10 * _right, want=False,
    what="gradcheck(f, x, grad)",
)  # fmt: skip
gradient_check.case(
    "large slopes, right", lambda x: 1e5 * _curve(x), _x, 1e5 * _right, want=True,
    what="gradcheck(f, x, grad)",
)  # fmt: skip
gradient_check.case(
    "one slope is nearly 0 and the others are not: right",
    _lopsided,
    _x,
    np.where(_first, _right, 1e-10),
    want=True,
)
_other = _right.copy()
_other[0, 1] += 5e-5 * abs(_right).max()
gradient_check.case("wrong in the fifth digit of the largest slope", _curve, _x, _other, want=False)
_other = _right.copy()
_other[1, 0] = np.nan
gradient_check.case("a slope that is not a number", _curve, _x, _other, want=False)
_ten = drawn(10, 10, seed=4) + 0.1
gradient_check.case(
    "a hundred numbers that depend on each other: right", _square_of_sum, _ten,
    np.full((10, 10), 2 * _ten.sum()), want=True,
)  # fmt: skip


def _measured(f, x, h=1e-5, *, one_side=False, dtype=np.float64):
    x = np.array(x, dtype=dtype)
    found = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[place] += h
        down[place] -= 0 if one_side else h
        found[place] = (f(up) - f(down)) / (h if one_side else 2 * h)
    return found


def _near(a, b, off=1e-5):
    return bool(np.shape(a) == np.shape(b) and np.abs(a - b).max() <= off * np.abs(a).max())


gradient_check.mistake("one side", lambda f, x, g: _near(_measured(f, x, 1e-2, one_side=True), g))
gradient_check.mistake("always", lambda f, x, g: True)
gradient_check.mistake(
    "sum alone", lambda f, x, g: bool(abs((_measured(f, x) - g).sum()) < 1e-6 * abs(g).max())
)
gradient_check.mistake("first number", lambda f, x, g: bool(np.isclose(_measured(f, x).flat[0], g.flat[0])))
gradient_check.mistake("size alone", lambda f, x, g: _near(abs(_measured(f, x)), abs(g)))
gradient_check.mistake(
    "direction alone",
    lambda f, x, g: _near(_measured(f, x) / np.linalg.norm(_measured(f, x)), g / np.linalg.norm(g), 1e-4),
)
gradient_check.mistake(
    "absolute", lambda f, x, g: bool(np.shape(g) == np.shape(x) and abs(_measured(f, x) - g).max() < 1e-4)
)
gradient_check.mistake(
    "absolute",
    lambda f, x, g: bool(np.shape(g) == np.shape(x) and np.allclose(_measured(f, x), g, rtol=1e-5)),
)
gradient_check.mistake(
    "absolute", lambda f, x, g: bool(np.shape(g) == np.shape(x) and abs(_measured(f, x) - g).max() < 1e-7)
)
gradient_check.mistake(
    "each by itself",
    lambda f, x, g: bool(
        np.shape(g) == np.shape(x) and (abs(_measured(f, x) - g) <= 1e-5 * abs(_measured(f, x))).all()
    ),
)
gradient_check.mistake("loose", lambda f, x, g: _near(_measured(f, x), g, 3e-4))
gradient_check.mistake(
    "nan",
    lambda f, x, g: bool(
        np.shape(g) == np.shape(x) and not abs(_measured(f, x) - g).max() > 1e-5 * abs(_measured(f, x)).max()
    ),
)


@gradient_check.mistake("not restored")
def _(f, x, g):
    moved, found = np.array(x, dtype=np.float64), np.zeros(np.shape(x))
    for place in np.ndindex(moved.shape):
        moved[place] += 1e-5
        up = f(moved)
        moved[place] -= 2e-5
        found[place] = (up - f(moved)) / 2e-5
    return _near(found, g)


gradient_check.mistake(
    "broadcast",
    lambda f, x, g: bool(abs(_measured(f, x) - g).max() <= 1e-5 * abs(_measured(f, x)).max()),
)
gradient_check.mistake(
    "single precision", lambda f, x, g: _near(_measured(f, x, dtype=np.asarray(x).dtype), g)
)
