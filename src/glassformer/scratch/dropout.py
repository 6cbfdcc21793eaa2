"""Dropout: in training, a random part of the numbers is left out, so that none is relied on alone."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from glassformer import _checks as checks
from glassformer.scratch.layer import Layer


class Dropout(Layer):
    """While training, sets each number to 0 with probability `rate` and divides the rest by 1 − rate.

    The division keeps the expected value, so that in evaluation nothing at all has to be done.

    Source: Srivastava et al. 2014, "Dropout: A Simple Way to Prevent Neural Networks from Overfitting".
    Derived in chapter 07.

    Raises:
        ValueError: `rate` is not at least 0 and below 1, or is above 0 while there is no `generator`.
    """

    def __init__(self, rate: float, *, generator: np.random.Generator | None) -> None:
        checks.rate("rate", rate)
        self.rate, self.generator = rate, generator

    def forward(self, x: Float[np.ndarray, "*B D"]) -> tuple[Float[np.ndarray, "*B D"], Callable]:
        """Maps x to the same shape."""
        if not self.training or self.rate == 0:
            return x, lambda grad: grad
        if self.generator is None:
            raise ValueError(f"rate={self.rate} needs a generator to draw what is dropped in training")
        kept = (self.generator.random(x.shape, np.float32) >= self.rate) / np.asarray(1 - self.rate, x.dtype)
        return x * kept, lambda grad: grad * kept
