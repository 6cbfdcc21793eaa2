"""Latent attention: the keys and values of all heads are made of one short vector, and only that is cached."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from glassformer import _checks as checks
from glassformer.scratch.attention import (
    causal_mask,
    merge_heads,
    scaled_dot_product_attention,
    scaled_dot_product_attention_backward,
    split_heads,
)
from glassformer.scratch.cache import KeyValueCache
from glassformer.scratch.dropout import Dropout
from glassformer.scratch.indexer import Indexer
from glassformer.scratch.layer import Saved, save_for_backward
from glassformer.scratch.linear import Linear
from glassformer.scratch.multi_head import MultiHeadAttention, Shared
from glassformer.scratch.norm import RMSNorm
from glassformer.scratch.positions import NoPositions
from glassformer.shapes import Bool, Float, Integer
from glassformer.trace import enter_sublayer, see


class LatentAttention(MultiHeadAttention):
    """Attention whose keys and values are made of a latent of R numbers per position.

    `W_kv_down` maps D to R + P: the latent, which `norm_kv` brings to a standard
    size, and P = `d_rotated` further numbers. Of the latent, `W_kv_up` makes for
    each of H heads K − P features of a key, then the U = `d_value` of a value. The
    P numbers are rotated by their position, and are the end of every head's key.
    Queries have K = `d_head` features, of which the last P are rotated. `W_q` maps D
    to H·K; or with `d_query_latent`, `W_q_down` maps D to Q, `norm_q` follows, and
    `W_q_up` maps Q to H·K. `W_o` maps H·U to D. There are no biases.

    A cache keeps the latent and the rotated part alone, R + P numbers for a
    position. After cached positions, attention is **absorbed**: a key's product with a query,
    q·(c·W), equals (q·Wᵀ)·c, so each query is multiplied by its head's part of
    `W_kv_up` once and compared with the latents themselves. They are also what is
    averaged; the values' part of `W_kv_up` comes after. Both ways give the same.

    `position_encoding` is made for P features, and without one, nothing rotates.
    An `indexer` chooses what a query reads; a layer that `borrows_choice` reads
    what the last layer with an indexer has left in `shared`.

    Source: DeepSeek-AI 2024, "DeepSeek-V2", section 2.1, equations 9 to 19; the
    norms: section 3.1.2. Derived in chapter 16.

    Raises:
        ValueError: a size is below 1, `d_rotated` is not below `d_head`,
            `position_encoding` was made for another size or biases the scores, or
            the indexer does not fit.
    """

    # Either the first of them, or the others
    W_q: Any
    W_q_down: Any
    norm_q: Any
    W_q_up: Any

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        d_head: int,
        d_rotated: int,
        d_value: int,
        d_latent: int,
        d_query_latent: int | None = None,
        position_encoding: NoPositions | None = None,
        causal: bool = False,
        latent_eps: float = 1e-6,
        scale: float | None = None,
        indexer: Indexer | None = None,
        borrows_choice: bool = False,
        dropout: float = 0.0,
        generator: np.random.Generator | None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        checks.whole("n_heads", n_heads)
        checks.latent(d_latent, d_rotated, d_value, d_query_latent)
        checks.below("d_rotated", d_rotated, "d_head", d_head)
        if indexer is not None:
            checks.indexer(indexer, d_model, d_query_latent, borrows_choice)
        self.d_model, self.n_heads, self.d_head = d_model, n_heads, d_head
        self.d_rotated, self.d_value = d_rotated, d_value
        self.d_latent, self.d_query_latent = d_latent, d_query_latent
        self.causal, self.indexer = causal, indexer
        self.borrows_choice = borrows_choice
        self.scale = d_head**-0.5 if scale is None else scale
        self.position_encoding = (
            NoPositions() if position_encoding is None else position_encoding
        )
        checks.rotates(
            "position_encoding", self.position_encoding, "d_rotated", d_rotated
        )

        init_kwargs = {"bias": False, "generator": generator, "dtype": dtype}
        norm_kwargs = {"eps": latent_eps, "dtype": dtype}
        per_head = d_head - d_rotated + d_value
        self.W_q = self.W_q_down = self.norm_q = self.W_q_up = None
        if d_query_latent is None:
            self.W_q = Linear(d_model, n_heads * d_head, **init_kwargs)
        else:
            self.W_q_down = Linear(d_model, d_query_latent, **init_kwargs)
            self.norm_q = RMSNorm(d_query_latent, **norm_kwargs)
            self.W_q_up = Linear(d_query_latent, n_heads * d_head, **init_kwargs)
        self.W_kv_down = Linear(d_model, d_latent + d_rotated, **init_kwargs)
        self.norm_kv = RMSNorm(d_latent, **norm_kwargs)
        self.W_kv_up = Linear(d_latent, n_heads * per_head, **init_kwargs)
        self.W_o = Linear(n_heads * d_value, d_model, **init_kwargs)
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
        absorbed: bool | None = None,
        saved: Saved | None = None,
    ) -> Float[np.ndarray, "*B T D"]:
        """Maps x (..., T, D) to (..., T, D).

        The arguments are those of `MultiHeadAttention.forward`, but `memory` and
        `score_bias` must be None. `absorbed` says in which of the two ways to
        compute; by default, the absorbed one serves where there are cached positions.
        The backward pass is that of the other.

        Raises:
            ValueError: a shape does not fit; `memory`, `score_bias` or, with
                `absorbed`, `saved` is not None; or no layer has left a choice to
                borrow.
            TypeError: x is not floating-point, `position_ids` not integer or
                `mask` not boolean.
        """
        checks.vectors("x", x, "d_model", self.d_model, "T, D")
        checks.no_gradient_through_cache(saved, cache)
        checks.left_out(memory=memory, score_bias=score_bias)
        checks.choice_to_borrow(shared, self.borrows_choice)
        if absorbed is None:
            absorbed = cache is not None and cache.length > 0
        shared = {} if shared is None else shared
        if absorbed and saved is not None:
            raise ValueError(
                "absorbed=True has no backward pass: saved must be None"
            )
        enter_sublayer("attention")

        # The queries, and what is cached: the latent, and the rotated part
        position_ids = self._default_positions(x, position_ids, cache)
        q, query = self._queries(x, position_ids, saved)  # (..., H, T, K)
        c, r = self._latents(x, position_ids, saved)  # (..., 1, T, R) and P
        index_keys: Any = None
        if self.indexer is not None:
            index_keys = self.indexer.keys(x, position_ids)
        if cache is not None:
            c, r, index_keys = self._cached(c, r, index_keys, cache)

        # Choose what is read
        scores: Any = None
        chosen: Any = mask
        if self.borrows_choice:
            chosen = shared["chosen"]
            chosen = chosen if mask is None else mask & chosen
        if self.indexer is not None:
            scores = self.indexer(query, x, index_keys, position_ids)
            visible = self._visible(mask, x.shape[-2], c.shape[-2])
            chosen = self.indexer.choose(scores, visible)
            see(chosen=chosen)
            shared["chosen"] = chosen

        # Read keys and values of each head; or, absorbed, the latents
        if absorbed:
            q, k, v = self._absorbed(q, c, r)
        else:
            k, v = self._expanded(c, r, saved)
        see(q=q, k=k, v=v)
        mixed, weights = scaled_dot_product_attention(
            q, k, v, mask=chosen, causal=self.causal, scale=self.scale
        )
        save_for_backward(saved, q, k, v, weights)
        if self.indexer is not None:
            self.indexer.learn(
                query, x, scores, weights, chosen, position_ids, saved
            )

        # Merge
        if absorbed:
            mixed = mixed @ self._parts_of_heads()[1]  # (..., H, T, U)
        y = self.dropout(self.W_o(merge_heads(mixed), saved), saved)
        see(write=y)
        return y

    def backward(
        self, grad: Float[np.ndarray, "*B T D"], saved: Saved
    ) -> tuple[np.ndarray, None, None]:
        """Maps the gradient of the output to that of x; `memory` and `score_bias` have none."""
        grad = self.W_o.backward(self.dropout.backward(grad, saved), saved)
        grad = split_heads(grad, self.n_heads)
        if self.indexer is not None:
            self.indexer.learn_backward(saved)

        q, k, v, weights = saved.pop()
        grad_q, grad_k, grad_v, _ = scaled_dot_product_attention_backward(
            grad, q, k, v, weights, scale=self.scale
        )
        from_kv = self._expanded_backward(grad_k, grad_v, saved)
        return self._queries_backward(grad_q, saved) + from_kv, None, None

    def new_cache(
        self, batch_size: int, length: int, *, rewindable: int = 0
    ) -> KeyValueCache:
        """Returns an empty cache for `batch_size` texts of up to `length` positions.

        Its `keys` are the latents, (B, 1, length, R), and its `values` the rotated
        parts, (B, 1, length, P), with the indexer's keys behind them, if there is
        one.
        """
        d_rest = self.d_rotated
        if self.indexer is not None:
            d_rest += self.indexer.d_head
        sizes, dtype = (batch_size, 1, length), self.W_kv_up.weight.dtype
        return KeyValueCache(*sizes, self.d_latent, d_value=d_rest, dtype=dtype)

    def _queries(
        self,
        x: Float[np.ndarray, "*B T D"],
        position_ids: Integer[np.ndarray, "..."],
        saved: Saved | None,
    ) -> tuple[Float[np.ndarray, "*B H T K"], Float[np.ndarray, "*B T Q"]]:
        """Returns the queries, whose last P features are turned, and what they were made of: a latent, or x."""
        query, W = x, self.W_q
        if W is None:
            query, W = self.norm_q(self.W_q_down(x, saved), saved), self.W_q_up
        q = split_heads(W(query, saved), self.n_heads)
        plain, turning = q[..., : -self.d_rotated], q[..., -self.d_rotated :]
        turned = self.position_encoding.rotate(turning, position_ids, saved)
        return np.concatenate([plain, turned], axis=-1), query

    def _queries_backward(
        self, grad: Float[np.ndarray, "*B H T K"], saved: Saved
    ) -> Float[np.ndarray, "*B T D"]:
        """Maps the gradient of the queries to that of x."""
        plain, turned = grad[..., : -self.d_rotated], grad[..., -self.d_rotated :]
        turning = self.position_encoding.rotate_backward(turned, saved)
        grad = merge_heads(np.concatenate([plain, turning], axis=-1))
        if self.W_q is not None:
            return self.W_q.backward(grad, saved)
        grad = self.norm_q.backward(self.W_q_up.backward(grad, saved), saved)
        return self.W_q_down.backward(grad, saved)

    def _latents(
        self,
        x: Float[np.ndarray, "*B T D"],
        position_ids: Integer[np.ndarray, "..."],
        saved: Saved | None,
    ) -> tuple[Float[np.ndarray, "*B 1 T R"], Float[np.ndarray, "*B 1 T P"]]:
        """Returns the latent of each position, and the part of its keys that is turned and common to all heads."""
        down = self.W_kv_down(x, saved)[..., None, :, :]
        c = self.norm_kv(down[..., : self.d_latent], saved)
        r = self.position_encoding.rotate(
            down[..., self.d_latent :], position_ids, saved
        )
        return c, r

    def _cached(
        self,
        c: Float[np.ndarray, "*B 1 T R"],
        r: Float[np.ndarray, "*B 1 T P"],
        index_keys: Float[np.ndarray, "*B 1 T K"] | None,
        cache: KeyValueCache,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Adds what is new to the cache, and returns all of it so far."""
        if index_keys is not None:
            r = np.concatenate([r, index_keys], axis=-1)
        c, rest = cache.append(c, r)
        return c, rest[..., : self.d_rotated], rest[..., self.d_rotated :]

    def _visible(
        self, mask: Bool[np.ndarray, "..."] | None, n_queries: int, n_keys: int
    ) -> Bool[np.ndarray, "..."]:
        """Returns which keys a query may choose from."""
        seen = np.ones((n_queries, n_keys), bool)
        if self.causal:
            seen = causal_mask(n_queries, n_keys)
        return seen if mask is None else mask & seen

    def _expanded(
        self,
        c: Float[np.ndarray, "*B 1 S R"],
        r: Float[np.ndarray, "*B 1 S P"],
        saved: Saved | None,
    ) -> tuple[Float[np.ndarray, "*B H S K"], Float[np.ndarray, "*B H S U"]]:
        """Returns the keys and values of each head."""
        up = split_heads(self.W_kv_up(c[..., 0, :, :], saved), self.n_heads)
        plain, v = up[..., : -self.d_value], up[..., -self.d_value :]
        r = np.broadcast_to(r, (*plain.shape[:-1], self.d_rotated))
        return np.concatenate([plain, r], axis=-1), v

    def _expanded_backward(
        self,
        grad_k: Float[np.ndarray, "*B H S K"],
        grad_v: Float[np.ndarray, "*B H S U"],
        saved: Saved,
    ) -> Float[np.ndarray, "*B T D"]:
        """Maps the gradients of the keys and values to that of x."""
        plain, grad_r = (
            grad_k[..., : -self.d_rotated],
            grad_k[..., -self.d_rotated :].sum(axis=-3, keepdims=True),
        )
        up = merge_heads(np.concatenate([plain, grad_v], axis=-1))
        grad_c = self.W_kv_up.backward(up, saved)[..., None, :, :]
        grad_r = self.position_encoding.rotate_backward(grad_r, saved)
        grad_c = self.norm_kv.backward(grad_c, saved)
        down = np.concatenate([grad_c, grad_r], axis=-1)[..., 0, :, :]
        return self.W_kv_down.backward(down, saved)

    def _absorbed(
        self,
        q: Float[np.ndarray, "*B H T K"],
        c: Float[np.ndarray, "*B 1 S R"],
        r: Float[np.ndarray, "*B 1 S P"],
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns queries of R + P numbers, and [c; r] and c as the keys and values that all heads share."""
        plain, turned = q[..., : -self.d_rotated], q[..., -self.d_rotated :]
        plain = plain @ self._parts_of_heads()[0]  # (..., H, T, R)
        q = np.concatenate([plain, turned], axis=-1)
        k = np.concatenate([c, r], axis=-1)
        k, v = (
            np.broadcast_to(one, (*q.shape[:-2], *one.shape[-2:]))
            for one in (k, c)
        )  # for H heads, without a copy
        return q, k, v

    def _parts_of_heads(
        self,
    ) -> tuple[Float[np.ndarray, "H N R"], Float[np.ndarray, "H R U"]]:
        """Returns what turns queries to the latents, N = K − P, and what makes values of latents, for each head."""
        W = self.W_kv_up.weight.T.reshape(self.n_heads, -1, self.d_latent)
        keys, values = W[:, : -self.d_value], W[:, -self.d_value :]
        return keys, values.swapaxes(-1, -2)
