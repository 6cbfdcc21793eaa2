"""The linear map: every output is a weighted sum of the inputs."""

import numpy as np
from numpy.typing import DTypeLike

from glassformer import _checks as checks
from glassformer.scratch.layer import Layer, Saved, normal, save_for_backward
from glassformer.shapes import Float


class Linear(Layer):
    """Computes x @ weight + bias, for each row of x separately.

    `weight` (n_in, n_out) is initialized from a normal distribution with variance
    1/n_in, so the output has about the same variance as the input; `bias`
    (n_out), if there is one, starts at 0. (torch's own Linear stores the
    transposed weight, (n_out, n_in).)

    Derived in chapter 06, its gradient in 09.

    Raises:
        ValueError: a size is below 1, or the last axis of x is not n_in.
        TypeError: x is not floating-point.
    """

    def __init__(
        self,
        n_in: int,
        n_out: int,
        *,
        bias: bool = True,
        generator: np.random.Generator | None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        checks.whole("n_in", n_in)
        checks.whole("n_out", n_out)
        self.n_in, self.n_out = n_in, n_out
        self.weight = normal(generator, n_in**-0.5, (n_in, n_out), dtype)
        self.bias = np.zeros(n_out, dtype) if bias else None

    def forward(
        self, x: Float[np.ndarray, "*B n_in"], saved: Saved | None = None
    ) -> Float[np.ndarray, "*B n_out"]:
        """Maps x (..., n_in) to (..., n_out)."""
        checks.vectors("x", x, "n_in", self.n_in)
        # One large product is faster than many small ones
        rows = x.reshape(-1, self.n_in)
        save_for_backward(saved, rows, x.shape)
        y = rows @ self.weight
        if self.bias is not None:
            y += self.bias
        return y.reshape(*x.shape[:-1], self.n_out)

    def backward(
        self, grad: Float[np.ndarray, "*B n_out"], saved: Saved
    ) -> Float[np.ndarray, "*B n_in"]:
        """Maps the gradient of the output to that of x."""
        rows, shape = saved.pop()
        grads = grad.reshape(-1, self.n_out)
        if self.bias is not None:
            self.accumulate(bias=grads.sum(axis=0))
        self.accumulate(weight=rows.T @ grads)
        return (grads @ self.weight.T).reshape(shape)
