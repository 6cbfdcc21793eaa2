"""Latent attention in PyTorch."""

from typing import Any

import torch
from jaxtyping import Bool, Float, Integer
from torch import Tensor, nn

from glassformer import _checks as checks
from glassformer.auxiliary import add_to_loss
from glassformer.nn.attention import (
    causal_mask,
    merge_heads,
    scaled_dot_product_attention,
    split_heads,
)
from glassformer.nn.cache import KeyValueCache
from glassformer.nn.indexer import Indexer
from glassformer.nn.linear import Linear
from glassformer.nn.multi_head import (
    MultiHeadAttention,
    Shared,
    _attend_in_one_piece,
)
from glassformer.nn.norm import RMSNorm
from glassformer.nn.positions import NoPositions
from glassformer.trace import enter_sublayer, see, tracing


class LatentAttention(MultiHeadAttention):
    """As `scratch.LatentAttention`, in PyTorch."""

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
        generator: torch.Generator | None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        nn.Module.__init__(self)
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
        absorbed: bool | None = None,
    ) -> Float[Tensor, "*B T D"]:
        """As `scratch.LatentAttention.forward`."""
        checks.vectors("x", x, "d_model", self.d_model, "T, D")
        checks.left_out(memory=memory, score_bias=score_bias)
        checks.choice_to_borrow(shared, self.borrows_choice)
        if absorbed is None:
            absorbed = cache is not None and cache.length > 0
        shared = {} if shared is None else shared
        enter_sublayer("attention")

        # The queries, and what is cached: the latent, and the rotated part
        position_ids = self._default_positions(x, position_ids, cache)
        q, query = self._queries(x, position_ids)  # (..., H, T, K)
        c, r = self._latents(x, position_ids)  # (..., 1, T, R) and P
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
            k, v = self._expanded(c, r)
        see(q=q, k=k, v=v)
        # In one kernel; but step by step if someone needs the weights
        attend = _attend_in_one_piece
        if tracing() or (self.indexer is not None and add_to_loss()):
            attend = scaled_dot_product_attention
        options = {"causal": self.causal, "scale": self.scale}
        mixed, weights = attend(q, k, v, mask=chosen, **options)
        if self.indexer is not None and weights is not None:
            self.indexer.learn(query, x, scores, weights, chosen, position_ids)

        # Merge
        if absorbed:
            mixed = mixed @ self._parts_of_heads()[1]  # (..., H, T, U)
        y = self.dropout(self.W_o(merge_heads(mixed)))
        see(write=y)
        return y

    def new_cache(
        self, batch_size: int, length: int, *, rewindable: int = 0
    ) -> KeyValueCache:
        """As `scratch.LatentAttention.new_cache`."""
        weight, d_rest = self.W_kv_up.weight, self.d_rotated
        if self.indexer is not None:
            d_rest += self.indexer.d_head
        sizes = batch_size, 1, length, self.d_latent
        like = {"dtype": weight.dtype, "device": weight.device}
        return KeyValueCache(*sizes, d_value=d_rest, **like)

    def _queries(
        self,
        x: Float[Tensor, "*B T D"],
        position_ids: Integer[Tensor, "..."],
    ) -> tuple[Float[Tensor, "*B H T K"], Float[Tensor, "*B T Q"]]:
        """Returns the queries, whose last P features are turned, and what they were made of: a latent, or x."""
        query, W = x, self.W_q
        if W is None:
            query, W = self.norm_q(self.W_q_down(x)), self.W_q_up
        q = split_heads(W(query), self.n_heads)
        plain, turning = q[..., : -self.d_rotated], q[..., -self.d_rotated :]
        turned = self.position_encoding.rotate(turning, position_ids)
        return torch.cat([plain, turned], dim=-1), query

    def _latents(
        self,
        x: Float[Tensor, "*B T D"],
        position_ids: Integer[Tensor, "..."],
    ) -> tuple[Float[Tensor, "*B 1 T R"], Float[Tensor, "*B 1 T P"]]:
        """Returns the latent of each position, and the part of its keys that is turned and common to all heads."""
        down = self.W_kv_down(x)[..., None, :, :]
        c = self.norm_kv(down[..., : self.d_latent])
        r = self.position_encoding.rotate(
            down[..., self.d_latent :], position_ids
        )
        return c, r

    def _cached(
        self,
        c: Float[Tensor, "*B 1 T R"],
        r: Float[Tensor, "*B 1 T P"],
        index_keys: Float[Tensor, "*B 1 T K"] | None,
        cache: KeyValueCache,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Adds what is new to the cache, and returns all of it so far."""
        if index_keys is not None:
            r = torch.cat([r, index_keys], dim=-1)
        c, rest = cache.append(c, r)
        return c, rest[..., : self.d_rotated], rest[..., self.d_rotated :]

    def _visible(
        self, mask: Bool[Tensor, "..."] | None, n_queries: int, n_keys: int
    ) -> Bool[Tensor, "..."]:
        """Returns which keys a query may choose from."""
        seen = torch.ones((n_queries, n_keys), dtype=torch.bool)
        if self.causal:
            seen = causal_mask(n_queries, n_keys)
        seen = seen.to(self.W_o.weight.device)
        return seen if mask is None else mask & seen

    def _expanded(
        self,
        c: Float[Tensor, "*B 1 S R"],
        r: Float[Tensor, "*B 1 S P"],
    ) -> tuple[Float[Tensor, "*B H S K"], Float[Tensor, "*B H S U"]]:
        """Returns the keys and values of each head."""
        up = split_heads(self.W_kv_up(c[..., 0, :, :]), self.n_heads)
        plain, v = up[..., : -self.d_value], up[..., -self.d_value :]
        r = r.expand(*plain.shape[:-1], self.d_rotated)
        return torch.cat([plain, r], dim=-1), v

    def _absorbed(
        self,
        q: Float[Tensor, "*B H T K"],
        c: Float[Tensor, "*B 1 S R"],
        r: Float[Tensor, "*B 1 S P"],
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Returns queries of R + P numbers, and [c; r] and c as the keys and values that all heads share."""
        plain, turned = q[..., : -self.d_rotated], q[..., -self.d_rotated :]
        plain = plain @ self._parts_of_heads()[0]  # (..., H, T, R)
        q = torch.cat([plain, turned], dim=-1)
        k = torch.cat([c, r], dim=-1)
        k, v = (
            one.expand(*q.shape[:-2], *one.shape[-2:]) for one in (k, c)
        )  # for H heads, without a copy
        return q, k, v

    def _parts_of_heads(
        self,
    ) -> tuple[Float[Tensor, "H N R"], Float[Tensor, "H R U"]]:
        """Returns what turns queries to the latents, N = K − P, and what makes values of latents, for each head."""
        W = self.W_kv_up.weight.T.reshape(self.n_heads, -1, self.d_latent)
        keys, values = W[:, : -self.d_value], W[:, -self.d_value :]
        return keys, values.transpose(-1, -2)
