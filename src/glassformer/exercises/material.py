"""Helpers that judges share: arrays of fixed random numbers, and functions without NumPy's warnings."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np


def numbers(*shape: int, seed: int | tuple[int, ...] = 0) -> np.ndarray:
    """Returns normally distributed numbers of this shape; the same ones for the same seed each time."""
    return np.random.default_rng(seed).normal(size=shape)


def quiet(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the same function without NumPy's warnings."""

    @functools.wraps(function)
    def silent(*args: Any, **kwargs: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*args, **kwargs)

    return silent
