"""Judges "AdamW" (chapter 10): one step of AdamW."""

import math
from typing import Any

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers


def adamw(
    weight, grad, m, v, step, rate, betas=(0.9, 0.95), eps=1e-8, decay=0.1
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One step, the first is number 1: the new weight, and the new means of the gradient and of its square."""
    m = betas[0] * m + (1 - betas[0]) * grad
    v = betas[1] * v + (1 - betas[1]) * grad**2
    mean, square = m / (1 - betas[0] ** step), v / (1 - betas[1] ** step)
    weight = weight - rate * decay * weight
    return weight - rate * mean / (np.sqrt(square) + eps), m, v


stepped = exercise("training.adamw", adamw, parts=("weight", "m", "v"))

_two = np.array([1.0, 1.0]), np.array([2.0, -4.0]), np.array([1.0, 0.0]), np.array([1.0, 8.0]), 1, 0.5
stepped.case("the averages move a tenth and a twentieth of the way", *_two, part="m", want=[1.1, -0.4])
stepped.also(*_two, part="v", want=[1.15, 8.4])
_0, _long = np.zeros(3), np.array([500.0, -5e4, 3e6])
_title, _want = "the first step is as long as the rate, whatever the gradient", [-0.25, 0.25, -0.25]
stepped.case(_title, _0, _long, _0, _0, 1, 0.25, decay=0.0, part="weight", want=_want)
_w = np.array([10.0, -2.0, 1.0])
stepped.case("a gradient of 0 moves nothing", _w, _0, _0, _0, 1, 0.25, decay=0.0, want=_w, part="weight")
_title = "decay: a fraction of the weight, times the rate"
stepped.case(_title, _w, _0, _0, _0, 1, 0.5, decay=0.2, want=[9.0, -1.8, 0.9], part="weight")


def _adamw_by_hand(w, g, m, v, t, rate, betas, eps, decay):
    """Returns one weight and its memory after step t, in the order of Loshchilov and Hutter 2019, algorithm 2."""
    m += (1 - betas[0]) * (g - m)
    v += (1 - betas[1]) * (g * g - v)
    size = math.sqrt(v) / math.sqrt(1 - betas[1] ** t) + eps
    return w * (1 - rate * decay) - rate / (1 - betas[0] ** t) * m / size, m, v


def step_by_hand(weight, grad, m, v, *given: Any) -> list[np.ndarray]:
    """Returns the arrays after a step: each number by itself. `given`: as `adamw` takes them, from `step` on."""
    each = zip(weight.flat, grad.flat, m.flat, v.flat, strict=True)
    found = np.array([_adamw_by_hand(*one, *given) for one in each])
    return [one.reshape(weight.shape) for one in found.T]


def _adamw_case(title: str, n: int, *given: Any) -> None:
    """Adds a check of the last of so many steps."""
    before, grad = [numbers(3, 4), np.zeros((3, 4)), np.zeros((3, 4))], numbers(3, 4, seed=1) / 10
    for step in range(1, n):
        before = step_by_hand(before[0], grad, *before[1:], step, *given)
        grad = numbers(3, 4, seed=step + 1) * 10.0 ** ((step % 3) - 1)
    now = before[0], grad, *before[1:], n, *given
    stepped.case(title, *now, want=step_by_hand(*now), what=f"adamw(…) at step {n}")


_adamw_case("the same as PyTorch's at the seventh step", 7, 0.01, (0.9, 0.95), 1e-8, 0.1)
_adamw_case("different values for every setting", 4, 0.2, (0.8, 0.99), 0.1, 0.5)
