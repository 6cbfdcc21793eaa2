"""Attention in PyTorch; `scratch.attention` explains the functions and the axes."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from glassformer import _checks as checks
from glassformer.trace import see


def softmax(x: Float[Tensor, "*B"], axis: int = -1) -> Float[Tensor, "*B"]:
    """As `scratch.softmax`, in PyTorch."""
    checks.floats("x", x)
    checks.whole(f"x.shape[{axis}]", x.shape[axis])
    # In a row of −inf, subtract the lowest finite number, so the row stays −inf
    largest = x.amax(dim=axis, keepdim=True).clamp(min=torch.finfo(x.dtype).min)
    weights = torch.exp(x - largest)
    # The largest entry gives exp(0) = 1, so only a row of −inf sums to less: to 0
    return weights / weights.sum(dim=axis, keepdim=True).clamp(min=1)


def causal_mask(n_queries: int, n_keys: int | None = None) -> Bool[Tensor, "T S"]:
    """As `scratch.causal_mask`, in PyTorch, on the CPU."""
    n_keys = n_queries if n_keys is None else n_keys
    checks.whole("n_queries", n_queries)
    checks.whole("n_keys", n_keys, at_least=n_queries)
    size = n_queries, n_keys
    return torch.ones(size, dtype=torch.bool).tril(n_keys - n_queries)


def window_mask(
    n_queries: int, n_keys: int | None = None, *, window: int
) -> Bool[Tensor, "T S"]:
    """As `scratch.window_mask`, in PyTorch, on the CPU."""
    n_keys = n_queries if n_keys is None else n_keys
    checks.whole("n_queries", n_queries)
    checks.whole("n_keys", n_keys, at_least=n_queries)
    checks.whole("window", window)
    size = n_queries, n_keys
    return torch.ones(size, dtype=torch.bool).triu(
        n_keys - n_queries - window + 1
    )


def scaled_dot_product_attention(
    q: Float[Tensor, "*B T K"],
    k: Float[Tensor, "*B S K"],
    v: Float[Tensor, "*B S U"],
    *,
    mask: Bool[Tensor, "..."] | None = None,
    causal: bool = False,
    score_bias: Float[Tensor, "..."] | None = None,
    scale: float | None = None,
    change: Callable[[Tensor], Tensor] | None = None,
    normalize: Callable[[Tensor], Tensor] | None = None,
) -> tuple[Float[Tensor, "*B T U"], Float[Tensor, "*B T S"]]:
    """As `scratch.scaled_dot_product_attention`, in PyTorch, step by step."""
    checks.attention(q, k, v, mask, score_bias)
    scores = q @ k.transpose(-1, -2)  # (..., T, S)
    scores = scores * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if score_bias is not None:
        scores = scores + score_bias.to(scores.dtype)
    if change is not None:
        scores = change(scores)
    if causal and q.shape[-2] > 1:  # a single query is the last, and sees all
        past = causal_mask(*scores.shape[-2:]).to(scores.device)
        scores = torch.where(past, scores, -torch.inf)
    if mask is not None:
        scores = torch.where(mask, scores, -torch.inf)
    if normalize is None:
        weights = softmax(scores)
    else:
        weights = normalize(scores)
    see(scores=scores, weights=weights)
    return weights @ v, weights


def split_heads(
    x: Float[Tensor, "*B T D"], n_heads: int
) -> Float[Tensor, "*B H T K"]:
    """As `scratch.split_heads`, in PyTorch."""
    checks.axes("x", x, "T, D")
    *B, T, D = x.shape
    checks.divisible("d_model", D, "n_heads", n_heads)
    return x.reshape(*B, T, n_heads, D // n_heads).transpose(-3, -2)


def merge_heads(x: Float[Tensor, "*B H T K"]) -> Float[Tensor, "*B T D"]:
    """As `scratch.merge_heads`, in PyTorch."""
    checks.axes("x", x, "H, T, K")
    *B, H, T, K = x.shape
    return x.transpose(-3, -2).reshape(*B, T, H * K)


def repeat_heads(
    x: Float[Tensor, "*B G T K"], times: int
) -> Float[Tensor, "*B H T K"]:
    """As `scratch.repeat_heads`, in PyTorch."""
    checks.axes("x", x, "G, T, K")
    checks.whole("times", times)
    return x if times == 1 else x.repeat_interleave(times, dim=-3)
