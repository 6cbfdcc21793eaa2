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


_first = np.array([[True] * 3, [True, True, False]])


def _lopsided(x):
    """The last number's slope is next to nothing."""
    return _curve(np.where(_first, x, 0)) + 1e-10 * float(x[1, 2])


_x, _ten = drawn(2, 3, seed=3), drawn(10, 10, seed=4) + 0.1
_right, _single = _curve_slope(_x), _x.astype(np.float32)


def _off(*at: tuple[int, int], by: float) -> np.ndarray:
    """The right gradient, except that the first of these slopes is too large, and the others are too small."""
    grad = _right.copy()
    for number, place in enumerate(at):
        grad[place] += by * (-1) ** number
    return grad


def _scaled(by: float) -> Callable[[np.ndarray], float]:
    return lambda x: by * _curve(x)


for _title, _f, _at, _grad, _want in (
    ("a right gradient", _curve, _x, _right, True),
    ("slightly wrong in the last number", _curve, _x, _off((1, 2), by=0.01), False),
    ("twice as long", _curve, _x, 2 * _right, False),
    ("the opposite sign", _curve, _x, -_right, False),
    ("two mistakes that cancel in the sum", _curve, _x, _off((0, 0), (0, 1), by=0.02), False),
    ("small slopes, wrong by half", _scaled(1e-5), _x, 0.5e-5 * _right, False),
    ("small slopes, right", _scaled(1e-5), _x, 1e-5 * _right, True),
    ("one row instead of two, which would broadcast", _curve, np.tile(_x[:1], (2, 1)), _right[0], False),
    ("x in single precision: nudge a copy in float64", _curve, _single, _curve_slope(_single.astype(float)), True),
    ("even smaller slopes, wrong by half", _scaled(1e-10), _x, 0.5e-10 * _right, False),
    ("large slopes, right", _scaled(1e5), _x, 1e5 * _right, True),
    ("one slope is nearly 0 and the others are not: right", _lopsided, _x, np.where(_first, _right, 1e-10), True),
    ("wrong in the fifth digit of the largest slope", _curve, _x, _off((0, 1), by=5e-5 * abs(_right).max()), False),
    ("a slope that is not a number", _curve, _x, _off((1, 0), by=np.nan), False),
    ("a hundred numbers that depend on each other: right", lambda x: float(x.sum() ** 2), _ten,
     np.full((10, 10), 2 * _ten.sum()), True),
):  # fmt: skip
    gradient_check.case(_title, _f, _at, _grad, want=_want, what="gradcheck(f, x, grad)")
