"""Judges "AdamW" (chapter 10): one step of AdamW."""

import math
from functools import cache
from typing import Any

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import expect, expect_parts
from glassformer.exercises.material import numbers


def adamw(
    weight: np.ndarray,
    grad: np.ndarray,
    m: np.ndarray | float,
    v: np.ndarray | float,
    step: int,
    rate: float,
    betas: tuple[float, float] = (0.9, 0.95),
    eps: float = 1e-8,
    decay: float = 0.1,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One step, the first is number 1: the new weight, and the new means of the gradient and of its square."""
    m = betas[0] * m + (1 - betas[0]) * grad
    v = betas[1] * v + (1 - betas[1]) * grad**2
    mean, square = m / (1 - betas[0] ** step), v / (1 - betas[1] ** step)
    weight = weight - rate * decay * weight
    return weight - rate * mean / (np.sqrt(square) + eps), m, v


stepped = exercise("training.adamw", adamw, parts=("weight", "m", "v"))

stepped.case(
    "the averages move a tenth and a twentieth of the way",
    np.array([1.0, 1.0]), np.array([2.0, -4.0]), np.array([1.0, 0.0]), np.array([1.0, 8.0]), 1, 0.5,
    part="m", want=[1.1, -0.4],
)  # fmt: skip
stepped.also(
    np.array([1.0, 1.0]), np.array([2.0, -4.0]), np.array([1.0, 0.0]), np.array([1.0, 8.0]), 1, 0.5,
    part="v", want=[1.15, 8.4],
)  # fmt: skip
stepped.case(
    "the first step is as long as the rate, whatever the gradient",
    np.zeros(3), np.array([500.0, -5e4, 3e6]), np.zeros(3), np.zeros(3), 1, 0.25, decay=0.0,
    part="weight", want=[-0.25, 0.25, -0.25],
)  # fmt: skip
stepped.case(
    "a gradient of 0 moves nothing",
    np.array([1.0, 2.0]), np.zeros(2), np.zeros(2), np.zeros(2), 1, 0.25, decay=0.0, part="weight", want=[1.0, 2.0],
)  # fmt: skip
stepped.case(
    "decay: a fraction of the weight, times the rate",
    np.array([10.0, -2.0]), np.zeros(2), np.zeros(2), np.zeros(2), 1, 0.5, decay=0.2, part="weight", want=[9.0, -1.8],
)  # fmt: skip


def _adamw_by_hand(
    w: float, g: float, m: float, v: float, t: int, rate: float, betas=(0.9, 0.95), eps=1e-8, decay=0.1
) -> tuple[float, float, float]:
    """Returns one weight and its memory after step t, in the order of Loshchilov and Hutter 2019, algorithm 2."""
    m += (1 - betas[0]) * (g - m)
    v += (1 - betas[1]) * (g * g - v)
    size = math.sqrt(v) / math.sqrt(1 - betas[1] ** t) + eps
    return w * (1 - rate * decay) - rate / (1 - betas[0] ** t) * m / size, m, v


def step_by_hand(
    weight: Any, grad: Any, m: Any, v: Any, t: int, rate: float, **given: Any
) -> list[np.ndarray]:
    """Returns the arrays after step t: each number by itself."""
    each = zip(weight.flat, grad.flat, m.flat, v.flat, strict=True)
    found = np.array([_adamw_by_hand(*one, t, rate, **given) for one in each])
    return [one.reshape(weight.shape) for one in found.T]


@cache
def _adamw_run(n: int, betas: tuple[float, float], eps: float, decay: float, rate: float) -> tuple:
    """Returns weight, m and v before the last of so many steps; its gradient; and the three after it."""
    now = [numbers(3, 4), np.zeros((3, 4)), np.zeros((3, 4))]
    before, grad = now, np.zeros(0)
    for step in range(n):
        before, grad = now, numbers(3, 4, seed=step + 1) * 10.0 ** ((step % 3) - 1)
        weight, m, v = now
        now = step_by_hand(weight, grad, m, v, step + 1, rate, betas=betas, eps=eps, decay=decay)
    return before, grad, now


def _adamw_case(title: str, n: int, *, betas=(0.9, 0.95), eps=1e-8, decay=0.1, rate=0.01) -> None:
    @stepped.check(title)
    def _(adamw):
        (weight, m, v), grad, want = _adamw_run(n, betas, eps, decay, rate)
        given = {"betas": betas, "eps": eps, "decay": decay}
        found = expect_parts(adamw(weight, grad, m, v, n, rate, **given), ("weight", "m", "v"))
        for name, value, right in zip(("weight", "m", "v"), found, want, strict=True):
            expect(value, right, f"{name} at step {n}, after earlier steps taken by PyTorch's AdamW,")


_adamw_case("the same as PyTorch's at the seventh step", 7)
_adamw_case("different values for every setting", 4, betas=(0.8, 0.99), eps=0.1, decay=0.5, rate=0.2)


_MEAN = "betas[0] * m + (1 - betas[0]) * grad"
_SQUARE = "betas[1] * v + (1 - betas[1]) * grad**2"
_MOVED = "rate * mean / (np.sqrt(square) + eps)"
stepped.slip("no correction", " / (1 - betas[0] ** step)", "", " / (1 - betas[1] ** step)", "")
stepped.slip("one too many", "** step", "** (step + 1)")
stepped.slip(
    "decay in the gradient", " - rate * decay * weight", "",
    "    m = ", "    grad = grad + decay * weight\n    m = ",
)  # fmt: skip
stepped.slip("decay without the rate", "rate * decay", "decay")
stepped.slip("no decay", " - rate * decay * weight", "")
stepped.slip("decay adds", "- rate * decay", "+ rate * decay")
stepped.slip(
    "decay last", "weight - rate * decay * weight", "weight",
    f"weight - {_MOVED}", f"(weight - {_MOVED}) * (1 - rate * decay)",
)  # fmt: skip
stepped.slip("corrections swapped", "[0] ** step), v / (1 - betas[1]", "[1] ** step), v / (1 - betas[0]")
stepped.slip("times the step", "** step", "* step")
stepped.slip("eps inside", "(np.sqrt(square) + eps)", "np.sqrt(square + eps)")
stepped.slip("no root", "np.sqrt(square)", "square")
stepped.slip("no squares", " / (np.sqrt(square) + eps)", "")
stepped.slip("uphill", f"weight - {_MOVED}", f"weight + {_MOVED}")
stepped.slip("sum", "(1 - betas[0]) * grad", "grad")
stepped.slip("swapped shares", _MEAN, "(1 - betas[0]) * m + betas[0] * grad")
stepped.slip("swapped shares", _SQUARE, "(1 - betas[1]) * v + betas[1] * grad**2")
stepped.slip("betas swapped", "    m = ", "    betas = betas[::-1]\n    m = ")
stepped.slip("not squared", "grad**2", "abs(grad)")
stepped.slip("corrected kept", "eps), m, v", "eps), mean, square")
stepped.slip("fixed betas", "    m = ", "    betas = 0.9, 0.95\n    m = ")
