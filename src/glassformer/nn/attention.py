"""Attention: each position compares its query with the keys it may see, and averages their values.

The axes, here and everywhere: B batch, T query positions, S key positions, D
d_model, H heads, G key/value heads, K d_head.
"""

import math
from typing import Any

import torch
from jaxtyping import Bool, Float, Integer
from torch import Tensor, nn
from torch.nn import functional

from glassformer import _checks as checks
from glassformer.config import ATTENTION_BIASES
from glassformer.nn.cache import KeyValueCache
from glassformer.nn.linear import Linear, plus
from glassformer.nn.norm import RMSNorm
from glassformer.nn.positions import NoPositions
from glassformer.trace import enter_sublayer, see, trace, tracing


def softmax(x: Float[Tensor, "*B"], axis: int = -1) -> Float[Tensor, "*B"]:
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
    largest = x.amax(dim=axis, keepdim=True).clamp(min=torch.finfo(x.dtype).min)
    weights = torch.exp(x - largest)
    # The largest entry gives exp(0) = 1, so only a row of −inf sums to less: to 0
    return weights / weights.sum(dim=axis, keepdim=True).clamp(min=1)


def causal_mask(n_queries: int, n_keys: int | None = None) -> Bool[Tensor, "T S"]:
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
    size = n_queries, n_keys
    return torch.ones(size, dtype=torch.bool).tril(n_keys - n_queries)


def window_mask(
    n_queries: int, n_keys: int | None = None, *, window: int
) -> Bool[Tensor, "T S"]:
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
    size = n_queries, n_keys
    return torch.ones(size, dtype=torch.bool).triu(
        n_keys - n_queries - window + 1
    )


def scaled_dot_product_attention(
    q: Float[Tensor, "*B T K"],
    k: Float[Tensor, "*B S K"],
    v: Float[Tensor, "*B S K"],
    *,
    mask: Bool[Tensor, "..."] | None = None,
    causal: bool = False,
    score_bias: Float[Tensor, "..."] | None = None,
    scale: float | None = None,
) -> tuple[Float[Tensor, "*B T K"], Float[Tensor, "*B T S"]]:
    """Returns softmax(q·kᵀ·scale + score_bias)·v and the attention weights; `scale` defaults to 1/√K.

    `mask` is boolean, True = may attend. `mask` and `score_bias` are (T, S) or
    anything else that broadcasts to the scores (..., T, S). With `causal`, a query
    sees what both `mask` and the causal mask allow. A query that may see no key
    gets zeros.

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
    scores = q @ k.transpose(-1, -2)  # (..., T, S)
    scores = scores * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if score_bias is not None:
        scores = scores + score_bias.to(scores.dtype)
    if causal and q.shape[-2] > 1:  # a single query is the last, and sees all
        past = causal_mask(*scores.shape[-2:]).to(scores.device)
        scores = torch.where(past, scores, -torch.inf)
    if mask is not None:
        scores = torch.where(mask, scores, -torch.inf)
    weights = softmax(scores)
    see(scores=scores, weights=weights)
    return weights @ v, weights


def _attend_in_one_piece(
    q: Float[Tensor, "*B T K"],
    k: Float[Tensor, "*B S K"],
    v: Float[Tensor, "*B S K"],
    *,
    mask: Bool[Tensor, "..."] | None,
    causal: bool,
    score_bias: Float[Tensor, "..."] | None,
    scale: float | None,
) -> tuple[Float[Tensor, "*B T K"], None]:
    """Computes the same with torch's own kernel, which never stores the weights, so it cannot return them."""
    checks.attention(q, k, v, mask, score_bias)
    if causal and q.shape[-2] > 1:
        past = causal_mask(q.shape[-2], k.shape[-2]).to(q.device)
        mask = past if mask is None else mask & past
    if score_bias is not None:
        bias = score_bias.to(q.dtype)
        mask = bias if mask is None else torch.where(mask, bias, -torch.inf)
    mixed = functional.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, scale=scale
    )
    return mixed, None


def split_heads(
    x: Float[Tensor, "*B T D"], n_heads: int
) -> Float[Tensor, "*B H T K"]:
    """(..., T, D) -> (..., H, T, K): cuts each position's D numbers into H runs of K, one for each head.

    Derived in chapter 03.

    Raises:
        ValueError: `n_heads` does not divide D, or x has fewer than two axes.
    """
    checks.axes("x", x, "T, D")
    *B, T, D = x.shape
    checks.divisible("d_model", D, "n_heads", n_heads)
    return x.reshape(*B, T, n_heads, D // n_heads).transpose(-3, -2)


def merge_heads(x: Float[Tensor, "*B H T K"]) -> Float[Tensor, "*B T D"]:
    """(..., H, T, K) -> (..., T, D): undoes `split_heads`.

    Derived in chapter 03.

    Raises:
        ValueError: x has fewer than three axes.
    """
    checks.axes("x", x, "H, T, K")
    *B, H, T, K = x.shape
    return x.transpose(-3, -2).reshape(*B, T, H * K)


def repeat_heads(
    x: Float[Tensor, "*B G T K"], times: int
) -> Float[Tensor, "*B H T K"]:
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
    return x if times == 1 else x.repeat_interleave(times, dim=-3)


class MultiHeadAttention(nn.Module):
    """Attention with H heads, each attending in its own d_head dimensions.

    The queries come from x; the keys and values also come from x or, in
    cross-attention, from `memory`. `W_q` maps D to H·K, `W_k` and `W_v` map D to
    G·K, and `W_o` maps H·K back to D. If G = n_kv_heads is below H, every H/G
    query heads share one key/value head (grouped-query attention; with G = 1,
    multi-query attention). `bias` says which of the four matrices have biases:
    "none", "qkv" or "all". With `qk_norm`, an RMSNorm over d_head brings each
    query and key to a standard size, so that no score can grow large. `dropout`
    is the fraction of the output that is dropped in training.

    `position_encoding`, one of the classes in `positions.py`, rotates queries and
    keys or biases the scores here. If it adds to the input instead, the caller
    applies it: `attention(encoding.embed(x))`.

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
        generator: torch.Generator | None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
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
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Float[Tensor, "*B T D"],
        *,
        memory: Float[Tensor, "*B S D"] | None = None,
        position_ids: Integer[Tensor, "..."] | None = None,
        mask: Bool[Tensor, "..."] | None = None,
        score_bias: Float[Tensor, "..."] | None = None,
        cache: KeyValueCache | None = None,
    ) -> Float[Tensor, "*B T D"]:
        """Maps x (..., T, D) to (..., T, D).

        `position_ids` gives the position of each row of x: (T,) or (B, T), 0..T-1
        by default. `mask`, True = may attend, broadcasts to (..., H, T, S). With
        `causal`, a query sees what both masks allow, and "earlier" refers to the
        order of the rows, whatever `position_ids` says. `score_bias`, which
        broadcasts in the same way, is added to the scores; several layers can
        share one such table. With a `cache`, x holds only the new positions, and
        their keys and values are appended to the cached ones. A NaN anywhere in
        row t of x makes every row NaN, including those before t.

        Raises:
            ValueError: a shape does not fit, or the position encoding does not
                cover a position.
            TypeError: x is not floating-point, `position_ids` not integer or
                `mask` not boolean.
        """
        checks.floats("x", x)
        checks.axes("x", x, "T, D")
        checks.equal("x.shape[-1]", x.shape[-1], "d_model", self.d_model)
        enter_sublayer("attention" if memory is None else "cross-attention")

        # Project, and apply the positions
        q = self._heads(x, self.W_q, self.norm_q)  # (..., H, T, K)
        if memory is None:
            k = self._heads(x, self.W_k, self.norm_k)  # (..., G, T, K)
            v = self._heads(x, self.W_v, None)
            position_ids = self._default_positions(x, position_ids, cache)
            q = self.position_encoding.rotate(q, position_ids)
            k = self.position_encoding.rotate(k, position_ids)
            if cache is not None:
                k, v = cache.append(k, v)  # (..., G, S, K)
            own_score_bias = self._own_score_bias(position_ids, cache)
        else:
            k, v = self._of_memory(memory, cache)
            own_score_bias = None
        sharing = self.n_heads // self.n_kv_heads
        k = repeat_heads(k, sharing)  # (..., H, S, K)
        v = repeat_heads(v, sharing)
        see(q=q, k=k, v=v)

        # Score, mask, and mix
        checks.score_bias_fits(score_bias, (*q.shape[:-1], k.shape[-2]))
        options = {
            "mask": mask,
            "causal": self.causal,
            "score_bias": plus(score_bias, own_score_bias),
            "scale": self.scale,
        }
        # In one kernel; but step by step if a trace is open, because it needs the
        # weights
        attend = (
            scaled_dot_product_attention if tracing() else _attend_in_one_piece
        )
        mixed, _ = attend(q, k, v, **options)

        # Merge
        y = self.dropout(self.W_o(merge_heads(mixed)))
        see(write=y)
        return y

    def attention_weights(
        self, x: Float[Tensor, "*B T D"], **inputs: Any
    ) -> Float[Tensor, "*B H T S"]:
        """Maps x (..., T, D) to the attention weights (..., H, T, S); each row is a distribution over keys.

        Takes the same arguments as `forward`.
        """
        with trace() as seen:
            self(x, **inputs)
        return seen.arrays("weights")[-1]

    def _heads(
        self,
        x: Float[Tensor, "*B T D"],
        W: Linear,
        norm: RMSNorm | None,
    ) -> Float[Tensor, "*B H T K"]:
        """Maps x through W, splits the result into heads and applies the norm, if there is one."""
        heads = split_heads(W(x), W.n_out // self.d_head)
        return heads if norm is None else norm(heads)

    # For caches, cross-attention and positions given by the caller

    def _default_positions(
        self,
        x: Float[Tensor, "*B T D"],
        position_ids: Integer[Tensor, "..."] | None,
        cache: KeyValueCache | None,
    ) -> Integer[Tensor, "..."]:
        """Returns the position of each row of x: by default 0..T-1, or those after the cached ones."""
        *B, T, _ = x.shape
        if position_ids is None:
            past = 0 if cache is None else cache.length
            return torch.arange(past, past + T, device=x.device)
        checks.places("position_ids", position_ids, tuple(B), T)
        return position_ids

    def _of_memory(
        self,
        memory: Float[Tensor, "*B S D"],
        cache: KeyValueCache | None,
    ) -> tuple[Float[Tensor, "*B G S K"], Float[Tensor, "*B G S K"]]:
        """Returns the keys and values of an encoder's output; it never changes, so they are cached."""
        if cache is not None and cache.length:
            return cache.keys, cache.values
        k = self._heads(memory, self.W_k, self.norm_k)
        v = self._heads(memory, self.W_v, None)
        return (k, v) if cache is None else cache.append(k, v)

    def _own_score_bias(
        self,
        position_ids: Integer[Tensor, "..."],
        cache: KeyValueCache | None,
    ) -> Float[Tensor, "..."] | None:
        """Returns what the position encoding adds to the scores, or None.

        The cached keys are assumed to be at positions 0, 1, 2 …, and x right
        after them.
        """
        key_positions = position_ids
        if cache is not None and self.position_encoding.acts_on == "scores":
            key_positions = torch.arange(cache.length, device=position_ids.device)
            n_cached = cache.length - position_ids.shape[-1]
            if not torch.equal(position_ids, key_positions[n_cached:]):
                raise ValueError(
                    f"position_ids={position_ids.tolist()} do not follow "
                    f"{n_cached} cached positions: to use others, pass score_bias"
                )
        return self.position_encoding.score_bias(position_ids, key_positions)
