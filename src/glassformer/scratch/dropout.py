"""Dropout: leaves out random parts in training, so that the model does not rely on any single one."""

import numpy as np

from glassformer import _checks as checks
from glassformer.scratch.layer import Layer, Saved, save_for_backward
from glassformer.shapes import Float


class Dropout(Layer):
    """Sets numbers to 0 with probability `rate` in training; divides the rest by 1 − rate.

    The division preserves the expected value, so evaluation needs no correction.

    Source: Srivastava et al. 2014, "Dropout: A Simple Way to Prevent Neural
    Networks from Overfitting". Derived in chapter 07.

    Raises:
        ValueError: `rate` is not at least 0 and below 1, or is above 0 while
            there is no `generator`.
    """

    def __init__(
        self, rate: float, *, generator: np.random.Generator | None
    ) -> None:
        checks.rate("rate", rate)
        self.rate, self.generator = rate, generator

    def forward(
        self, x: Float[np.ndarray, "*B D"], saved: Saved | None = None
    ) -> Float[np.ndarray, "*B D"]:
        """Maps x to the same shape."""
        if not self.training or self.rate == 0:
            save_for_backward(saved, None)
            return x
        if self.generator is None:
            raise ValueError(
                f"rate={self.rate} needs a generator to draw what training drops"
            )
        stays = self.generator.random(x.shape, np.float32) >= self.rate
        scale = stays / np.asarray(1 - self.rate, x.dtype)
        save_for_backward(saved, scale)
        return x * scale

    def backward(
        self, grad: Float[np.ndarray, "*B D"], saved: Saved
    ) -> Float[np.ndarray, "*B D"]:
        """Maps the gradient of the output to that of x."""
        (scale,) = saved.pop()
        return grad if scale is None else grad * scale
