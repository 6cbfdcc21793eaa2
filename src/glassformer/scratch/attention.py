"""Attention: every position asks, every visible position answers, and the answers are averaged.

The axes, here and everywhere: B batch, T positions asking (queries), S positions answering (keys), D d_model,
H heads, K d_head.
"""

import math

import numpy as np
from jaxtyping import Bool, Float, Integer
from numpy.typing import DTypeLike

from glassformer import _checks as checks
from glassformer.scratch.positions import NoPositions


def softmax(x: Float[np.ndarray, "*B"], axis: int = -1) -> Float[np.ndarray, "*B"]:
    """Positive numbers that sum to 1 along `axis`, in proportion to exp(x).

    The largest entry is subtracted first, which changes nothing in the result and keeps exp from
    overflowing. A row that is −inf throughout, a query that may see no key, gives zeros. A row with a NaN
    or +inf is all NaN.

    Derived in chapter 03.

    Raises:
        ValueError: `x` has no entries along `axis`.
        TypeError: `x` is not floating-point.
    """
    checks.floats("x", x)
    checks.whole(f"x.shape[{axis}]", x.shape[axis])
    largest = x.max(axis=axis, keepdims=True)
    largest = np.where(largest == -np.inf, 0.0, largest)
    exponentials = np.exp(x - largest)
    total = exponentials.sum(axis=axis, keepdims=True)
    return exponentials / np.where(total == 0, 1.0, total)


def causal_mask(n_queries: int, n_keys: int | None = None) -> Bool[np.ndarray, "T S"]:
    """True where a query may look: at its own position and at those before it.

    The queries are the *last* `n_queries` of the `n_keys` positions, so that with fewer queries than keys
    (a text being continued) each still sees all of its past. `n_keys` defaults to `n_queries`.

    Derived in chapter 03.

    Raises:
        ValueError: `n_queries` is below 1, or `n_keys` below `n_queries`.
    """
    n_keys = n_queries if n_keys is None else n_keys
    checks.whole("n_queries", n_queries)
    checks.whole("n_keys", n_keys, at_least=n_queries)
    return np.tri(n_queries, n_keys, n_keys - n_queries, dtype=bool)


def scaled_dot_product_attention(
    q: Float[np.ndarray, "*B T K"],
    k: Float[np.ndarray, "*B S K"],
    v: Float[np.ndarray, "*B S K"],
    *,
    mask: Bool[np.ndarray, "..."] | None = None,
    bias: Float[np.ndarray, "..."] | None = None,
) -> tuple[Float[np.ndarray, "*B T K"], Float[np.ndarray, "*B T S"]]:
    """softmax(q·kᵀ/√K + bias)·v, and the weights that average the values.

    `mask` is boolean, True = may attend. `mask` and `bias` are (T, S) or anything else that broadcasts to the
    scores (..., T, S). A query that may see no key gets zeros.

    A mask is no wall against NaN. A NaN in a query stays in that query's row, and one in a key reaches
    only the queries that see that key; but a NaN in a value reaches every query, because a weight of 0
    times NaN is NaN.

    Source: Vaswani et al. 2017, "Attention Is All You Need", equation 1. Derived in chapter 03.

    Returns:
        The output (..., T, K) and the weights (..., T, S).

    Raises:
        ValueError: the shapes of q, k and v, or of `mask` or `bias`, do not fit; there is no key.
        TypeError: q, k, v or `bias` is not floating-point, or `mask` not boolean.
    """
    for name, array in (("q", q), ("k", k), ("v", v)):
        checks.floats(name, array)
    checks.attention_shapes(q.shape, k.shape, v.shape)
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])  # (..., T, S)
    if bias is not None:
        checks.floats("bias", bias)
        checks.broadcasts("bias", bias, scores.shape)
        scores = scores + bias.astype(scores.dtype)
    if mask is not None:
        checks.mask(mask, scores.shape)
        scores = np.where(mask, scores, -np.inf)
    weights = softmax(scores)
    return weights @ v, weights


def split_heads(x: Float[np.ndarray, "*B T D"], n_heads: int) -> Float[np.ndarray, "*B H T K"]:
    """(..., T, D) -> (..., H, T, K): each position's D numbers cut into H runs of K, one for each head.

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


class MultiHeadAttention:
    """Self-attention with H heads, each attending in its own d_head = D/H dimensions.

    `W_q`, `W_k`, `W_v` and `W_o` are (D, D), used as x @ W, and start out normal with variance 1/D, which
    keeps the variance of what passes through. `positions`, one of the classes in `positions.py`, opens
    its doors 2 (queries and keys) and 3 (scores) here; door 1 is the caller's:
    `attention(positions.embed(x))`.

    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.2.2. Derived in chapter 03.

    Raises:
        ValueError: `n_heads` does not divide `d_model`, or `positions` was made for another n_heads or
            d_head.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        positions: NoPositions | None = None,
        causal: bool = False,
        generator: np.random.Generator,
        dtype: DTypeLike = np.float32,
    ) -> None:
        checks.divisible("d_model", d_model, "n_heads", n_heads)
        self.d_model, self.n_heads, self.d_head = d_model, n_heads, d_model // n_heads
        self.causal = causal
        self.positions = NoPositions() if positions is None else positions
        for size in ("n_heads", "d_head"):
            if hasattr(self.positions, size):
                checks.equal(f"positions.{size}", getattr(self.positions, size), size, getattr(self, size))

        def weight() -> Float[np.ndarray, "D D"]:
            return generator.normal(0, d_model**-0.5, (d_model, d_model)).astype(dtype)

        self.W_q, self.W_k, self.W_v, self.W_o = weight(), weight(), weight(), weight()

    def __call__(
        self,
        x: Float[np.ndarray, "*B T D"],
        *,
        positions: Integer[np.ndarray, " T"] | None = None,
        mask: Bool[np.ndarray, "..."] | None = None,
    ) -> Float[np.ndarray, "*B T D"]:
        """Maps x (..., T, D) to (..., T, D).

        `positions` says where each row of x sits, 0..T-1 by default. `mask`, True = may attend, broadcasts to
        (..., H, T, S); with `causal`, a query sees what both masks allow, and "before" goes by row, whatever
        `positions` says. A NaN anywhere in row t of x makes every row NaN, those before t too.

        Raises:
            ValueError: a shape does not fit, or a position is one that `positions` cannot place.
            TypeError: x is not floating-point, `positions` not integer or `mask` not boolean.
        """
        output, _ = self._attend(x, positions, mask)
        return merge_heads(output) @ self.W_o

    def weights(
        self,
        x: Float[np.ndarray, "*B T D"],
        *,
        positions: Integer[np.ndarray, " T"] | None = None,
        mask: Bool[np.ndarray, "..."] | None = None,
    ) -> Float[np.ndarray, "*B H T S"]:
        """Maps x (..., T, D) to the attention paid, (..., H, T, S): each row a distribution over keys."""
        _, weights = self._attend(x, positions, mask)
        return weights

    def _attend(
        self,
        x: Float[np.ndarray, "*B T D"],
        positions: Integer[np.ndarray, " T"] | None,
        mask: Bool[np.ndarray, "..."] | None,
    ) -> tuple[Float[np.ndarray, "*B H T K"], Float[np.ndarray, "*B H T S"]]:
        checks.floats("x", x)
        checks.axes("x", x, "T, D")
        *B, T, D = x.shape
        checks.equal("x.shape[-1]", D, "d_model", self.d_model)
        if positions is None:
            positions = np.arange(T)
        checks.integers("positions", positions)
        checks.one_axis("positions", positions, length=T)
        if mask is not None:
            checks.mask(mask, (*B, self.n_heads, T, T))
        if self.causal:
            mask = causal_mask(T) if mask is None else mask & causal_mask(T)

        q, k, v = (split_heads(x @ W, self.n_heads) for W in (self.W_q, self.W_k, self.W_v))
        q, k = self.positions.rotate(q, positions), self.positions.rotate(k, positions)
        bias = self.positions.bias(positions, positions)
        return scaled_dot_product_attention(q, k, v, mask=mask, bias=bias)
