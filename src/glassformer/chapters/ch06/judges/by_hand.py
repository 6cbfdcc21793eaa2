"""Activations and networks computed one number at a time: what is right in chapter 06."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from glassformer.exercises.material import product_by_hand


def of_each(f: Callable[[float], float], x: Any) -> np.ndarray:
    """A function of one number, of every number of an array."""
    return np.array([f(float(number)) for number in np.ravel(x)]).reshape(np.shape(x))


def gelu_by_hand(x: float) -> float:
    """Returns the exact GELU of one number."""
    return x * (1 + math.erf(x / math.sqrt(2))) / 2


def gelu_tanh_by_hand(x: float) -> float:
    """Returns GELU's approximation with tanh, of one number."""
    return x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2


def silu_by_hand(x: float) -> float:
    """Returns SiLU of one number."""
    return x / (1 + math.exp(-x)) if x > -700 else 0.0


def network_by_hand(x: Any, W_up: Any, b_up: Any, W_down: Any, b_down: Any) -> np.ndarray:
    """Returns what a feed-forward network with GELU makes of rows x."""
    return product_by_hand(of_each(gelu_by_hand, product_by_hand(x, W_up, b_up)), W_down, b_down)
