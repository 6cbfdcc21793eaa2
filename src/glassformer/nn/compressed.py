"""Attention to a window and to compressed tokens, in PyTorch."""

from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Integer
from torch import Tensor, nn

from glassformer import _checks as checks
from glassformer.nn.attention import (
    causal_mask,
    merge_heads,
    scaled_dot_product_attention,
    softmax,
    split_heads,
    window_mask,
)
from glassformer.nn.cache import WindowCache
from glassformer.nn.indexer import Indexer
from glassformer.nn.linear import Linear, normal
from glassformer.nn.multi_head import MultiHeadAttention, Shared
from glassformer.nn.norm import RMSNorm
from glassformer.nn.positions import NoPositions
from glassformer.nn.rotary import RotaryPositions
from glassformer.nn.sinks import softmax_with_sinks
from glassformer.trace import enter_sublayer, see


class GroupedLinear(nn.Module):
    """As `scratch.GroupedLinear`, in PyTorch."""

    def __init__(
        self,
        n_in: int,
        n_out: int,
        *,
        n_groups: int,
        generator: torch.Generator | None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        checks.divisible("n_in", n_in, "n_groups", n_groups)
        checks.divisible("n_out", n_out, "n_groups", n_groups)
        self.n_in, self.n_out, self.n_groups = n_in, n_out, n_groups
        shape = (n_groups, n_in // n_groups, n_out // n_groups)
        self.weight = normal(generator, shape[1] ** -0.5, shape, dtype)

    def forward(
        self, x: Float[Tensor, "*B T n_in"]
    ) -> Float[Tensor, "*B T n_out"]:
        """Maps x (..., T, n_in) to (..., T, n_out)."""
        checks.vectors("x", x, "n_in", self.n_in, "T, n_in")
        parts = split_heads(x, self.n_groups)  # (..., g, T, n_in/g)
        return merge_heads(parts @ self.weight)


class _OnLast(NoPositions):
    """Rotates the last features of each row, as many as `encoding` is made for, and leaves the others."""

    acts_on = "queries and keys"

    def __init__(self, encoding: RotaryPositions) -> None:
        super().__init__()
        self.encoding = encoding

    def rotate(
        self,
        x: Float[Tensor, "*B H T K"],
        position_ids: Integer[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*B H T K"]:
        still, last = x.tensor_split([-self.encoding.d_head], dim=-1)
        return torch.cat(
            [still, self.encoding.rotate(last, position_ids)], dim=-1
        )


class Compressor(nn.Module):
    """As `scratch.Compressor`, in PyTorch."""

    def __init__(
        self,
        d_model: int,
        d_head: int,
        *,
        block: int,
        overlapping: bool = False,
        position_encoding: RotaryPositions,
        norm_eps: float = 1e-5,
        generator: torch.Generator | None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        checks.whole("block", block)
        self.d_head, self.block, self.overlapping = d_head, block, overlapping
        self.position_encoding = _OnLast(position_encoding)
        wide = 2 * d_head if overlapping else d_head
        init_kwargs = {"generator": generator, "dtype": dtype}
        self.W_kv = Linear(d_model, wide, bias=False, **init_kwargs)
        self.W_gate = Linear(d_model, wide, bias=False, **init_kwargs)
        self.position_bias = nn.Parameter(torch.zeros(block, wide, dtype=dtype))
        self.norm = RMSNorm(d_head, eps=norm_eps, dtype=dtype)

    def forward(
        self,
        x: Float[Tensor, "*B T D"],
        position_ids: Integer[Tensor, "..."],
        cache: "BlockCache | None" = None,
    ) -> Float[Tensor, "*B 1 C K"]:
        """As `scratch.Compressor.forward`."""
        past = 0 if cache is None else cache.length
        rows = past + x.shape[-2]
        kv = split_heads(self.W_kv(x), 1)  # (..., 1, T, K), or 2·K
        gate = split_heads(self.W_gate(x), 1)
        if cache is not None:
            kv, gate = cache.append(kv, gate)

        # Cut into blocks: those that are complete now, and the one before them
        m, done = self.block, past // self.block
        before = 1 if self.overlapping and done > 0 else 0
        start = (done - before) * m - (rows - kv.shape[-2])
        kv = _in_blocks(kv[..., start:, :], m)  # (..., 1, C, m, K)
        gate = _in_blocks(gate[..., start:, :], m) + self.position_bias
        if self.overlapping:
            kv = _with_the_block_before(kv, 0.0)[..., before:, :, :]
            gate = _with_the_block_before(gate, -torch.inf)[..., before:, :, :]

        # Average
        average = (softmax(gate, axis=-2) * kv).sum(dim=-2)  # (..., 1, C, K)
        last_rows = torch.arange(done + 1, rows // m + 1) * m - 1 - past
        first = position_ids[..., last_rows.to(x.device)] - (m - 1)
        tokens = self.position_encoding.rotate(self.norm(average), first)
        return tokens if cache is None else cache.keep(tokens)

    def new_cache(
        self, batch_size: int, length: int, *, rewindable: int = 0
    ) -> "BlockCache":
        """Returns an empty cache for `batch_size` texts of up to `length` positions."""
        weight = self.W_kv.weight
        like = {"dtype": weight.dtype, "device": weight.device}
        own = {"block": self.block, "overlapping": self.overlapping, **like}
        sizes = batch_size, length, self.d_head
        return BlockCache(*sizes, rewindable=rewindable, **own)


class BlockIndexer(Indexer):
    """As `scratch.BlockIndexer`, in PyTorch."""

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        d_head: int,
        d_query_latent: int,
        top_k: int,
        position_encoding: RotaryPositions,
        generator: torch.Generator | None,
        dtype: torch.dtype = torch.float32,
        **of_compressor: Any,
    ) -> None:
        nn.Module.__init__(self)
        checks.whole("top_k", top_k)
        self.d_query, self.d_model = d_query_latent, d_model
        self.n_heads, self.d_head, self.top_k = n_heads, d_head, top_k
        self.position_encoding = _OnLast(position_encoding)
        init_kwargs = {"generator": generator, "dtype": dtype}
        wide = n_heads * d_head
        self.W_q = Linear(d_query_latent, wide, bias=False, **init_kwargs)
        self.W_w = Linear(d_model, n_heads, bias=False, **init_kwargs)
        of_compressor |= {"position_encoding": position_encoding, **init_kwargs}
        self.compressor = Compressor(d_model, d_head, **of_compressor)

    @torch.no_grad()
    def keys(
        self,
        x: Float[Tensor, "*B T D"],
        position_ids: Integer[Tensor, "..."] | None = None,
        cache: "BlockCache | None" = None,
    ) -> Float[Tensor, "*B 1 C K"]:
        """Maps x (..., T, D) to a key for each of the C complete blocks, (..., 1, C, K)."""
        return self.compressor(x, position_ids, cache)


class CompressedAttention(MultiHeadAttention):
    """As `scratch.CompressedAttention`, in PyTorch."""

    # Which others may lack
    norm_q: Any
    sinks: Any
    window: Any

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        d_head: int,
        d_rotated: int,
        d_query_latent: int,
        window: int,
        n_groups: int,
        d_group: int,
        compress: int = 1,
        overlapping: bool = False,
        top_k: int | None = None,
        index_heads: int | None = None,
        d_index: int | None = None,
        position_encoding: RotaryPositions | None = None,
        norm_eps: float = 1e-5,
        causal: bool = True,
        dropout: float = 0.0,
        generator: torch.Generator | None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        nn.Module.__init__(self)
        checks.divisible("n_heads", n_heads, "n_groups", n_groups)
        checks.whole("window", window)
        checks.compression(
            compress, overlapping, top_k, index_heads, d_index, causal
        )
        checks.rotated("d_head", d_head, d_rotated)
        if position_encoding is None:
            position_encoding = RotaryPositions(d_rotated, layout="interleaved")
        checks.rotates(
            "position_encoding", position_encoding, "d_rotated", d_rotated
        )
        self.d_model, self.n_heads, self.d_head = d_model, n_heads, d_head
        self.window, self.compress, self.causal = window, compress, causal
        self.position_encoding = _OnLast(position_encoding)

        init_kwargs = {"generator": generator, "dtype": dtype}
        norm_kwargs = {"eps": norm_eps, "dtype": dtype}
        wide, narrow = n_heads * d_head, n_groups * d_group
        self.W_q_down = Linear(d_model, d_query_latent, bias=False, **init_kwargs)
        self.norm_q = RMSNorm(d_query_latent, **norm_kwargs)
        self.W_q_up = Linear(d_query_latent, wide, bias=False, **init_kwargs)
        self.norm_heads = RMSNorm(d_head, gain=False, **norm_kwargs)
        self.W_kv = Linear(d_model, d_head, bias=False, **init_kwargs)
        self.norm_kv = RMSNorm(d_head, **norm_kwargs)
        self.sinks = nn.Parameter(torch.zeros(n_heads, dtype=dtype))
        self.W_o_down = GroupedLinear(
            wide, narrow, n_groups=n_groups, **init_kwargs
        )
        self.W_o_up = Linear(narrow, d_model, bias=False, **init_kwargs)
        self.compressor = self.indexer = None
        block_kwargs: dict[str, Any] = {
            "block": compress,
            "overlapping": overlapping,
            "position_encoding": position_encoding,
            "norm_eps": norm_eps,
            **init_kwargs,
        }
        if compress > 1:
            self.compressor = Compressor(d_model, d_head, **block_kwargs)
        if top_k is not None:
            checks.rotated("d_index", d_index, d_rotated)
            block_kwargs |= {"n_heads": index_heads, "d_head": d_index}
            block_kwargs |= {"d_query_latent": d_query_latent, "top_k": top_k}
            self.indexer = BlockIndexer(d_model, **block_kwargs)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Float[Tensor, "*B T D"],
        *,
        memory: Float[Tensor, "*B S D"] | None = None,
        position_ids: Integer[Tensor, "..."] | None = None,
        mask: Bool[Tensor, "..."] | None = None,
        score_bias: Float[Tensor, "..."] | None = None,
        cache: Any = None,  # a CompressedCache
        shared: Shared | None = None,
    ) -> Float[Tensor, "*B T D"]:
        """As `scratch.CompressedAttention.forward`."""
        checks.vectors("x", x, "d_model", self.d_model, "T, D")
        checks.left_out(memory=memory, score_bias=score_bias)
        enter_sublayer("attention")
        past, T = 0 if cache is None else cache.length, x.shape[-2]
        position_ids = self._default_positions(x, position_ids, cache)
        if self.compressor is not None:
            checks.padded_after(mask, past + T)
        rotation = self.position_encoding

        # Project, normalize, and apply the positions
        latent = self.norm_q(self.W_q_down(x))  # (..., T, Q)
        q = split_heads(self.W_q_up(latent), self.n_heads)
        q = rotation.rotate(self.norm_heads(q), position_ids)
        kv = split_heads(self.norm_kv(self.W_kv(x)), 1)
        kv = rotation.rotate(kv, position_ids)  # (..., 1, T, K)
        if cache is not None:
            kv, _ = cache.append(kv, kv)  # (..., 1, S, K)
        n_keys = kv.shape[-2]
        seen = causal_mask(T, n_keys) & window_mask(T, n_keys, window=self.window)
        seen = seen.to(x.device)
        if mask is not None:
            mask = mask[..., -n_keys:]
            checks.attention(q, kv, kv, mask, None, sharing=self.n_heads)
            seen = seen & mask

        # Compress, and choose
        if self.compressor is not None:
            caches = (None, None) if cache is None else (*cache.blocks, None)
            tokens = self.compressor(x, position_ids, caches[0])
            rows = torch.arange(past + 1, past + T + 1)[:, None]  # read so far
            blocks = torch.arange(1, tokens.shape[-2] + 1)
            chosen = (blocks * self.compress <= rows).to(x.device)  # (T, C)
            if self.indexer is not None:
                keys = self.indexer.keys(x, position_ids, cache=caches[1])
                scores = self.indexer(latent, x, keys, position_ids)
                chosen = self.indexer.choose(scores, chosen)
            kv = torch.cat([kv, tokens], dim=-2)  # (..., 1, S + C, K)
            seen = _beside(seen, chosen)
        see(q=q, k=kv, v=kv)

        # Score, mask, and mix
        kv = kv.expand(*q.shape[:-2], *kv.shape[-2:])  # no copy
        normalize = partial(softmax_with_sinks, sinks=self.sinks)
        mixed, _ = scaled_dot_product_attention(
            q, kv, kv, mask=seen, normalize=normalize
        )
        mixed = rotation.rotate(mixed, -position_ids)

        # Merge
        y = self.dropout(self.W_o_up(self.W_o_down(merge_heads(mixed))))
        see(write=y)
        return y

    def new_cache(
        self, batch_size: int, length: int, *, rewindable: int = 0
    ) -> "CompressedCache":
        """As `scratch.CompressedAttention.new_cache`."""
        compressors = [] if self.compressor is None else [self.compressor]
        if self.indexer is not None:
            compressors.append(self.indexer.compressor)
        blocks = [
            one.new_cache(batch_size, length, rewindable=rewindable)
            for one in compressors
        ]
        sizes, weight = (batch_size, length, self.d_head), self.W_kv.weight
        own: dict[str, Any] = {"window": self.window, "rewindable": rewindable}
        own |= {"dtype": weight.dtype, "device": weight.device}
        return CompressedCache(*sizes, blocks=blocks, **own)


class BlockCache(WindowCache):
    """As `scratch.BlockCache`, in PyTorch."""

    def __init__(
        self,
        batch_size: int,
        capacity: int,
        d_head: int,
        *,
        block: int,
        overlapping: bool = False,
        **options: Any,
    ) -> None:
        self.block, n = block, 2 if overlapping else 1
        options["window"] = n * block
        super().__init__(batch_size, 1, capacity, n * d_head, **options)
        shape = (batch_size, 1, capacity // block, d_head)
        like = {"dtype": self.keys.dtype, "device": self.keys.device}
        self.tokens = torch.zeros(shape, **like)

    def keep(self, tokens: Float[Tensor, "B 1 N K"]) -> Float[Tensor, "B 1 C K"]:
        """Adds the tokens of the blocks that are complete now, and returns those of all (a view)."""
        n = self.length // self.block
        self.tokens[:, :, n - tokens.shape[-2] : n] = tokens
        return self.tokens[:, :, :n]

    def reorder(self, rows: Integer[Tensor, " B"]) -> None:
        """Replaces row i of the batch by the former row rows[i]."""
        super().reorder(rows)
        self.tokens[:] = self.tokens[rows]

    @property
    def nbytes(self) -> int:
        """Returns how much memory the arrays take, in bytes."""
        return super().nbytes + self.tokens.nbytes


class CompressedCache(WindowCache):
    """As `scratch.CompressedCache`, in PyTorch."""

    def __init__(
        self,
        batch_size: int,
        capacity: int,
        d_head: int,
        *,
        blocks: list[BlockCache],
        **options: Any,
    ) -> None:
        self.blocks = blocks
        super().__init__(batch_size, 1, capacity, d_head, **options)
        self.values = self.keys

    def reset(self) -> None:
        """Forgets everything, but keeps the arrays."""
        super().reset()
        for block in self.blocks:
            block.reset()

    def check_rewind(self, length: int) -> None:
        """Checks that the window and every compressor can go back to where it had `length` positions."""
        super().check_rewind(length)
        for block in self.blocks:
            block.check_rewind(length)

    def rewind(self, length: int) -> None:
        """Forgets all positions but the first `length`."""
        super().rewind(length)
        for block in self.blocks:
            block.rewind(length)

    def reorder(self, rows: Integer[Tensor, " B"]) -> None:
        """Replaces row i of the batch by the former row rows[i]."""
        filled = slice(0, self.filled)
        self.keys[:, :, filled] = self.keys[rows, :, filled]
        for block in self.blocks:
            block.reorder(rows)

    @property
    def nbytes(self) -> int:
        """Returns how much memory the arrays take, in bytes."""
        return self.keys.nbytes + sum(block.nbytes for block in self.blocks)


def _in_blocks(
    rows: Float[Tensor, "*B T K"], m: int
) -> Float[Tensor, "*B C {m} K"]:
    """Cuts the rows into blocks of m, and leaves out what remains."""
    *B, T, K = rows.shape
    n = T // m
    return rows[..., : n * m, :].reshape(*B, n, m, K)


def _with_the_block_before(
    blocks: Float[Tensor, "*B C m E"], nothing: float
) -> Float[Tensor, "*B C 2*m E//2"]:
    """Puts before each block's own half the other half of the block before it, and before the first `nothing`."""
    passed_on, own = blocks.chunk(2, dim=-1)
    first = torch.full_like(passed_on[..., :1, :, :], nothing)
    passed_on = torch.cat([first, passed_on[..., :-1, :, :]], dim=-3)
    return torch.cat([passed_on, own], dim=-2)


def _beside(
    a: Bool[Tensor, "..."], b: Bool[Tensor, "..."]
) -> Bool[Tensor, "..."]:
    """Joins two masks along the last axis, after broadcasting all others."""
    shape = torch.broadcast_shapes(a.shape[:-1], b.shape[:-1])
    a, b = (m.expand(*shape, m.shape[-1]) for m in (a, b))
    return torch.cat([a, b], dim=-1)
