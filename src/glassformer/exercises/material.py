"""Helpers that judges share: weights by their names, fixed random numbers, functions without NumPy's warnings."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Weights = Mapping[str, np.ndarray]
"""A model's weights, by their names."""


def numbers(*shape: int, seed: int | tuple[int, ...] = 0) -> np.ndarray:
    """Returns normally distributed numbers of this shape; the same seed always gives the same numbers."""
    return np.random.default_rng(seed).normal(size=shape)


def quiet(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the same function without NumPy's warnings."""

    @functools.wraps(function)
    def silent(*args: Any, **kwargs: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*args, **kwargs)

    return silent
