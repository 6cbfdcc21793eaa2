"""LayerNorm and RMSNorm with every sum written out, and arrays that several judges of chapter 05 share."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from glassformer.exercises.material import numbers

Norm = Callable[[np.ndarray], np.ndarray]

EPS = 1e-5


def mean_by_hand(numbers: Any) -> float:
    """Returns the mean, from an exact sum."""
    numbers = list(numbers)
    return math.fsum(numbers) / len(numbers)


def layer_norm_by_hand(x: Any, weight: Any, bias: Any, eps: float = EPS) -> np.ndarray:
    """LayerNorm of each vector, from its definition."""
    if np.ndim(x) > 1:
        return np.array([layer_norm_by_hand(row, weight, bias, eps) for row in x])
    mean = mean_by_hand(x)
    divisor = math.sqrt(mean_by_hand((a - mean) ** 2 for a in x) + eps)
    return np.array([(a - mean) / divisor * w + b for a, w, b in zip(x, weight, bias, strict=True)])


def rms_norm_by_hand(x: Any, weight: Any, eps: float = EPS) -> np.ndarray:
    """RMSNorm of each vector, from its definition."""
    if np.ndim(x) > 1:
        return np.array([rms_norm_by_hand(row, weight, eps) for row in x])
    divisor = math.sqrt(mean_by_hand(a * a for a in x) + eps)
    return np.array([a / divisor * w for a, w in zip(x, weight, strict=True)])


ONES, ZEROS = np.ones(4), np.zeros(4)
NEARLY_ZERO = np.array([0.0, 0.0, 0.0, 0.001])
GAIN = numbers(4, seed=1)
