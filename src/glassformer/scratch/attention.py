"""Attention: every position asks, every visible position answers, and the answers are averaged.

The axes, here and everywhere: B batch, T positions asking (queries), S positions
answering (keys), D d_model, H heads, G heads of keys and values, K d_head.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from glassformer import _checks as checks
from glassformer.config import ATTENTION_BIASES
from glassformer.scratch.cache import KeyValueCache
from glassformer.scratch.dropout import Dropout
from glassformer.scratch.layer import (
    Layer,
    Saved,
    plus,
    save_for_backward,
    sum_to,
)
from glassformer.scratch.linear import Linear
from glassformer.scratch.norm import RMSNorm
from glassformer.scratch.positions import NoPositions
from glassformer.shapes import Bool, Float, Integer
from glassformer.trace import enter_sublayer, see, trace


def softmax(
    x: Float[np.ndarray, "*B"], axis: int = -1
) -> Float[np.ndarray, "*B"]:
    """Positive numbers that sum to 1 along `axis`, in proportion to exp(x).

    The largest entry is subtracted first, which changes nothing in the result and
    keeps exp from overflowing. A row that is −inf throughout, a query that may
    see no key, gives zeros. A row with a NaN or +inf is all NaN.

    Derived in chapter 03.

    Raises:
        ValueError: `x` has no entries along `axis`.
        TypeError: `x` is not floating-point.
    """
    checks.floats("x", x)
    checks.whole(f"x.shape[{axis}]", x.shape[axis])
    # From a row of −inf the lowest finite number is taken, and it stays −inf
    largest = np.maximum(x.max(axis=axis, keepdims=True), np.finfo(x.dtype).min)
    weights = x - largest
    np.exp(weights, out=weights)
    # The largest entry gave exp(0) = 1: only a row of nothing sums to less, to 0
    weights /= np.maximum(weights.sum(axis=axis, keepdims=True), 1)
    return weights


def softmax_backward(
    grad: Float[np.ndarray, "*B"], weights: Float[np.ndarray, "*B"]
) -> Float[np.ndarray, "*B"]:
    """Maps the gradient of softmax's output, `weights`, to that of its input, along the last axis.

    weights · (grad − Σ grad·weights): what all entries gain alike changes
    nothing, since they sum to 1.

    Derived in chapter 09.
    """
    return weights * (grad - np.vecdot(grad, weights)[..., None])


def causal_mask(
    n_queries: int, n_keys: int | None = None
) -> Bool[np.ndarray, "T S"]:
    """Returns True where a query may look: at its own position and at those before it.

    The queries are the *last* `n_queries` of the `n_keys` positions, so that with
    fewer queries than keys (a text being continued) each still sees all of its
    past. `n_keys` defaults to `n_queries`.

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
    score_bias: Float[np.ndarray, "..."] | None = None,
    scale: float | None = None,
) -> tuple[Float[np.ndarray, "*B T K"], Float[np.ndarray, "*B T S"]]:
    """softmax(q·kᵀ·scale + score_bias)·v, and the weights that average the values; `scale` is 1/√K unless given.

    `mask` is boolean, True = may attend. `mask` and `score_bias` are (T, S) or
    anything else that broadcasts to the scores (..., T, S). A query that may see
    no key gets zeros.

    A mask does not stop NaNs. A NaN in a query stays in that query's row, and
    one in a key reaches only the queries that see that key; but a NaN in a value
    reaches every query, because a weight of 0 times NaN is NaN.

    Source: Vaswani et al. 2017, "Attention Is All You Need", equation 1. Derived
    in chapter 03.

    Returns:
        The output (..., T, K) and the weights (..., T, S).

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
    if mask is not None:
        np.copyto(scores, -np.inf, where=~mask)
    weights = softmax(scores)
    see(scores=scores, weights=weights)
    return weights @ v, weights


def scaled_dot_product_attention_backward(
    grad: Float[np.ndarray, "*B T K"],
    q: Float[np.ndarray, "*B T K"],
    k: Float[np.ndarray, "*B S K"],
    v: Float[np.ndarray, "*B S K"],
    weights: Float[np.ndarray, "*B T S"],
    *,
    scale: float | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Maps the gradient of the output to those of q, k, v and of the scores, which is also the bias's.

    A masked pair has a weight of 0, and so no gradient: the mask needs no
    mention.

    Derived in chapter 09.
    """
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    grad_v = weights.swapaxes(-1, -2) @ grad
    grad_scores = softmax_backward(grad @ v.swapaxes(-1, -2), weights)
    grad_q = grad_scores @ k
    grad_k = grad_scores.swapaxes(-1, -2) @ q
    grad_q *= scale
    grad_k *= scale
    return grad_q, grad_k, grad_v, grad_scores


def split_heads(
    x: Float[np.ndarray, "*B T D"], n_heads: int
) -> Float[np.ndarray, "*B H T K"]:
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


def repeat_heads(
    x: Float[np.ndarray, "*B G T K"], times: int
) -> Float[np.ndarray, "*B H T K"]:
    """(..., G, T, K) -> (..., H, T, K): each head of keys or values, `times` times, for the queries it serves.

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
    """Maps the gradient of the repeated heads to that of each: the sum of all its uses.

    Derived in chapter 09.
    """
    *B, H, T, K = grad.shape
    if times == 1:
        return grad
    return grad.reshape(*B, H // times, times, T, K).sum(axis=-3)


class MultiHeadAttention(Layer):
    """Attention with H heads, each attending in its own d_head dimensions.

    The queries come from x, the keys and values from x too or, in
    cross-attention, from `memory`. `W_q` leads from D to H·K, `W_k` and `W_v`
    from D to G·K, and `W_o` from H·K back to D. With G = n_kv_heads below H, H/G
    query heads share each head of keys and values (grouped-query; with G = 1,
    multi-query). `bias` says which of the four have biases: "none", "qkv" or
    "all". With `qk_norm`, each query and key is brought to a standard size by an
    RMSNorm over d_head, so that no score can grow large. `dropout` is the share
    of the output that is dropped in training.

    `position_encoding`, one of the classes in `positions.py`, rotates queries and
    keys or biases the scores here. One that adds to the input is the caller's:
    `attention(encoding.embed(x))`.

    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.2.2;
    grouped: Ainslie et al. 2023, "GQA"; qk_norm: Henry et al. 2020, "Query-Key
    Normalization for Transformers". Derived in chapter 03, its gradient in 09.

    Raises:
        ValueError: `n_heads` does not divide `d_model` (where `d_head` is not
            given), `n_kv_heads` does not divide `n_heads`, or
            `position_encoding` was made for another n_heads or d_head.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        n_kv_heads: int | None = None,
        d_head: int | None = None,
        position_encoding: NoPositions | None = None,
        causal: bool = False,
        bias: str = "none",
        qk_norm: bool = False,
        norm_eps: float = 1e-5,
        scale: float | None = None,
        dropout: float = 0.0,
        generator: np.random.Generator | None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        if d_head is None:
            checks.divisible("d_model", d_model, "n_heads", n_heads)
            d_head = d_model // n_heads
        n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
        checks.divisible("n_heads", n_heads, "n_kv_heads", n_kv_heads)
        checks.one_of("bias", bias, ATTENTION_BIASES)
        self.d_model, self.d_head = d_model, d_head
        self.n_heads, self.n_kv_heads = n_heads, n_kv_heads
        self.causal, self.scale = causal, scale
        self.position_encoding = (
            NoPositions() if position_encoding is None else position_encoding
        )
        for name, size in (("n_heads", n_heads), ("d_head", d_head)):
            checks.equal(
                f"position_encoding.{name}",
                getattr(self.position_encoding, name, size),
                name,
                size,
            )

        init_kwargs = {"generator": generator, "dtype": dtype}
        self.W_q = Linear(
            d_model, n_heads * d_head, bias=bias != "none", **init_kwargs
        )
        self.W_k = Linear(
            d_model, n_kv_heads * d_head, bias=bias != "none", **init_kwargs
        )
        self.W_v = Linear(
            d_model, n_kv_heads * d_head, bias=bias != "none", **init_kwargs
        )
        self.W_o = Linear(
            n_heads * d_head, d_model, bias=bias == "all", **init_kwargs
        )
        self.norm_q = (
            RMSNorm(d_head, eps=norm_eps, dtype=dtype) if qk_norm else None
        )
        self.norm_k = (
            RMSNorm(d_head, eps=norm_eps, dtype=dtype) if qk_norm else None
        )
        self.dropout = Dropout(dropout, generator=generator)

    def forward(
        self,
        x: Float[np.ndarray, "*B T D"],
        *,
        memory: Float[np.ndarray, "*B S D"] | None = None,
        position_ids: Integer[np.ndarray, "..."] | None = None,
        mask: Bool[np.ndarray, "..."] | None = None,
        score_bias: Float[np.ndarray, "..."] | None = None,
        cache: KeyValueCache | None = None,
        saved: Saved | None = None,
    ) -> Float[np.ndarray, "*B T D"]:
        """Maps x (..., T, D) to (..., T, D).

        `position_ids` says where each row of x sits: (T,) or (B, T), 0..T-1 by
        default. `mask`, True = may attend, broadcasts to (..., H, T, S); with
        `causal`, a query sees what both masks allow, and "before" goes by row,
        whatever `position_ids` says. `score_bias`, which broadcasts alike, is
        added to the scores: for a table that many layers share. With a `cache`, x is
        what is new; its keys and values are added to those of the past. A NaN anywhere in
        row t of x makes every row NaN, those before t too.

        Raises:
            ValueError: a shape does not fit, or a position is one that
                the position encoding cannot place.
            TypeError: x is not floating-point, `position_ids` not integer or
                `mask` not boolean.
        """
        checks.floats("x", x)
        checks.axes("x", x, "T, D")
        checks.equal("x.shape[-1]", x.shape[-1], "d_model", self.d_model)
        checks.no_gradient_through_cache(saved, cache)
        enter_sublayer("attention" if memory is None else "cross-attention")

        # Project, and place
        q = self._heads(x, self.W_q, self.norm_q, saved)  # (..., H, T, K)
        if memory is None:
            k = self._heads(x, self.W_k, self.norm_k, saved)  # (..., G, T, K)
            v = self._heads(x, self.W_v, None, saved)
            position_ids = self._default_positions(x, position_ids, cache)
            q = self.position_encoding.rotate(q, position_ids, saved)
            k = self.position_encoding.rotate(k, position_ids, saved)
            if cache is not None:
                k, v = cache.append(k, v)  # (..., G, S, K)
            own_score_bias = self._own_score_bias(position_ids, cache, saved)
        else:
            k, v = self._of_memory(memory, cache, saved)
            own_score_bias = None
        sharing = self.n_heads // self.n_kv_heads
        k = repeat_heads(k, sharing)  # (..., H, S, K)
        v = repeat_heads(v, sharing)
        see(q=q, k=k, v=v)

        # Score, mask, and mix
        checks.score_bias_fits(score_bias, (*q.shape[:-1], k.shape[-2]))
        mask = self._visible(mask, q, k)
        mixed, weights = scaled_dot_product_attention(
            q,
            k,
            v,
            mask=mask,
            score_bias=plus(score_bias, own_score_bias),
            scale=self.scale,
        )
        save_for_backward(saved, q, k, v, weights, score_bias, memory is None)

        # Merge
        y = self.dropout(self.W_o(merge_heads(mixed), saved), saved)
        see(write=y)
        return y

    def backward(
        self, grad: Float[np.ndarray, "*B T D"], saved: Saved
    ) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
        """Maps the gradient of the output to those of x, of `memory` and of `score_bias`.

        None for what was not there.
        """
        # Splitting heads undoes merging them: each is the other's backward
        grad = self.W_o.backward(self.dropout.backward(grad, saved), saved)
        grad = split_heads(grad, self.n_heads)

        q, k, v, weights, score_bias, looks_at_x = saved.pop()
        grad_q, grad_k, grad_v, grad_scores = (
            scaled_dot_product_attention_backward(
                grad, q, k, v, weights, scale=self.scale
            )
        )
        grad_score_bias = (
            None if score_bias is None else sum_to(grad_scores, score_bias.shape)
        )

        sharing = self.n_heads // self.n_kv_heads
        grad_v = repeat_heads_backward(grad_v, sharing)
        grad_k = repeat_heads_backward(grad_k, sharing)
        if looks_at_x:
            self.position_encoding.score_bias_backward(grad_scores, saved)
            grad_k = self.position_encoding.rotate_backward(grad_k, saved)
            grad_q = self.position_encoding.rotate_backward(grad_q, saved)
        from_v = self._heads_backward(grad_v, self.W_v, None, saved)
        from_k = self._heads_backward(grad_k, self.W_k, self.norm_k, saved)
        from_q = self._heads_backward(grad_q, self.W_q, self.norm_q, saved)
        if looks_at_x:
            return from_q + from_k + from_v, None, grad_score_bias
        return from_q, from_k + from_v, grad_score_bias

    def attention_weights(
        self, x: Float[np.ndarray, "*B T D"], **inputs: Any
    ) -> Float[np.ndarray, "*B H T S"]:
        """Maps x (..., T, D) to the attention paid, (..., H, T, S): each row a distribution over keys.

        Takes what `forward` takes.
        """
        with trace() as seen:
            self(x, **inputs)
        return seen.arrays("weights")[-1]

    def _heads(
        self,
        x: Float[np.ndarray, "*B T D"],
        W: Linear,
        norm: RMSNorm | None,
        saved: Saved | None,
    ) -> Float[np.ndarray, "*B H T K"]:
        """Takes x through W, cut into heads and, where there is a norm, brought to size."""
        heads = split_heads(W(x, saved), W.n_out // self.d_head)
        return heads if norm is None else norm(heads, saved)

    def _heads_backward(
        self,
        grad: Float[np.ndarray, "*B H T K"],
        W: Linear,
        norm: RMSNorm | None,
        saved: Saved,
    ) -> Float[np.ndarray, "*B T D"]:
        """Maps the gradient of the heads to that of x."""
        if norm is not None:
            grad = norm.backward(grad, saved)
        return W.backward(merge_heads(grad), saved)

    def _visible(
        self,
        mask: Bool[np.ndarray, "..."] | None,
        q: Float[np.ndarray, "*B H T K"],
        k: Float[np.ndarray, "*B H S K"],
    ) -> Bool[np.ndarray, "..."] | None:
        """Returns what the caller's mask and, with `causal`, the order of the text both allow."""
        T, S = q.shape[-2], k.shape[-2]
        if mask is not None:
            checks.may_attend(mask, (*q.shape[:-1], S))
        if not self.causal or T == 1:  # a single query is the last, and sees all
            return mask
        past = causal_mask(T, S)
        return past if mask is None else mask & past

    # What serves caches, cross-attention and positions of one's own

    def _default_positions(
        self,
        x: Float[np.ndarray, "*B T D"],
        position_ids: Integer[np.ndarray, "..."] | None,
        cache: KeyValueCache | None,
    ) -> Integer[np.ndarray, "..."]:
        """Returns the position of each row of x: by default 0..T-1, or after what is cached."""
        *B, T, _ = x.shape
        if position_ids is None:
            past = 0 if cache is None else cache.length
            return np.arange(past, past + T)
        checks.places("position_ids", position_ids, tuple(B), T)
        return position_ids

    def _of_memory(
        self,
        memory: Float[np.ndarray, "*B S D"],
        cache: KeyValueCache | None,
        saved: Saved | None,
    ) -> tuple[Float[np.ndarray, "*B G S K"], Float[np.ndarray, "*B G S K"]]:
        """The keys and values of what an encoder said; cached, since that never changes."""
        if cache is not None and cache.length:
            return cache.keys, cache.values
        k = self._heads(memory, self.W_k, self.norm_k, saved)
        v = self._heads(memory, self.W_v, None, saved)
        return (k, v) if cache is None else cache.append(k, v)

    def _own_score_bias(
        self,
        position_ids: Integer[np.ndarray, "..."],
        cache: KeyValueCache | None,
        saved: Saved | None,
    ) -> Float[np.ndarray, "..."] | None:
        """Returns what the position encoding adds to the scores, or None.

        The cached keys are then taken to stand at 0, 1, 2 …, and x right after
        them.
        """
        key_positions = position_ids
        if cache is not None and self.position_encoding.acts_on == "scores":
            key_positions = np.arange(cache.length)
            n_cached = cache.length - position_ids.shape[-1]
            if not np.array_equal(position_ids, key_positions[n_cached:]):
                raise ValueError(
                    f"position_ids={position_ids.tolist()} do not follow "
                    f"{n_cached} cached ones: for others, give score_bias"
                )
        return self.position_encoding.score_bias(
            position_ids, key_positions, saved
        )
