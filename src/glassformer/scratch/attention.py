"""Attention: each position compares its query with the keys it may see, and averages their values.

The axes, here and everywhere: B batch, T query positions, S key positions, D
d_model, H heads, G key/value heads, K d_head, U d_value, which is K unless a layer
says otherwise.
"""

import math
from collections.abc import Callable

import numpy as np

from glassformer import _checks as checks
from glassformer.shapes import Bool, Float
from glassformer.trace import see


def softmax(
    x: Float[np.ndarray, "*B"], axis: int = -1
) -> Float[np.ndarray, "*B"]:
    """Returns positive numbers that sum to 1 along `axis`, in proportion to exp(x).

    The largest entry is subtracted first, which changes nothing in the result and
    keeps exp from overflowing. A row of nothing but −inf (a query that may see no
    key) gives zeros. A row with a NaN or +inf becomes all NaN.

    Derived in chapter 03.

    Raises:
        ValueError: `x` has no entries along `axis`.
        TypeError: `x` is not floating-point.
    """
    checks.floats("x", x)
    checks.whole(f"x.shape[{axis}]", x.shape[axis])
    # In a row of −inf, subtract the lowest finite number, so the row stays −inf
    largest = np.maximum(x.max(axis=axis, keepdims=True), np.finfo(x.dtype).min)
    weights = x - largest
    np.exp(weights, out=weights)
    # The largest entry gives exp(0) = 1, so only a row of −inf sums to less: to 0
    weights /= np.maximum(weights.sum(axis=axis, keepdims=True), 1)
    return weights


def softmax_backward(
    grad: Float[np.ndarray, "*B"], weights: Float[np.ndarray, "*B"]
) -> Float[np.ndarray, "*B"]:
    """Maps the gradient of softmax's output, `weights`, to that of its input, along the last axis.

    weights · (grad − Σ grad·weights): a gradient common to all entries has no
    effect, because the weights always sum to 1.

    Derived in chapter 09.
    """
    return weights * (grad - np.vecdot(grad, weights)[..., None])


def causal_mask(
    n_queries: int, n_keys: int | None = None
) -> Bool[np.ndarray, "T S"]:
    """Returns True where a query may look: at its own position and at those before it.

    The queries are the *last* `n_queries` of the `n_keys` positions, so if there
    are fewer queries than keys, because a text is being continued, each query
    still sees its whole past. `n_keys` defaults to `n_queries`.

    Derived in chapter 03.

    Raises:
        ValueError: `n_queries` is below 1, or `n_keys` below `n_queries`.
    """
    n_keys = n_queries if n_keys is None else n_keys
    checks.whole("n_queries", n_queries)
    checks.whole("n_keys", n_keys, at_least=n_queries)
    return np.tri(n_queries, n_keys, n_keys - n_queries, dtype=bool)


def window_mask(
    n_queries: int, n_keys: int | None = None, *, window: int
) -> Bool[np.ndarray, "T S"]:
    """Returns True where a query may look if it sees `window` positions: its own and the window − 1 before it.

    As in `causal_mask`, the queries are the last of the `n_keys` positions. This
    mask hides only what is too long ago; the causal mask hides what follows.

    Source: Jiang et al. 2023, "Mistral 7B", section 2; Beltagy et al. 2020,
    "Longformer", section 3.1. Derived in chapter 13.

    Raises:
        ValueError: `n_queries` or `window` is below 1, or `n_keys` is below
            `n_queries`.
    """
    n_keys = n_queries if n_keys is None else n_keys
    checks.whole("n_queries", n_queries)
    checks.whole("n_keys", n_keys, at_least=n_queries)
    checks.whole("window", window)
    return ~np.tri(n_queries, n_keys, n_keys - n_queries - window, dtype=bool)


def scaled_dot_product_attention(
    q: Float[np.ndarray, "*B T K"],
    k: Float[np.ndarray, "*B S K"],
    v: Float[np.ndarray, "*B S U"],
    *,
    mask: Bool[np.ndarray, "..."] | None = None,
    causal: bool = False,
    score_bias: Float[np.ndarray, "..."] | None = None,
    scale: float | None = None,
    change: Callable[[np.ndarray], np.ndarray] | None = None,
    normalize: Callable[[np.ndarray], np.ndarray] | None = None,
) -> tuple[Float[np.ndarray, "*B T U"], Float[np.ndarray, "*B T S"]]:
    """Returns softmax(q·kᵀ·scale + score_bias)·v and the attention weights; `scale` defaults to 1/√K.

    `mask` is boolean, True = may attend. `mask` and `score_bias` are (T, S) or
    anything else that broadcasts to the scores (..., T, S). With `causal`, a query
    sees what both `mask` and the causal mask allow. A query that may see no key
    gets zeros. `change` is what some models do to the scores before they are
    masked, and `normalize` what they have in place of softmax.

    A mask does not stop NaNs. A NaN in a query stays in that query's row, and
    one in a key reaches only the queries that see that key; but a NaN in a value
    reaches every query, because a weight of 0 times NaN is NaN.

    Source: Vaswani et al. 2017, "Attention Is All You Need", equation 1. Derived
    in chapter 03.

    Returns:
        The output (..., T, U) and the weights (..., T, S).

    Raises:
        ValueError: the shapes of q, k and v, or of `mask` or `score_bias`, do not
            fit; there is no key.
        TypeError: q, k, v or `score_bias` is not floating-point, or `mask` not
            boolean.
    """
    checks.attention(q, k, v, mask, score_bias)
    scores = q @ k.swapaxes(-1, -2)  # (..., T, S)
    scores *= 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    if score_bias is not None:
        scores += score_bias.astype(scores.dtype)
    if change is not None:
        scores = change(scores)
    if causal and q.shape[-2] > 1:  # a single query is the last, and sees all
        np.copyto(scores, -np.inf, where=~causal_mask(*scores.shape[-2:]))
    if mask is not None:
        np.copyto(scores, -np.inf, where=~mask)
    if normalize is None:
        weights = softmax(scores)
    else:
        weights = normalize(scores)
    see(scores=scores, weights=weights)
    return weights @ v, weights


def scaled_dot_product_attention_backward(
    grad: Float[np.ndarray, "*B T U"],
    q: Float[np.ndarray, "*B T K"],
    k: Float[np.ndarray, "*B S K"],
    v: Float[np.ndarray, "*B S U"],
    weights: Float[np.ndarray, "*B T S"],
    *,
    scale: float | None = None,
    change_backward: Callable[[np.ndarray], np.ndarray] | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Maps the gradient of the output to those of q, k, v and the scores; the last is also that of the bias.

    A masked pair has weight 0 and therefore no gradient, so the mask is not
    needed here. `change_backward` is the backward pass of `change`.

    Derived in chapter 09.
    """
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    grad_v = weights.swapaxes(-1, -2) @ grad
    grad_scores = softmax_backward(grad @ v.swapaxes(-1, -2), weights)
    if change_backward is not None:
        grad_scores = change_backward(grad_scores)
    grad_q = grad_scores @ k
    grad_k = grad_scores.swapaxes(-1, -2) @ q
    grad_q *= scale
    grad_k *= scale
    return grad_q, grad_k, grad_v, grad_scores


def split_heads(
    x: Float[np.ndarray, "*B T D"], n_heads: int
) -> Float[np.ndarray, "*B H T K"]:
    """(..., T, D) -> (..., H, T, K): cuts each position's D numbers into H runs of K, one for each head.

    Derived in chapter 03.

    Raises:
        ValueError: `n_heads` does not divide D, or x has fewer than two axes.
    """
    checks.axes("x", x, "T, D")
    *B, T, D = x.shape
    checks.divisible("d_model", D, "n_heads", n_heads)
    return x.reshape(*B, T, n_heads, D // n_heads).swapaxes(-3, -2)


def merge_heads(x: Float[np.ndarray, "*B H T K"]) -> Float[np.ndarray, "*B T D"]:
    """(..., H, T, K) -> (..., T, D): undoes `split_heads`.

    Derived in chapter 03.

    Raises:
        ValueError: x has fewer than three axes.
    """
    checks.axes("x", x, "H, T, K")
    *B, H, T, K = x.shape
    return x.swapaxes(-3, -2).reshape(*B, T, H * K)


def repeat_heads(
    x: Float[np.ndarray, "*B G T K"], times: int
) -> Float[np.ndarray, "*B H T K"]:
    """(..., G, T, K) -> (..., H, T, K): repeats each key/value head for the `times` query heads that share it.

    Grouped-query attention has H = G · times query heads; query head h uses
    key/value head h // times.

    Source: Ainslie et al. 2023, "GQA: Training Generalized Multi-Query
    Transformer Models", section 2.2. Derived in chapter 03.

    Raises:
        ValueError: x has fewer than three axes, or `times` is below 1.
    """
    checks.axes("x", x, "G, T, K")
    checks.whole("times", times)
    return x if times == 1 else np.repeat(x, times, axis=-3)


def repeat_heads_backward(
    grad: Float[np.ndarray, "*B H T K"], times: int
) -> Float[np.ndarray, "*B G T K"]:
    """Maps the gradient of the repeated heads to that of the original ones: each gets the sum over its copies.

    Derived in chapter 09.
    """
    *B, H, T, K = grad.shape
    if times == 1:
        return grad
    return grad.reshape(*B, H // times, times, T, K).sum(axis=-3)
