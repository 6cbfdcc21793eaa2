"""Mamba-2 as linear attention: what it calls C, B and x are queries, keys and values.

The axes: B batch, T positions, D d_model, H heads, G groups that share a key, K the size
of the state, U features of a head.
"""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from glassformer.scratch.attention import merge_heads, split_heads
from glassformer.scratch.feedforward import silu, silu_slope
from glassformer.scratch.layer import Saved, save_for_backward
from glassformer.scratch.linear_attention import LinearAttention, of_each_head
from glassformer.scratch.norm import RMSNorm
from glassformer.scratch.short_convolution import ShortConvolution
from glassformer.shapes import Bool, Float


class Mamba2(LinearAttention):
    """A `LinearAttention` that adds, with one number for two things: a step Δ both writes and makes decay.

    Δ = softplus(x · W_decay + decay_bias); S = exp(−exp(log_rate) · Δ) · S + k ⊗ Δ v.
    Keys and queries keep their length. A head also passes on `skip` times its own
    value. The gate comes before the norm, which is over each of the G groups of
    heads, with a gain for each of the H·U numbers.

    In the paper, `W_q`, `W_k` and `W_v` make C, B and x, K is N, U is P, and
    `log_rate` is A's logarithm, `skip` is D and `W_gate` makes z.

    Source: Dao and Gu 2024, "Transformers are SSMs", sections 2 and 7. Derived in
    chapter 17.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        n_key_heads: int,
        d_key: int,
        d_value: int,
        taps: int = 4,
        convolution_bias: bool = True,
        output_eps: float = 1e-5,
        dropout: float = 0.0,
        generator: np.random.Generator | None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        super().__init__(
            d_model,
            n_heads,
            n_key_heads=n_key_heads,
            d_key=d_key,
            d_value=d_value,
            delta=False,
            decay="head",
            taps=taps,
            dropout=dropout,
            generator=generator,
            dtype=dtype,
        )
        own: dict[str, Any] = {"generator": generator, "dtype": dtype}
        keys, values = n_key_heads * d_key, n_heads * d_value
        self.convolution_q, self.convolution_k, self.convolution_v = (
            ShortConvolution(size, taps, bias=convolution_bias, **own)
            for size in (keys, keys, values)
        )
        group = values // n_key_heads
        self.norm_heads = RMSNorm(group, eps=output_eps, gain=False, dtype=dtype)
        self.gain, self.skip = np.ones(values, dtype), np.ones(n_heads, dtype)

    def _scaled(
        self,
        q: Float[np.ndarray, "*B G T K"],
        k: Float[np.ndarray, "*B G T K"],
        saved: Saved | None,
    ) -> tuple[np.ndarray, np.ndarray]:
        return q, k

    def _scaled_backward(
        self,
        grad_q: Float[np.ndarray, "*B G T K"],
        grad_k: Float[np.ndarray, "*B G T K"],
        saved: Saved,
    ) -> tuple[np.ndarray, np.ndarray]:
        return grad_q, grad_k

    def _strength_and_decay(
        self,
        x: Float[np.ndarray, "*B T D"],
        real: Bool[np.ndarray, "*B T"] | None,
        saved: Saved | None,
    ) -> tuple[Float[np.ndarray, "*B H T 1"], Float[np.ndarray, "*B H T 1"]]:
        """Returns Δ, and −exp(log_rate) · Δ."""
        step, slope = self._softplus(x, saved)
        if real is not None:
            real = real[..., None, :, None]
            step = step * real
        save_for_backward(saved, step, slope, real)
        return step, -np.exp(self.log_rate)[:, None, None] * step

    def _strength_and_decay_backward(
        self,
        grad_strength: Float[np.ndarray, "*B H T 1"],
        grad_decay: Float[np.ndarray, "*B H T 1"],
        saved: Saved,
    ) -> Any:
        step, slope, real = saved.pop()
        rate = np.exp(self.log_rate)[:, None, None]
        self.accumulate(log_rate=of_each_head(-rate * grad_decay * step))
        grad = grad_strength - rate * grad_decay
        return self._softplus_backward(grad, slope, real, saved)

    def _output(
        self,
        read: Float[np.ndarray, "*B H T U"],
        v: Float[np.ndarray, "*B H T U"],
        x: Float[np.ndarray, "*B T D"],
        saved: Saved | None,
    ) -> Float[np.ndarray, "*B T _"]:
        """Adds `skip` times the values, multiplies by the gate, and norms the heads of each group together."""
        wide = merge_heads(read + self.skip[:, None, None] * v)
        z = self._gate_input(x, saved)
        gated = split_heads(wide * silu(z), self.n_key_heads)
        normed = merge_heads(self.norm_heads(gated, saved))
        save_for_backward(saved, wide, v, z, normed)
        return normed * self.gain

    def _output_backward(
        self, grad: Float[np.ndarray, "*B T _"], saved: Saved
    ) -> tuple[np.ndarray, Any, np.ndarray]:
        wide, v, z, normed = saved.pop()
        rows = (grad * normed).reshape(-1, grad.shape[-1])
        self.accumulate(gain=rows.sum(axis=0))
        grad = split_heads(grad * self.gain, self.n_key_heads)
        grad = merge_heads(self.norm_heads.backward(grad, saved))
        grad_x = self._gate_input_backward(grad * wide * silu_slope(z), saved)
        grad_read = split_heads(grad * silu(z), self.n_heads)
        self.accumulate(skip=of_each_head(grad_read * v))
        return grad_read, self.skip[:, None, None] * grad_read, grad_x
