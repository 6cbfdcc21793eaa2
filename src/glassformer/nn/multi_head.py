"""Multi-head attention, the layer, in PyTorch."""

from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Integer
from torch import Tensor, nn
from torch.nn import functional

from glassformer import _checks as checks
from glassformer.config import ATTENTION_BIASES
from glassformer.nn.attention import (
    causal_mask,
    merge_heads,
    repeat_heads,
    scaled_dot_product_attention,
    split_heads,
    window_mask,
)
from glassformer.nn.cache import KeyValueCache, WindowCache
from glassformer.nn.linear import Linear, plus
from glassformer.nn.norm import RMSNorm
from glassformer.nn.pieces import attention_in_pieces
from glassformer.nn.positions import NoPositions
from glassformer.nn.sinks import softmax_with_sinks
from glassformer.protocols import OF_POSITIONS
from glassformer.trace import enter_sublayer, see, trace, tracing

LARGE = 2**20
"""Pairs of a query and a key from which no mask is made for them: the kernel gives way to pieces of one size."""

Shared = dict[str, Any]
"""Keys and values that layers of one pass leave to later layers, by the kind of layer."""


class MultiHeadAttention(nn.Module):
    """As `scratch.MultiHeadAttention`; attends in one kernel of torch unless a trace is open."""

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
        qk_norm: bool | str = False,
        norm_eps: float = 1e-5,
        scale: float | None = None,
        window: int | None = None,
        scores: nn.Module | None = None,
        gate: nn.Module | None = None,
        sinks: bool = False,
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
        checks.qk_norm(qk_norm)
        self.d_model, self.d_head = d_model, d_head
        self.n_heads, self.n_kv_heads = n_heads, n_kv_heads
        self.causal, self.scale, self.window = causal, scale, window
        self.scores, self.gate = scores, gate
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
        qkv_kwargs = {"bias": bias != "none", **init_kwargs}
        wide, narrow = n_heads * d_head, n_kv_heads * d_head
        self.W_q = Linear(d_model, wide, **qkv_kwargs)
        self.W_k = Linear(d_model, narrow, **qkv_kwargs)
        self.W_v = Linear(d_model, narrow, **qkv_kwargs)
        self.W_o = Linear(wide, d_model, bias=bias == "all", **init_kwargs)
        self.norm_q = self.norm_k = None
        if qk_norm:
            sizes = (wide, narrow) if qk_norm == "width" else (d_head, d_head)
            gain = qk_norm != "plain"
            self.norm_q, self.norm_k = (
                RMSNorm(size, eps=norm_eps, gain=gain, dtype=dtype)
                for size in sizes
            )
        self.norms_last = qk_norm in ("after", "plain")
        zeros = torch.zeros(n_heads, dtype=dtype)
        self.sinks = nn.Parameter(zeros) if sinks else None
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
        shared: Shared | None = None,
    ) -> Float[Tensor, "*B T D"]:
        """As `scratch.MultiHeadAttention.forward`."""
        checks.vectors("x", x, "d_model", self.d_model, "T, D")
        checks.offers(
            "position_encoding",
            self.position_encoding,
            OF_POSITIONS,
            "AnyPositions",
        )
        checks.acts_on(
            "position_encoding",
            self.position_encoding,
            "queries and keys",
            NoPositions,
        )
        enter_sublayer("attention" if memory is None else "cross-attention")

        # Project, and apply the positions
        q = self._heads(x, self.W_q, self.norm_q)  # (..., H, T, K)
        if memory is None:
            position_ids = self._default_positions(x, position_ids, cache)
            q = self.position_encoding.rotate(q, position_ids)
            k, v = self._keys_and_values(x, position_ids, cache, shared)
            own_score_bias = self._own_score_bias(
                position_ids, cache, k.shape[-2]
            )
        else:
            k, v = self._of_memory(memory, cache)
            own_score_bias = None
        q = self._norm_last(q, self.norm_q)
        # In one kernel; but step by step if a trace is open, because it needs the
        # weights, or if something changes the scores
        in_steps = tracing() or self.scores is not None
        in_steps = in_steps or self.sinks is not None
        if in_steps:
            sharing = self.n_heads // self.n_kv_heads
            k = repeat_heads(k, sharing)  # (..., H, S, K)
            v = repeat_heads(v, sharing)
        see(q=q, k=k, v=v)

        # Score, mask, and mix
        mask, score_bias = self._in_window(
            mask, score_bias, q.shape[-2], k.shape[-2]
        )
        checks.score_bias_fits(score_bias, (*q.shape[:-1], k.shape[-2]))
        options: dict[str, Any] = {
            "mask": mask,
            "causal": self.causal,
            "score_bias": plus(score_bias, own_score_bias),
            "scale": self.scale,
        }
        if self.sinks is not None:
            options["normalize"] = partial(softmax_with_sinks, sinks=self.sinks)
        if self.scores is not None:
            options["change"] = partial(self.scores, position_ids=position_ids)
        attend = (
            scaled_dot_product_attention if in_steps else _attend_in_one_piece
        )
        mixed, _ = attend(q, k, v, **options)

        # Merge
        if self.gate is not None:
            mixed = self.gate(mixed, x)
        y = self.dropout(self.W_o(merge_heads(mixed)))
        see(write=y)
        return y

    def attention_weights(
        self, x: Float[Tensor, "*B T D"], **inputs: Any
    ) -> Float[Tensor, "*B H T S"]:
        """As `scratch.MultiHeadAttention.attention_weights`."""
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
        return self._split(W(x), norm)

    def _split(
        self, wide: Float[Tensor, "*B T _"], norm: RMSNorm | None
    ) -> Float[Tensor, "*B H T K"]:
        """Splits numbers of all heads into those of each, and applies the norm before or after, if there is one."""
        norm = None if self.norms_last else norm
        if norm is not None and norm.d_model > self.d_head:
            wide = norm(wide)
        heads = split_heads(wide, wide.shape[-1] // self.d_head)
        if norm is not None and norm.d_model == self.d_head:
            heads = norm(heads)
        return heads

    def _norm_last(
        self, heads: Float[Tensor, "*B H T K"], norm: RMSNorm | None
    ) -> Float[Tensor, "*B H T K"]:
        """Applies a norm that comes after the rotation."""
        return heads if norm is None or not self.norms_last else norm(heads)

    def _keys_and_values(
        self,
        x: Float[Tensor, "*B T D"],
        position_ids: Integer[Tensor, "..."],
        cache: KeyValueCache | None,
        shared: Shared | None,
    ) -> tuple[Float[Tensor, "*B G S K"], Float[Tensor, "*B G S K"]]:
        """Returns the keys, turned by their positions, and the values, with those of the cache before them."""
        k = self._heads(x, self.W_k, self.norm_k)  # (..., G, T, K)
        v = self._heads(x, self.W_v, None)
        k = self.position_encoding.rotate(k, position_ids)
        k = self._norm_last(k, self.norm_k)
        return (k, v) if cache is None else cache.append(k, v)

    def _in_window(
        self,
        mask: Bool[Tensor, "..."] | None,
        score_bias: Float[Tensor, "..."] | None,
        n_queries: int,
        n_keys: int,
    ) -> tuple[Tensor | None, Tensor | None]:
        """Hides what is beyond the window, if there is one, and leaves out keys that a cache has dropped."""
        if self.window is None:
            return mask, score_bias
        if mask is not None:
            mask = mask[..., -n_keys:]
        if score_bias is not None:
            score_bias = score_bias[..., -n_keys:]
        if n_keys > self.window:
            seen = window_mask(n_queries, n_keys, window=self.window)
            seen = seen.to(self.W_q.weight.device)
            mask = seen if mask is None else mask & seen
        return mask, score_bias

    # For caches, cross-attention and positions given by the caller

    def new_cache(
        self, batch_size: int, length: int, *, rewindable: int = 0
    ) -> KeyValueCache:
        """As `scratch.MultiHeadAttention.new_cache`."""
        sizes = batch_size, self.n_kv_heads, length, self.d_head
        weight = self.W_q.weight
        like = {"dtype": weight.dtype, "device": weight.device}
        if self.window is None:
            return KeyValueCache(*sizes, **like)
        return WindowCache(
            *sizes, window=self.window, rewindable=rewindable, **like
        )

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
        k = self._norm_last(k, self.norm_k)
        v = self._heads(memory, self.W_v, None)
        return (k, v) if cache is None else cache.append(k, v)

    def _own_score_bias(
        self,
        position_ids: Integer[Tensor, "..."],
        cache: KeyValueCache | None,
        n_keys: int,
    ) -> Float[Tensor, "..."] | None:
        """Returns what the position encoding adds to the scores, or None."""
        key_positions = position_ids
        if cache is not None and self.position_encoding.acts_on == "scores":
            key_positions = torch.arange(cache.length, device=position_ids.device)
            n_cached = cache.length - position_ids.shape[-1]
            if not torch.equal(position_ids, key_positions[n_cached:]):
                raise ValueError(
                    f"position_ids={position_ids.tolist()} do not follow "
                    f"{n_cached} cached positions: to use others, pass score_bias"
                )
            key_positions = key_positions[-n_keys:]
        return self.position_encoding.score_bias(position_ids, key_positions)


def _attend_in_one_piece(
    q: Float[Tensor, "*B H T K"],
    k: Float[Tensor, "*B G S K"],
    v: Float[Tensor, "*B G S U"],
    *,
    mask: Bool[Tensor, "..."] | None,
    causal: bool,
    score_bias: Float[Tensor, "..."] | None = None,
    scale: float | None,
) -> tuple[Float[Tensor, "*B H T U"], None]:
    """Computes the same with torch's own kernel, which never stores the weights, so it cannot return them.

    The kernel shares keys and values among query heads by itself. It also has a
    causal mask of its own, which is faster than a given one; but that mask
    aligns the first query with the first key, so it serves only where there is
    a query for every key. Where a mask would be large, all is in pieces of one
    size: masks that grow with the text would leave holes in memory.
    """
    sharing = q.shape[-3] // k.shape[-3]
    checks.attention(q, k, v, mask, score_bias, sharing=sharing)
    n_queries, n_keys = q.shape[-2], k.shape[-2]
    # Sizes are tensors while torch.jit.trace records
    alone = mask is None and score_bias is None and bool(n_queries == n_keys)
    needs_mask = causal and n_queries > 1 and not alone
    if needs_mask and score_bias is None and n_queries * n_keys > LARGE:
        k, v = repeat_heads(k, sharing), repeat_heads(v, sharing)
        options: dict[str, Any] = {"mask": mask, "scale": scale}
        mixed, _ = attention_in_pieces(
            q, k, v, causal=True, piece=1024, **options
        )
        return mixed, None
    if needs_mask:
        past = causal_mask(n_queries, n_keys).to(q.device)
        mask = past if mask is None else mask & past
    if score_bias is not None:
        bias = score_bias.to(q.dtype)
        mask = bias if mask is None else torch.where(mask, bias, -torch.inf)
    mixed = functional.scaled_dot_product_attention(
        q,
        k,
        v,
        attn_mask=mask,
        is_causal=causal and alone,
        scale=scale,
        enable_gqa=bool(sharing > 1),
    )
    return mixed, None
