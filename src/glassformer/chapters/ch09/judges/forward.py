"""The forward passes of chapter 09, written for complex numbers, as `slopes_of` nudges them."""

import math
from typing import Any

import numpy as np

from .slopes import softmax_rows


def complex_norm(x, weight, bias, eps=1e-5):
    """LayerNorm."""
    apart = x - x.sum(axis=-1, keepdims=True) / x.shape[-1]
    variance = (apart * apart).sum(axis=-1, keepdims=True) / x.shape[-1]
    return apart * (variance + eps) ** -0.5 * weight + bias


def _erf(z):
    """Returns erf beside the real axis: a nudge times the slope, 2 exp(−x²)/√π, is all there is of the rest."""
    x = z.real
    return np.vectorize(math.erf, otypes=[float])(x) + 2j * z.imag * np.exp(-x * x) / math.sqrt(math.pi)


def complex_feed_forward(x, W_up, b_up, W_down, b_down):
    """The feed-forward network with the exact GELU."""
    up = x @ W_up + b_up
    return (up + up * _erf(up / math.sqrt(2))) / 2 @ W_down + b_down


def complex_attention(q, k, v, mask=None):
    """Scaled dot-product attention."""
    scores = np.einsum("...tk,...sk->...ts", q, k) / q.shape[-1] ** 0.5
    return np.einsum(
        "...ts,...sk->...tk", softmax_rows(scores if mask is None else np.where(mask, scores, -np.inf)), v
    )


def complex_heads(x, W_q, W_k, W_v, W_o, n_heads):
    """Causal attention with several heads."""
    of_heads = zip(
        *(np.split(W, n_heads, axis=1) for W in (W_q, W_k, W_v)), np.split(W_o, n_heads), strict=True
    )
    see = np.tri(len(x), dtype=bool)
    return sum(complex_attention(x @ q, x @ k, x @ v, see) @ out for q, k, v, out in of_heads)


NORMS = ("norm_attention", "norm_feedforward")


def complex_block(x, w, n_heads):
    """A pre-norm block."""

    def norm(x, name):
        return complex_norm(x, w[f"{name}.weight"], w[f"{name}.bias"])

    matrices: Any = [w[f"attention.W_{n}.weight"] for n in "qkvo"]
    x = x + complex_heads(norm(x, NORMS[0]), *matrices, n_heads=n_heads)
    maps = (w[f"feedforward.W_{n}"] for n in ("up.weight", "up.bias", "down.weight", "down.bias"))
    return x + complex_feed_forward(norm(x, NORMS[1]), *maps)
