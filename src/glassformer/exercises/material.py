"""Helpers that judges share: weights by name, fixed random numbers, products written out, arrays not copied."""

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Weights = Mapping[str, np.ndarray]
"""A model's weights, by their names."""


class Shared(dict):
    """A dictionary that an answer gets as it is, not as a copy, so that one can see what it makes of it."""

    def __deepcopy__(self, memo: dict) -> "Shared":
        return self


def numbers(*shape: int, seed: int | tuple[int, ...] = 0) -> np.ndarray:
    """Returns normally distributed numbers of this shape; the same seed always gives the same numbers."""
    return np.random.default_rng(seed).normal(size=shape)


def product_by_hand(x: Any, W: Any, b: Any = None) -> np.ndarray:
    """X @ W + b for rows x: every number is a sum written out."""
    added = [0.0] * len(W[0]) if b is None else b
    rows = np.reshape(x, (-1, len(W)))
    made = [
        [
            math.fsum(a * w for a, w in zip(row, column, strict=True)) + c
            for column, c in zip(zip(*W, strict=True), added, strict=True)
        ]
        for row in rows
    ]
    return np.reshape(made, (*np.shape(x)[:-1], len(added)))


def quiet(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the same function without NumPy's warnings."""

    @functools.wraps(function)
    def silent(*args: Any, **kwargs: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*args, **kwargs)

    return silent
