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


def _off(*at: tuple[int, int], by: float) -> np.ndarray:
    """The right gradient, except that the first of these slopes is too large, and the others are too small."""
    grad = _right.copy()
    for number, place in enumerate(at):
        grad[place] += by * (-1) ** number
    return grad


gradient_check.case("a right gradient", _curve, _x, _right, want=True)
gradient_check.case("slightly wrong in the last number", _curve, _x, _off((1, 2), by=0.01), want=False)
gradient_check.case("twice as long", _curve, _x, 2 * _right, want=False)
gradient_check.case("the opposite sign", _curve, _x, -_right, want=False)
gradient_check.case(
    "two mistakes that cancel in the sum", _curve, _x, _off((0, 0), (0, 1), by=0.02), want=False
)
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
    _lopsided, _x, np.where(_first, _right, 1e-10), want=True,
)  # fmt: skip
gradient_check.case(
    "wrong in the fifth digit of the largest slope",
    _curve, _x, _off((0, 1), by=5e-5 * abs(_right).max()), want=False,
)  # fmt: skip
gradient_check.case("a slope that is not a number", _curve, _x, _off((1, 0), by=np.nan), want=False)
_ten = drawn(10, 10, seed=4) + 0.1
gradient_check.case(
    "a hundred numbers that depend on each other: right", _square_of_sum, _ten,
    np.full((10, 10), 2 * _ten.sum()), want=True,
)  # fmt: skip

_FAR = "np.abs(measured - grad).max() <= 1e-5 * np.abs(measured).max()"
gradient_check.slip(
    "one side", "before - 1e-5", "before", "1e-5\n        up", "1e-2\n        up", "/ 2e-5", "/ 1e-2"
)
gradient_check.mistake("always", lambda f, x, g: True)
gradient_check.slip("sum alone", _FAR, "abs((measured - grad).sum()) < 1e-6 * abs(grad).max()")
gradient_check.slip("first number", _FAR, "np.isclose(measured.flat[0], grad.flat[0])")
gradient_check.slip("size alone", "measured - grad", "np.abs(measured) - np.abs(grad)")
gradient_check.slip(
    "direction alone", _FAR,
    "np.abs(measured / np.linalg.norm(measured) - grad / np.linalg.norm(grad)).max() <= 1e-4",
)  # fmt: skip
for _limit in (
    "abs(measured - grad).max() < 1e-4",
    "np.allclose(measured, grad, rtol=1e-5)",
    "abs(measured - grad).max() < 1e-7",
):
    gradient_check.slip("absolute", _FAR, _limit)
gradient_check.slip("each by itself", _FAR, "(abs(measured - grad) <= 1e-5 * abs(measured)).all()")
gradient_check.slip("loose", _FAR, _FAR.replace("1e-5", "3e-4"))
gradient_check.slip("nan", _FAR, f"not {_FAR.replace('<=', '>')}")
gradient_check.slip("not restored", "        x[place] = before\n", "")
gradient_check.slip("broadcast", "return False", "pass")
gradient_check.slip("single precision", "dtype=np.float64", "dtype=x.dtype")
