"""Multi-head attention, the layer: projects, applies positions, masks and a cache, and attends."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from glassformer import _checks as checks
from glassformer.config import ATTENTION_BIASES
from glassformer.scratch.attention import (
    merge_heads,
    repeat_heads,
    repeat_heads_backward,
    scaled_dot_product_attention,
    scaled_dot_product_attention_backward,
    split_heads,
    window_mask,
)
from glassformer.scratch.cache import KeyValueCache, WindowCache
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
from glassformer.scratch.sinks import sinks_backward, softmax_with_sinks
from glassformer.shapes import Bool, Float, Integer
from glassformer.trace import enter_sublayer, see, trace

Shared = dict[str, Any]
"""Keys and values that layers of one pass leave to later layers, by the kind of layer."""


class MultiHeadAttention(Layer):
    """Attention with H heads, each attending in its own d_head dimensions.

    The queries come from x; the keys and values also come from x or, in
    cross-attention, from `memory`. `W_q` maps D to H·K, `W_k` and `W_v` map D to
    G·K, and `W_o` maps H·K back to D. If G = n_kv_heads is below H, every H/G
    query heads share one key/value head (grouped-query attention; with G = 1,
    multi-query attention). `bias` says which of the four matrices have biases:
    "none", "qkv" or "all". With `qk_norm`, an RMSNorm over d_head brings each
    query and key to a standard size, so that no score can grow large; with
    "width", it is over those of all heads at once; with "after", it comes after
    the rotation, and "plain" is the same without a gain. With `window`, a query
    sees only that many positions, its own included. `scores` is a layer that
    changes the scores, such as `SoftCap`. `gate` is a layer that scales what each
    head has mixed, such as `OutputGate`. With `sinks`, each head learns one more
    score, which nothing is read for. `dropout` is the fraction of the output that
    is dropped in training.

    `position_encoding`, such as `RotaryPositions`, rotates queries and keys or
    biases the scores here. If it adds to the input instead, the caller
    applies it: `attention(encoding.embed(x))`.

    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.2.2;
    grouped: Ainslie et al. 2023, "GQA"; qk_norm: Henry et al. 2020, "Query-Key
    Normalization for Transformers"; "after": Tencent's Hunyuan; "plain": Meta's
    Llama 4 and Karpathy's nanochat; "width": Team OLMo 2024, "2 OLMo 2 Furious".
    Derived in chapter 03, its gradient in 09; gates and sinks in 16.

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
        qk_norm: bool | str = False,
        norm_eps: float = 1e-5,
        scale: float | None = None,
        window: int | None = None,
        scores: Layer | None = None,
        gate: Layer | None = None,
        sinks: bool = False,
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
        self.sinks = np.zeros(n_heads, dtype) if sinks else None
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
        shared: Shared | None = None,
        saved: Saved | None = None,
    ) -> Float[np.ndarray, "*B T D"]:
        """Maps x (..., T, D) to (..., T, D).

        `position_ids` gives the position of each row of x: (T,) or (B, T), 0..T-1
        by default. `mask`, True = may attend, broadcasts to (..., H, T, S). With
        `causal`, a query sees what both masks allow, and "earlier" refers to the
        order of the rows, whatever `position_ids` says. `score_bias`, which
        broadcasts in the same way, is added to the scores; several layers can
        share one such table. With a `cache`, x holds only the new positions, and
        their keys and values are appended to the cached ones. In `shared`, layers
        can leave theirs to later layers. A NaN anywhere in row t of x makes every
        row NaN, including those before t.

        Raises:
            ValueError: a shape does not fit, or the position encoding does not
                cover a position.
            TypeError: x is not floating-point, `position_ids` not integer or
                `mask` not boolean.
        """
        checks.vectors("x", x, "d_model", self.d_model, "T, D")
        checks.no_gradient_through_cache(saved, cache)
        enter_sublayer("attention" if memory is None else "cross-attention")

        # Project, and apply the positions
        q = self._heads(x, self.W_q, self.norm_q, saved)  # (..., H, T, K)
        if memory is None:
            position_ids = self._default_positions(x, position_ids, cache)
            q = self.position_encoding.rotate(q, position_ids, saved)
            k, v = self._keys_and_values(x, position_ids, cache, shared, saved)
            own_score_bias = self._own_score_bias(
                position_ids, cache, k.shape[-2], saved
            )
        else:
            k, v = self._of_memory(memory, cache, saved)
            own_score_bias = None
        q = self._norm_last(q, self.norm_q, saved)
        sharing = self.n_heads // self.n_kv_heads
        k = repeat_heads(k, sharing)  # (..., H, S, K)
        v = repeat_heads(v, sharing)
        see(q=q, k=k, v=v)

        # Score, mask, and mix
        mask, score_bias = self._in_window(
            mask, score_bias, q.shape[-2], k.shape[-2]
        )
        checks.score_bias_fits(score_bias, (*q.shape[:-1], k.shape[-2]))
        mixed, weights = scaled_dot_product_attention(
            q,
            k,
            v,
            mask=mask,
            causal=self.causal,
            score_bias=plus(score_bias, own_score_bias),
            scale=self.scale,
            change=self._change(position_ids, saved),
            normalize=self._normalize,
        )
        save_for_backward(saved, q, k, v, weights, score_bias, memory is None)

        # Merge
        mixed = self._gated(mixed, x, saved)
        y = self.dropout(self.W_o(merge_heads(mixed), saved), saved)
        see(write=y)
        return y

    def backward(
        self, grad: Float[np.ndarray, "*B T D"], saved: Saved
    ) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
        """Maps the gradient of the output to those of x, of `memory` and of `score_bias`.

        The gradient of an input that was not given is None.
        """
        # Splitting heads undoes merging them, so each is the other's backward
        # pass
        grad = self.W_o.backward(self.dropout.backward(grad, saved), saved)
        grad = split_heads(grad, self.n_heads)
        from_gate = None
        if self.gate is not None:
            grad, from_gate = self.gate.backward(grad, saved)

        q, k, v, weights, score_bias, is_self_attention = saved.pop()
        grad_q, grad_k, grad_v, grad_scores = (
            scaled_dot_product_attention_backward(
                grad,
                q,
                k,
                v,
                weights,
                scale=self.scale,
                change_backward=self._change_backward(saved),
            )
        )
        if self.sinks is not None:
            self.accumulate(sinks=sinks_backward(grad_scores))
        grad_score_bias = (
            None if score_bias is None else sum_to(grad_scores, score_bias.shape)
        )

        sharing = self.n_heads // self.n_kv_heads
        grad_v = repeat_heads_backward(grad_v, sharing)
        grad_k = repeat_heads_backward(grad_k, sharing)
        grad_memory, from_kv = None, ()
        grad_q = self._norm_last_backward(grad_q, self.norm_q, saved)
        if is_self_attention:
            self.position_encoding.score_bias_backward(grad_scores, saved)
            from_kv = self._keys_and_values_backward(grad_k, grad_v, saved)
            grad_q = self.position_encoding.rotate_backward(grad_q, saved)
        else:
            from_v = self._heads_backward(grad_v, self.W_v, None, saved)
            grad_k = self._norm_last_backward(grad_k, self.norm_k, saved)
            from_k = self._heads_backward(grad_k, self.W_k, self.norm_k, saved)
            grad_memory = from_k + from_v
        grad_x = self._heads_backward(grad_q, self.W_q, self.norm_q, saved)
        for grad in (*from_kv, *(() if from_gate is None else (from_gate,))):
            grad_x = grad_x + grad
        return grad_x, grad_memory, grad_score_bias

    def attention_weights(
        self, x: Float[np.ndarray, "*B T D"], **inputs: Any
    ) -> Float[np.ndarray, "*B H T S"]:
        """Maps x (..., T, D) to the attention weights (..., H, T, S); each row is a distribution over keys.

        Takes the same arguments as `forward`.
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
        """Maps x through W, splits the result into heads and applies the norm, if there is one."""
        return self._split(W(x, saved), norm, saved)

    def _heads_backward(
        self,
        grad: Float[np.ndarray, "*B H T K"],
        W: Linear,
        norm: RMSNorm | None,
        saved: Saved,
    ) -> Float[np.ndarray, "*B T D"]:
        """Maps the gradient of the heads to that of x."""
        return W.backward(self._split_backward(grad, norm, saved), saved)

    def _split(
        self,
        wide: Float[np.ndarray, "*B T _"],
        norm: RMSNorm | None,
        saved: Saved | None,
    ) -> Float[np.ndarray, "*B H T K"]:
        """Splits numbers of all heads into those of each, and applies the norm before or after, if there is one."""
        norm = None if self.norms_last else norm
        if norm is not None and norm.d_model > self.d_head:
            wide = norm(wide, saved)
        heads = split_heads(wide, wide.shape[-1] // self.d_head)
        if norm is not None and norm.d_model == self.d_head:
            heads = norm(heads, saved)
        return heads

    def _split_backward(
        self,
        grad: Float[np.ndarray, "*B H T K"],
        norm: RMSNorm | None,
        saved: Saved,
    ) -> Float[np.ndarray, "*B T _"]:
        """Maps the gradient of the heads to that of the numbers of all heads."""
        norm = None if self.norms_last else norm
        if norm is not None and norm.d_model == self.d_head:
            grad = norm.backward(grad, saved)
        grad = merge_heads(grad)
        if norm is not None and norm.d_model > self.d_head:
            grad = norm.backward(grad, saved)
        return grad

    def _norm_last(
        self,
        heads: Float[np.ndarray, "*B H T K"],
        norm: RMSNorm | None,
        saved: Saved | None,
    ) -> Float[np.ndarray, "*B H T K"]:
        """Applies a norm that comes after the rotation."""
        if norm is None or not self.norms_last:
            return heads
        return norm(heads, saved)

    def _norm_last_backward(
        self,
        grad: Float[np.ndarray, "*B H T K"],
        norm: RMSNorm | None,
        saved: Saved,
    ) -> Float[np.ndarray, "*B H T K"]:
        """Maps the gradient of the normed heads to that of the heads."""
        if norm is None or not self.norms_last:
            return grad
        return norm.backward(grad, saved)

    # What models with other keys and values replace

    def _keys_and_values(
        self,
        x: Float[np.ndarray, "*B T D"],
        position_ids: Integer[np.ndarray, "..."],
        cache: KeyValueCache | None,
        shared: Shared | None,
        saved: Saved | None,
    ) -> tuple[Float[np.ndarray, "*B G S K"], Float[np.ndarray, "*B G S K"]]:
        """Returns the keys, turned by their positions, and the values, with those of the cache before them."""
        k = self._heads(x, self.W_k, self.norm_k, saved)  # (..., G, T, K)
        v = self._heads(x, self.W_v, None, saved)
        k = self.position_encoding.rotate(k, position_ids, saved)
        k = self._norm_last(k, self.norm_k, saved)
        return (k, v) if cache is None else cache.append(k, v)

    def _keys_and_values_backward(
        self,
        grad_k: Float[np.ndarray, "*B G S K"],
        grad_v: Float[np.ndarray, "*B G S K"],
        saved: Saved,
    ) -> tuple[Float[np.ndarray, "*B T D"], ...]:
        """Maps the gradients of the keys and values to those of x, which are added."""
        grad_k = self._norm_last_backward(grad_k, self.norm_k, saved)
        grad_k = self.position_encoding.rotate_backward(grad_k, saved)
        from_v = self._heads_backward(grad_v, self.W_v, None, saved)
        from_k = self._heads_backward(grad_k, self.W_k, self.norm_k, saved)
        return from_k, from_v

    # For windows, gates, and what some models do to the scores

    def _gated(
        self,
        mixed: Float[np.ndarray, "*B H T K"],
        x: Float[np.ndarray, "*B T D"],
        saved: Saved | None,
    ) -> Float[np.ndarray, "*B H T K"]:
        """Scales what each head has mixed by the gate, if there is one."""
        return mixed if self.gate is None else self.gate(mixed, x, saved)

    def _in_window(
        self,
        mask: Bool[np.ndarray, "..."] | None,
        score_bias: Float[np.ndarray, "..."] | None,
        n_queries: int,
        n_keys: int,
    ) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Hides what is beyond the window, if there is one, and leaves out keys that a cache has dropped."""
        if self.window is None:
            return mask, score_bias
        if mask is not None:
            mask = mask[..., -n_keys:]
        if score_bias is not None:
            score_bias = score_bias[..., -n_keys:]
        if n_keys > self.window:
            seen = window_mask(n_queries, n_keys, window=self.window)
            mask = seen if mask is None else mask & seen
        return mask, score_bias

    @property
    def _normalize(self) -> Callable[[np.ndarray], np.ndarray] | None:
        """Returns what makes weights of scores if there are sinks."""
        if self.sinks is None:
            return None
        return partial(softmax_with_sinks, sinks=self.sinks)

    def _change(
        self, position_ids: Integer[np.ndarray, "..."] | None, saved: Saved | None
    ) -> Callable[[np.ndarray], np.ndarray] | None:
        """Returns what `scores` does to the scores of these positions, if there is such a layer."""
        if self.scores is None:
            return None
        return lambda scores: self.scores(scores, position_ids, saved)

    def _change_backward(
        self, saved: Saved
    ) -> Callable[[np.ndarray], np.ndarray] | None:
        """Returns the backward pass of `_change`."""
        if self.scores is None:
            return None
        return lambda grad: self.scores.backward(grad, saved)

    # For caches, cross-attention and positions given by the caller

    def new_cache(
        self, batch_size: int, length: int, *, rewindable: int = 0
    ) -> KeyValueCache:
        """Returns an empty cache for `batch_size` texts of up to `length` positions.

        With a window, it keeps what the window needs, and what it takes to go
        back by `rewindable` positions.
        """
        sizes = batch_size, self.n_kv_heads, length, self.d_head
        dtype = self.W_q.weight.dtype
        if self.window is None:
            return KeyValueCache(*sizes, dtype=dtype)
        return WindowCache(
            *sizes, window=self.window, rewindable=rewindable, dtype=dtype
        )

    def _default_positions(
        self,
        x: Float[np.ndarray, "*B T D"],
        position_ids: Integer[np.ndarray, "..."] | None,
        cache: KeyValueCache | None,
    ) -> Integer[np.ndarray, "..."]:
        """Returns the position of each row of x: by default 0..T-1, or those after the cached ones."""
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
        """Returns the keys and values of an encoder's output; it never changes, so they are cached."""
        if cache is not None and cache.length:
            return cache.keys, cache.values
        k = self._heads(memory, self.W_k, self.norm_k, saved)
        k = self._norm_last(k, self.norm_k, saved)
        v = self._heads(memory, self.W_v, None, saved)
        return (k, v) if cache is None else cache.append(k, v)

    def _own_score_bias(
        self,
        position_ids: Integer[np.ndarray, "..."],
        cache: KeyValueCache | None,
        n_keys: int,
        saved: Saved | None,
    ) -> Float[np.ndarray, "..."] | None:
        """Returns what the position encoding adds to the scores, or None.

        The cached keys are assumed to be at positions 0, 1, 2 …, and x right
        after them.
        """
        key_positions = position_ids
        if cache is not None and self.position_encoding.acts_on == "scores":
            key_positions = np.arange(cache.length)
            n_cached = cache.length - position_ids.shape[-1]
            if not np.array_equal(position_ids, key_positions[n_cached:]):
                raise ValueError(
                    f"position_ids={position_ids.tolist()} do not follow "
                    f"{n_cached} cached positions: to use others, pass score_bias"
                )
            key_positions = key_positions[-n_keys:]
        return self.position_encoding.score_bias(
            position_ids, key_positions, saved
        )
