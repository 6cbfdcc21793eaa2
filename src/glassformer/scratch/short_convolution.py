"""A short causal convolution: each feature becomes a mixture of its own last few values.

The axes: B batch, T positions, E features.
"""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from glassformer import _checks as checks
from glassformer.scratch.layer import Layer, Saved, normal, save_for_backward
from glassformer.shapes import Bool, Float


class ShortConvolution(Layer):
    """Adds up the last `taps` values of each feature by itself, with learned weights (taps, E), the last for now.

    Before the first position are zeros. It is `F.conv1d` with E groups in torch,
    whose weight is (E, 1, taps).

    Source: Dao and Gu 2024, "Transformers are SSMs", section 7; Yang et al. 2025,
    "Gated Delta Networks", section 3.4. Derived in chapter 17.

    Raises:
        ValueError: a size is below 1, or the last axis of x is not E.
    """

    def __init__(
        self,
        n_features: int,
        taps: int,
        *,
        bias: bool = False,
        generator: np.random.Generator | None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        checks.whole("n_features", n_features)
        checks.whole("taps", taps)
        self.taps, self.n_features = taps, n_features
        self.weight = normal(generator, taps**-0.5, (taps, n_features), dtype)
        self.bias = np.zeros(n_features, dtype) if bias else None

    def forward(
        self,
        x: Float[np.ndarray, "*B T E"],
        saved: Saved | None = None,
        *,
        past: Float[np.ndarray, "*B N E"] | None = None,
        real: Bool[np.ndarray, "*B T"] | None = None,
    ) -> tuple[Float[np.ndarray, "*B T E"], Float[np.ndarray, "*B N E"]]:
        """Maps x (..., T, E) to (..., T, E), and returns what the next positions need: the last N = taps − 1 values.

        `past` is what an earlier call returned. `real` is False at padding, which is
        passed over wherever it stands: what is before it and what is after it are
        neighbours, and it becomes 0 itself.
        """
        checks.vectors("x", x, "n_features", self.n_features, "T, E")
        checks.neighbours(past, real, tuple(x.shape), self.taps)
        T, order = x.shape[-2], None
        if real is not None:
            order = np.argsort(~real, axis=-1, kind="stable")[..., None]
            x = np.take_along_axis(x, order, axis=-2)
        if past is None:
            past = np.zeros((*x.shape[:-2], self.taps - 1, x.shape[-1]), x.dtype)
        rows = np.concatenate([past, x], axis=-2)
        y: Any = sum(
            weight * rows[..., i : i + T, :]
            for i, weight in enumerate(self.weight)
        )
        if self.bias is not None:
            y = y + self.bias
        save_for_backward(saved, rows, order, real)
        if real is None or order is None:
            return y, rows[..., T:, :]
        n_real = real.sum(axis=-1)[..., None, None]
        last = n_real + np.arange(self.taps - 1)[:, None]
        back = np.argsort(order, axis=-2)
        y = np.take_along_axis(y, back, axis=-2) * real[..., None]
        return y, np.take_along_axis(rows, last, axis=-2)

    def backward(
        self, grad: Float[np.ndarray, "*B T E"], saved: Saved
    ) -> Float[np.ndarray, "*B T E"]:
        """Maps the gradient of the output to that of x."""
        rows, order, real = saved.pop()
        T = grad.shape[-2]
        if order is not None:
            grad = np.take_along_axis(grad * real[..., None], order, axis=-2)
        if self.bias is not None:
            self.accumulate(bias=_over_rows(grad))
        seen = [rows[..., i : i + T, :] for i in range(self.taps)]
        self.accumulate(weight=np.stack([_over_rows(grad * s) for s in seen]))
        # What came in at t went to t, t + 1, … with the weights from the last on
        to_rows = np.zeros_like(rows)
        for i, weight in enumerate(self.weight):
            to_rows[..., i : i + T, :] += weight * grad
        to_x = to_rows[..., self.taps - 1 :, :]
        if order is None:
            return to_x
        return np.take_along_axis(to_x, np.argsort(order, axis=-2), axis=-2)


def _over_rows(rows: np.ndarray) -> np.ndarray:
    return rows.reshape(-1, rows.shape[-1]).sum(axis=0)
