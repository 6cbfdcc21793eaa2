"""Helpers that judges share: weights by their names, fixed random numbers, dictionaries that are not copied."""

import functools
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


def quiet(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the same function without NumPy's warnings."""

    @functools.wraps(function)
    def silent(*args: Any, **kwargs: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*args, **kwargs)

    return silent
