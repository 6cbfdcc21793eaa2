"""Parts of activations, from which the mistakes of several judges of chapter 06 are made."""

import math

import numpy as np

from .by_hand import of_each


def sigmoid(x):
    """Returns the sigmoid of every number, 0 where it would underflow."""
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


def cdf(x):
    """Returns Φ(x), the standard normal distribution's share below x."""
    return of_each(lambda number: (1 + math.erf(number / math.sqrt(2))) / 2, x)


ROOT = math.sqrt(2 / math.pi)


def tanh_form(x, *, inner=lambda x: x + 0.044715 * x**3, root=ROOT, half=0.5):
    """Returns GELU's approximation with tanh, with some of its parts changed."""
    return half * x * (1 + np.tanh(root * inner(x)))
