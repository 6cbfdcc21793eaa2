"""Attention to a window and to compressed tokens, each of which stands for a block of positions."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from glassformer import _checks as checks
from glassformer.scratch.attention import (
    causal_mask,
    merge_heads,
    scaled_dot_product_attention,
    scaled_dot_product_attention_backward,
    softmax,
    split_heads,
    window_mask,
)
from glassformer.scratch.cache import WindowCache
from glassformer.scratch.dropout import Dropout
from glassformer.scratch.indexer import Indexer
from glassformer.scratch.layer import (
    Layer,
    Saved,
    normal,
    save_for_backward,
    sum_to,
)
from glassformer.scratch.linear import Linear
from glassformer.scratch.multi_head import MultiHeadAttention, Shared
from glassformer.scratch.norm import RMSNorm
from glassformer.scratch.positions import NoPositions
from glassformer.scratch.rotary import RotaryPositions
from glassformer.scratch.sinks import sinks_backward
from glassformer.shapes import Bool, Float, Integer
from glassformer.trace import enter_sublayer, see


class GroupedLinear(Layer):
    """Cuts each vector into g equal parts, and maps each part by a matrix of its own.

    `weight` (g, n_in/g, n_out/g) is initialized from a normal distribution with
    variance g/n_in. It has a g-th of the weights of a `Linear` of this size.

    Source: DeepSeek-AI 2026, DeepSeek-V4's technical report, section 2.3.1,
    "Grouped Output Projection". Derived in chapter 16.

    Raises:
        ValueError: a size is below 1, `n_groups` does not divide `n_in` and
            `n_out`, or the last axis of x is not n_in.
        TypeError: x is not floating-point.
    """

    def __init__(
        self,
        n_in: int,
        n_out: int,
        *,
        n_groups: int,
        generator: np.random.Generator | None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        checks.divisible("n_in", n_in, "n_groups", n_groups)
        checks.divisible("n_out", n_out, "n_groups", n_groups)
        self.n_in, self.n_out, self.n_groups = n_in, n_out, n_groups
        shape = (n_groups, n_in // n_groups, n_out // n_groups)
        self.weight = normal(generator, shape[1] ** -0.5, shape, dtype)

    def forward(
        self, x: Float[np.ndarray, "*B T n_in"], saved: Saved | None = None
    ) -> Float[np.ndarray, "*B T n_out"]:
        """Maps x (..., T, n_in) to (..., T, n_out)."""
        checks.vectors("x", x, "n_in", self.n_in, "T, n_in")
        parts = split_heads(x, self.n_groups)  # (..., g, T, n_in/g)
        save_for_backward(saved, parts)
        return merge_heads(parts @ self.weight)

    def backward(
        self, grad: Float[np.ndarray, "*B T n_out"], saved: Saved
    ) -> Float[np.ndarray, "*B T n_in"]:
        """Maps the gradient of the output to that of x."""
        (parts,) = saved.pop()
        grad = split_heads(grad, self.n_groups)
        gradient = parts.swapaxes(-1, -2) @ grad
        self.accumulate(weight=sum_to(gradient, self.weight.shape))
        return merge_heads(grad @ self.weight.swapaxes(-1, -2))


class _OnLast(NoPositions):
    """Rotates the last features of each row, as many as `encoding` is made for, and leaves the others."""

    acts_on = "queries and keys"

    def __init__(self, encoding: RotaryPositions) -> None:
        self.encoding = encoding

    def rotate(
        self,
        x: Float[np.ndarray, "*B H T K"],
        position_ids: Integer[np.ndarray, "..."] | None = None,
        saved: Saved | None = None,
    ) -> Float[np.ndarray, "*B H T K"]:
        still, last = np.split(x, [-self.encoding.d_head], axis=-1)
        options = {} if saved is None else {"saved": saved}
        turned = self.encoding.rotate(last, position_ids, **options)
        return np.concatenate([still, turned], axis=-1)

    def rotate_backward(
        self, grad: Float[np.ndarray, "*B H T K"], saved: Saved
    ) -> Float[np.ndarray, "*B H T K"]:
        still, last = np.split(grad, [-self.encoding.d_head], axis=-1)
        turned = self.encoding.rotate_backward(last, saved)
        return np.concatenate([still, turned], axis=-1)


class Compressor(Layer):
    """Makes one token of every block of m positions: their average, weighted anew for each feature.

    `W_kv` says what each position has to give, and `W_gate` how much it counts:
    the weights are a softmax over the block's positions of the gates plus
    `position_bias`. The average is normalized, and its last P features are
    rotated by the position of the block's first row, which is counted back from
    that of its last. A block that is not complete has no token yet.

    If `overlapping`, a token is made of 2m positions: both matrices have 2·K
    outputs; the first half is what a position gives to the next block, the second
    what it gives to its own. The first block has only its own.

    Source: DeepSeek-AI 2026, DeepSeek-V4's technical report, sections 2.3.1 and
    2.3.2. Derived in chapter 16.

    Raises:
        ValueError: a size is below 1, or x does not fit.
        TypeError: x is not floating-point.
    """

    def __init__(
        self,
        d_model: int,
        d_head: int,
        *,
        block: int,
        overlapping: bool = False,
        position_encoding: RotaryPositions,
        norm_eps: float = 1e-5,
        generator: np.random.Generator | None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        checks.whole("block", block)
        self.d_head, self.block, self.overlapping = d_head, block, overlapping
        self.position_encoding = _OnLast(position_encoding)
        wide = 2 * d_head if overlapping else d_head
        init_kwargs = {"generator": generator, "dtype": dtype}
        self.W_kv = Linear(d_model, wide, bias=False, **init_kwargs)
        self.W_gate = Linear(d_model, wide, bias=False, **init_kwargs)
        self.position_bias = np.zeros((block, wide), dtype)
        self.norm = RMSNorm(d_head, eps=norm_eps, dtype=dtype)

    def forward(
        self,
        x: Float[np.ndarray, "*B T D"],
        position_ids: Integer[np.ndarray, "..."],
        cache: "BlockCache | None" = None,
        saved: Saved | None = None,
    ) -> Float[np.ndarray, "*B 1 C K"]:
        """Maps x (..., T, D) to a token for each of the C complete blocks, (..., 1, C, K).

        With a `cache`, x holds only the new positions, and the tokens of blocks
        that were complete before are those of the cache.
        """
        past = 0 if cache is None else cache.length
        rows = past + x.shape[-2]
        kv = split_heads(self.W_kv(x, saved), 1)  # (..., 1, T, K), or 2·K
        gate = split_heads(self.W_gate(x, saved), 1)
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
            gate = _with_the_block_before(gate, -np.inf)[..., before:, :, :]

        # Average
        weights = softmax(gate, axis=-2)
        average = (weights * kv).sum(axis=-2)  # (..., 1, C, K)
        save_for_backward(saved, kv, weights, average, rows)
        last_rows = np.arange(done + 1, rows // m + 1) * m - 1 - past
        first = position_ids[..., last_rows] - (m - 1)
        tokens = self.norm(average, saved)
        tokens = self.position_encoding.rotate(tokens, first, saved)
        return tokens if cache is None else cache.keep(tokens)

    def backward(
        self, grad: Float[np.ndarray, "*B 1 C K"], saved: Saved
    ) -> Float[np.ndarray, "*B T D"]:
        """Maps the gradient of the tokens to that of x."""
        grad = self.position_encoding.rotate_backward(grad, saved)
        grad = self.norm.backward(grad, saved)[..., None, :]
        kv, weights, average, rows = saved.pop()
        # All positions of a block get the same gradient, each in its share
        grad_kv = weights * grad
        grad_gate = grad_kv * (kv - average[..., None, :])
        if self.overlapping:
            grad_kv = _with_the_block_before_backward(grad_kv)
            grad_gate = _with_the_block_before_backward(grad_gate)
        bias = sum_to(grad_gate, self.position_bias.shape)
        self.accumulate(position_bias=bias)
        grad_gate = merge_heads(_in_blocks_backward(grad_gate, rows))
        grad_kv = merge_heads(_in_blocks_backward(grad_kv, rows))
        from_gate = self.W_gate.backward(grad_gate, saved)
        return from_gate + self.W_kv.backward(grad_kv, saved)

    def new_cache(
        self, batch_size: int, length: int, *, rewindable: int = 0
    ) -> "BlockCache":
        """Returns an empty cache for `batch_size` texts of up to `length` positions."""
        sizes, dtype = (batch_size, length, self.d_head), self.W_kv.weight.dtype
        own = {"block": self.block, "overlapping": self.overlapping}
        return BlockCache(*sizes, rewindable=rewindable, dtype=dtype, **own)


class BlockIndexer(Indexer):
    """An indexer of compressed tokens: it chooses, for each query, the `top_k` that it attends to.

    Its heads' queries are made of the same latent vector, and its keys by a
    compressor of its own, to which other arguments go. The last features of both
    are rotated. A choice has no gradient, so the loss does not train these
    weights; nor is there a term of their own, as `Indexer.learn` adds one.

    Source: DeepSeek-AI 2026, DeepSeek-V4's technical report, section 2.3.1,
    equations 13 to 17. Derived in chapter 16.

    Raises:
        ValueError: a size is below 1, or an input does not fit.
        TypeError: an input is not floating-point.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        d_head: int,
        d_query_latent: int,
        top_k: int,
        position_encoding: RotaryPositions,
        generator: np.random.Generator | None,
        dtype: DTypeLike = np.float32,
        **of_compressor: Any,
    ) -> None:
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

    def keys(
        self,
        x: Float[np.ndarray, "*B T D"],
        position_ids: Integer[np.ndarray, "..."] | None = None,
        saved: Saved | None = None,
        cache: "BlockCache | None" = None,
    ) -> Float[np.ndarray, "*B 1 C K"]:
        """Maps x (..., T, D) to a key for each of the C complete blocks, (..., 1, C, K)."""
        return self.compressor(x, position_ids, cache, saved)


class CompressedAttention(MultiHeadAttention):
    """Attention to a window and, further back, to compressed tokens that stand for blocks of positions.

    One array serves as keys and values of all H heads: `norm_kv(W_kv(x))`, whose
    last P = d_rotated features are rotated. Values therefore turn with their
    position, so what a head has mixed is rotated back by the query's. The queries
    come through a latent vector of Q numbers: `W_q_up(norm_q(W_q_down(x)))`, and
    each head's is brought to a standard size. `sinks` (H) is a score for each head
    for which nothing is read. `W_o_down` maps each of g groups of heads to
    d_group numbers, and `W_o_up` maps all of them to D.

    A query sees `window` positions, its own included. If `compress` = m is above 1,
    it also sees the token that a `Compressor` makes of every block of m positions
    that is complete at its own position; with `top_k`, only as many as a
    `BlockIndexer` with `index_heads` heads of `d_index` features chooses. Blocks
    are counted by the order of the rows. `position_encoding` is of d_rotated
    features; all that is rotated here is rotated by it. `dropout` is the fraction
    of the output that is dropped in training.

    Source: DeepSeek-AI 2026, DeepSeek-V4's technical report, section 2.3; compare
    modular_deepseek_v4.py of transformers. Derived in chapter 16.

    Raises:
        ValueError: `n_groups` does not divide `n_heads`, `d_rotated` is odd or
            larger than a head, `position_encoding` was made for another size,
            `causal` is False, `overlapping` or `top_k` is given without
            compression, or `index_heads` or `d_index` without `top_k` or the other
            way round.
    """

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
        generator: np.random.Generator | None,
        dtype: DTypeLike = np.float32,
    ) -> None:
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
        self.sinks = np.zeros(n_heads, dtype)
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
        self.dropout = Dropout(dropout, generator=generator)

    def forward(
        self,
        x: Float[np.ndarray, "*B T D"],
        *,
        memory: Float[np.ndarray, "*B S D"] | None = None,
        position_ids: Integer[np.ndarray, "..."] | None = None,
        mask: Bool[np.ndarray, "..."] | None = None,
        score_bias: Float[np.ndarray, "..."] | None = None,
        cache: Any = None,  # a CompressedCache
        shared: Shared | None = None,
        saved: Saved | None = None,
    ) -> Float[np.ndarray, "*B T D"]:
        """Maps x (..., T, D) to (..., T, D).

        `position_ids` gives the position of each row of x: (T,) or (B, T), 0..T-1
        by default. `mask`, True = may attend, broadcasts to (..., H, T, S) and
        hides positions of the window. Blocks begin at the first row, so with
        compression it may hide only the rows after a text, for all queries alike:
        texts are padded on the right. With a `cache`, x holds only the new
        positions. `shared` is not used.

        Raises:
            ValueError: a shape does not fit; `memory` or `score_bias` is given; or
                with compression, `mask` hides a position before one that it shows.
            TypeError: x is not floating-point, `position_ids` not integer or
                `mask` not boolean.
        """
        checks.vectors("x", x, "d_model", self.d_model, "T, D")
        checks.no_gradient_through_cache(saved, cache)
        checks.left_out(memory=memory, score_bias=score_bias)
        enter_sublayer("attention")
        past, T = 0 if cache is None else cache.length, x.shape[-2]
        position_ids = self._default_positions(x, position_ids, cache)
        if self.compressor is not None:
            checks.padded_after(mask, past + T)
        rotation = self.position_encoding

        # Project, normalize, and apply the positions
        latent = self.norm_q(self.W_q_down(x, saved), saved)  # (..., T, Q)
        q = split_heads(self.W_q_up(latent, saved), self.n_heads)
        q = rotation.rotate(self.norm_heads(q, saved), position_ids, saved)
        kv = split_heads(self.norm_kv(self.W_kv(x, saved), saved), 1)
        kv = rotation.rotate(kv, position_ids, saved)  # (..., 1, T, K)
        if cache is not None:
            kv, _ = cache.append(kv, kv)  # (..., 1, S, K)
        n_keys = kv.shape[-2]
        seen = causal_mask(T, n_keys) & window_mask(T, n_keys, window=self.window)
        if mask is not None:
            mask = mask[..., -n_keys:]
            checks.attention(q, kv, kv, mask, None, sharing=self.n_heads)
            seen = seen & mask

        # Compress, and choose
        if self.compressor is not None:
            caches = (None, None) if cache is None else (*cache.blocks, None)
            tokens = self.compressor(x, position_ids, caches[0], saved)
            rows = np.arange(past + 1, past + T + 1)[:, None]  # read so far
            blocks = np.arange(1, tokens.shape[-2] + 1)
            chosen = blocks * self.compress <= rows  # (T, C)
            if self.indexer is not None:
                keys = self.indexer.keys(x, position_ids, cache=caches[1])
                scores = self.indexer(latent, x, keys, position_ids)
                chosen = self.indexer.choose(scores, chosen)
            kv = np.concatenate([kv, tokens], axis=-2)  # (..., 1, S + C, K)
            seen = _beside(seen, chosen)
        see(q=q, k=kv, v=kv)

        # Score, mask, and mix
        kv = np.broadcast_to(kv, (*q.shape[:-2], *kv.shape[-2:]))  # no copy
        mixed, weights = scaled_dot_product_attention(
            q, kv, kv, mask=seen, normalize=self._normalize
        )
        save_for_backward(saved, q, kv, weights)
        mixed = rotation.rotate(mixed, -position_ids, saved)

        # Merge
        y = self.W_o_up(self.W_o_down(merge_heads(mixed), saved), saved)
        y = self.dropout(y, saved)
        see(write=y)
        return y

    def backward(
        self, grad: Float[np.ndarray, "*B T D"], saved: Saved
    ) -> tuple[np.ndarray, None, None]:
        """Maps the gradient of the output to that of x; the others belong to inputs that it does not take."""
        rotation = self.position_encoding
        grad = self.W_o_up.backward(self.dropout.backward(grad, saved), saved)
        grad = split_heads(self.W_o_down.backward(grad, saved), self.n_heads)
        grad = rotation.rotate_backward(grad, saved)

        q, kv, weights = saved.pop()
        grad_q, grad_k, grad_v, grad_scores = (
            scaled_dot_product_attention_backward(grad, q, kv, kv, weights)
        )
        self.accumulate(sinks=sinks_backward(grad_scores))
        grad_kv = (grad_k + grad_v).sum(axis=-3, keepdims=True)

        T = q.shape[-2]
        grad_x = np.zeros((), grad.dtype)
        if self.compressor is not None:
            grad_x = self.compressor.backward(grad_kv[..., T:, :], saved)
        grad_kv = rotation.rotate_backward(grad_kv[..., :T, :], saved)
        grad_kv = self.norm_kv.backward(merge_heads(grad_kv), saved)
        grad_x = grad_x + self.W_kv.backward(grad_kv, saved)
        grad_q = rotation.rotate_backward(grad_q, saved)
        grad_q = merge_heads(self.norm_heads.backward(grad_q, saved))
        grad_latent = self.W_q_up.backward(grad_q, saved)
        grad_latent = self.norm_q.backward(grad_latent, saved)
        return grad_x + self.W_q_down.backward(grad_latent, saved), None, None

    def new_cache(
        self, batch_size: int, length: int, *, rewindable: int = 0
    ) -> "CompressedCache":
        """Returns an empty cache for `batch_size` texts of up to `length` positions.

        It keeps what the window and the blocks need, and what it takes to go back
        by `rewindable` positions.
        """
        compressors = [] if self.compressor is None else [self.compressor]
        if self.indexer is not None:
            compressors.append(self.indexer.compressor)
        blocks = [
            one.new_cache(batch_size, length, rewindable=rewindable)
            for one in compressors
        ]
        sizes, weight = (batch_size, length, self.d_head), self.W_kv.weight
        own: dict[str, Any] = {"window": self.window, "rewindable": rewindable}
        return CompressedCache(*sizes, blocks=blocks, dtype=weight.dtype, **own)


class BlockCache(WindowCache):
    """What one compressor keeps: its tokens, and of the last positions what blocks to come are made of.

    Those are the positions of the unfinished block and, if blocks overlap, of the
    one before it: at most m − 1, or 2m − 1. Their contents are in `keys` and their
    gates in `values`; `rewindable` more are kept. `tokens` (B, 1, capacity // m, K)
    has one for each complete block.

    Derived in chapter 16.
    """

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
        self.tokens = np.zeros(shape, self.keys.dtype)

    def keep(
        self, tokens: Float[np.ndarray, "B 1 N K"]
    ) -> Float[np.ndarray, "B 1 C K"]:
        """Adds the tokens of the blocks that are complete now, and returns those of all (a view)."""
        n = self.length // self.block
        self.tokens[:, :, n - tokens.shape[-2] : n] = tokens
        return self.tokens[:, :, :n]

    def reorder(self, rows: Integer[np.ndarray, " B"]) -> None:
        """Replaces row i of the batch by the former row rows[i]."""
        super().reorder(rows)
        self.tokens[:] = self.tokens[rows]

    @property
    def nbytes(self) -> int:
        """Returns how much memory the arrays take, in bytes."""
        return super().nbytes + self.tokens.nbytes


class CompressedCache(WindowCache):
    """What `CompressedAttention` keeps: its window's positions, in one array, and what each compressor keeps.

    The keys are also the values: `values` is the same array. Going back by at most
    `rewindable` positions also takes back the blocks that they completed.

    Derived in chapter 16.
    """

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

    def reorder(self, rows: Integer[np.ndarray, " B"]) -> None:
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
    rows: Float[np.ndarray, "*B T K"], m: int
) -> Float[np.ndarray, "*B C {m} K"]:
    """Cuts the rows into blocks of m, and leaves out what remains."""
    *B, T, K = rows.shape
    n = T // m
    return rows[..., : n * m, :].reshape(*B, n, m, K)


def _in_blocks_backward(
    grad: Float[np.ndarray, "*B C m K"], n_rows: int
) -> Float[np.ndarray, "*B {n_rows} K"]:
    """Maps the gradient of the blocks to that of the rows; what remained has none."""
    *B, n, m, K = grad.shape
    rows = np.zeros((*B, n_rows, K), grad.dtype)
    rows[..., : n * m, :] = grad.reshape(*B, n * m, K)
    return rows


def _with_the_block_before(
    blocks: Float[np.ndarray, "*B C m E"], nothing: float
) -> Float[np.ndarray, "*B C 2*m E//2"]:
    """Puts before each block's own half the other half of the block before it, and before the first `nothing`."""
    passed_on, own = np.split(blocks, 2, axis=-1)
    first = np.full_like(passed_on[..., :1, :, :], nothing)
    passed_on = np.concatenate([first, passed_on[..., :-1, :, :]], axis=-3)
    return np.concatenate([passed_on, own], axis=-2)


def _with_the_block_before_backward(
    grad: Float[np.ndarray, "*B C n K"],
) -> Float[np.ndarray, "*B C n//2 2*K"]:
    """Maps the gradient of what `_with_the_block_before` returns to that of the blocks."""
    passed_on, own = np.split(grad, 2, axis=-2)
    last = np.zeros_like(passed_on[..., :1, :, :])
    passed_on = np.concatenate([passed_on[..., 1:, :, :], last], axis=-3)
    return np.concatenate([passed_on, own], axis=-1)


def _beside(
    a: Bool[np.ndarray, "..."], b: Bool[np.ndarray, "..."]
) -> Bool[np.ndarray, "..."]:
    """Joins two masks along the last axis, after broadcasting all others."""
    shape = np.broadcast_shapes(a.shape[:-1], b.shape[:-1])
    a, b = (np.broadcast_to(m, (*shape, m.shape[-1])) for m in (a, b))
    return np.concatenate([a, b], axis=-1)
