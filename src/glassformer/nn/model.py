"""The whole machine in PyTorch; `scratch.model` explains it and the axes."""

from typing import Any

import torch
from jaxtyping import Bool, Float, Integer
from torch import Tensor, nn

from glassformer import _checks as checks
from glassformer.config import ModelConfig
from glassformer.nn.block import Block
from glassformer.nn.cache import KeyValueCache, ModelCache
from glassformer.nn.embedding import TokenEmbedding
from glassformer.nn.encodings import position_encoding_of
from glassformer.nn.head import Pooler, Unembedding
from glassformer.nn.hyper_connections import StreamsBlock, streams_of
from glassformer.nn.layer_embeddings import (
    LongerBlock,
    layer_embeddings_of,
)
from glassformer.nn.multi_head import Shared
from glassformer.nn.norm import norm_of
from glassformer.nn.positions import NoPositions
from glassformer.nn.soft_cap import SoftCap
from glassformer.protocols import OF_POSITIONS
from glassformer.trace import enter, see, tracing


class Stack(nn.Module):
    """As `scratch.Stack`, in PyTorch."""

    def __init__(
        self,
        config: ModelConfig,
        n_layers: int,
        *,
        causal: bool,
        crossing: bool = False,
        generator: torch.Generator | None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.name = "decoder" if causal else "encoder"
        init_kwargs = {"generator": generator, "dtype": dtype}
        self.positions = position_encoding_of(
            config, causal=causal, **init_kwargs
        )
        self.embedding_norm = (
            norm_of(config, dtype) if config.embedding_norm else None
        )
        self.dropout = nn.Dropout(config.dropout)
        self.streams = streams_of(config, **init_kwargs)
        self.layer_embeddings = layer_embeddings_of(
            config, n_layers, **init_kwargs
        )
        self.blocks = nn.ModuleList(
            _block_kind(config, i)(
                config, i, causal=causal, crossing=crossing, **init_kwargs
            )
            for i in range(n_layers)
        )
        self.norm = (
            norm_of(config, dtype) if config.norm_placement == "pre" else None
        )
        self.shares = any(
            layer.attention.shares
            for layer, _ in config.layers(n_layers).values()
        )

    def forward(
        self,
        x: Float[Tensor, "*B T D"],
        *,
        ids: Integer[Tensor, "*B T"] | None = None,
        memory: Float[Tensor, "*B S D"] | None = None,
        position_ids: Integer[Tensor, "..."] | None = None,
        mask: Bool[Tensor, "*B _"] | None = None,
        memory_mask: Bool[Tensor, "*B S"] | None = None,
        cache: ModelCache | None = None,
    ) -> Float[Tensor, "*B T D"]:
        """As `scratch.Stack.forward`."""
        if position_ids is None:
            position_ids = torch.arange(x.shape[-2], device=x.device)
            if cache is not None:
                position_ids = position_ids + cache.next_position

        checks.offers("positions", self.positions, OF_POSITIONS, "AnyPositions")
        checks.acts_on("positions", self.positions, "input", NoPositions)

        # A long text in pieces; a trace and a gradient need it whole
        pieces = []
        if cache is not None and not (tracing() or torch.is_grad_enabled()):
            pieces = cache.pieces(x.shape[-2])
        if len(pieces) > 1:
            self.positions.embed(x, position_ids)  # refuses before any is read
            past = cache.length
            parts = [
                self.forward(
                    x[..., rows, :],
                    ids=None if ids is None else ids[..., rows],
                    memory=memory,
                    position_ids=position_ids[..., rows],
                    mask=None if mask is None else mask[..., : past + rows.stop],
                    memory_mask=memory_mask,
                    cache=cache,
                )
                for rows in pieces
            ]
            return torch.cat(parts, dim=-2)

        enter(f"{self.name}: in")
        given = {}
        if self.layer_embeddings is not None:
            given["layer_vectors"] = self.layer_embeddings(x, ids)
        x = self.positions.embed(x, position_ids)
        key_positions = (
            position_ids if cache is None else cache.place(position_ids)
        )
        # one score bias for all blocks
        score_bias = self.positions.score_bias(position_ids, key_positions)
        if self.embedding_norm is not None:
            x = self.embedding_norm(x)
        x = self.dropout(x)
        if self.streams is not None:
            x = self.streams.copies(x)
        see(stream=x)

        def caches(i: int) -> dict[str, KeyValueCache]:
            if cache is None:
                return {}
            return cache.of_block(
                i, self.blocks[i], None if memory is None else memory.shape[-2]
            )

        mask, memory_mask = _for_all_queries(mask), _for_all_queries(memory_mask)
        shared: Shared | None = {} if self.shares else None
        for i, block in enumerate(self.blocks):
            enter(f"{self.name}: block {i}")
            x = block(
                x,
                ids=ids,
                position_ids=position_ids,
                mask=mask,
                score_bias=score_bias,
                memory=memory,
                memory_mask=memory_mask,
                shared=shared,
                **given,
                **caches(i),
            )

        enter(f"{self.name}: out")
        if self.streams is not None:
            x = self.streams(x)
        if self.norm is not None:
            x = self.norm(x)
            see(normed=x)
        return x


def _block_kind(config: ModelConfig, index: int) -> type[Block]:
    """Returns the class of block `index`."""
    if config.streams is not None:
        return StreamsBlock
    scaled = config.layer(index).stream_scale is not None
    return LongerBlock if scaled or config.layer_embeddings else Block


def _for_all_queries(
    mask: Bool[Tensor, "*B S"] | None,
) -> Bool[Tensor, "..."] | None:
    """(B, S) -> (B, 1, 1, S): the same keys are real for every head and query."""
    return None if mask is None else mask[..., None, None, :]


class Transformer(nn.Module):
    """As `scratch.Transformer`, in PyTorch."""

    def __init__(
        self,
        config: ModelConfig,
        *,
        generator: torch.Generator | None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        checks.instance("config", config, ModelConfig)
        self.config = config
        init_kwargs = {"generator": generator, "dtype": dtype}
        crossing, D = config.family == "encoder-decoder", config.d_model
        self.token_embedding = TokenEmbedding(config.vocab_size, D, **init_kwargs)
        self.segment_embedding = self.encoder = self.decoder = None
        self.unembedding = self.pooler = None
        if config.n_segments:
            self.segment_embedding = TokenEmbedding(
                config.n_segments, D, **init_kwargs
            )
        if config.family != "decoder":
            self.encoder = Stack(
                config, config.n_layers, causal=False, **init_kwargs
            )
        if config.family != "encoder":
            n_layers = config.n_decoder_layers or config.n_layers
            self.decoder = Stack(
                config, n_layers, causal=True, crossing=crossing, **init_kwargs
            )
        if config.head != "none":
            self.unembedding = Unembedding(config, **init_kwargs)
        cap = config.logit_cap
        self.soft_cap = None if cap is None else SoftCap(cap)
        if config.head == "tied":
            # Stored in memory as (D, V), although its shape stays (V, D). For
            # each new token the head reads the whole table, which is nearly twice
            # as fast this way, while the embedding looks up a single row.
            table = self.token_embedding.weight
            table.data = table.data.T.contiguous().T
        if config.pooler:
            self.pooler = Pooler(D, **init_kwargs)

    def forward(
        self,
        ids: Integer[Tensor, "*B T"],
        **inputs: Any,
    ) -> Float[Tensor, "*B T V"]:
        """As `scratch.Transformer.forward`."""
        hidden = self.hidden(ids, **inputs)
        if self.unembedding is None:
            return hidden
        logits = self.head(hidden)
        see(logits=logits)
        return logits

    def hidden(
        self,
        ids: Integer[Tensor, "*B T"],
        *,
        mask: Bool[Tensor, "*B _"] | None = None,
        position_ids: Integer[Tensor, "..."] | None = None,
        segments: Integer[Tensor, "*B T"] | None = None,
        source: Integer[Tensor, "*B S"] | None = None,
        memory: Float[Tensor, "*B S D"] | None = None,
        source_mask: Bool[Tensor, "*B S"] | None = None,
        cache: ModelCache | None = None,
    ) -> Float[Tensor, "*B T D"]:
        """As `scratch.Transformer.hidden`."""
        if not isinstance(ids, Tensor):
            raise TypeError(
                "ids must be a tensor of integers, not "
                f"{type(ids).__name__}: torch.as_tensor(ids) makes one"
            )
        checks.model_inputs(
            self.config,
            ids,
            mask=mask,
            position_ids=position_ids,
            segments=segments,
            source=source,
            memory=memory,
            source_mask=source_mask,
            cache=cache,
        )
        with checks.checked_before():
            if self.decoder is None:
                return self._encode(
                    ids, segments=segments, mask=mask, position_ids=position_ids
                )
            if source is not None:
                memory = self._encode(source, mask=source_mask)
            return self.decoder(
                self._embed(ids),
                ids=ids,
                memory=memory,
                memory_mask=source_mask,
                position_ids=position_ids,
                mask=mask,
                cache=cache,
            )

    def head(self, hidden: Float[Tensor, "*B D"]) -> Float[Tensor, "*B V"]:
        """As `scratch.Transformer.head`."""
        checks.has_part("head", self.unembedding)
        logits = self.unembedding(hidden, self.token_embedding)
        if self.soft_cap is not None:
            logits = self.soft_cap(logits)
        return logits

    def pool(self, hidden: Float[Tensor, "*B T D"]) -> Float[Tensor, "*B D"]:
        """As `scratch.Transformer.pool`."""
        checks.has_part("pooler", self.pooler)
        return self.pooler(hidden)

    def encode(
        self,
        source: Integer[Tensor, "*B S"],
        *,
        mask: Bool[Tensor, "*B S"] | None = None,
    ) -> Float[Tensor, "*B S D"]:
        """As `scratch.Transformer.encode`."""
        checks.has_part("encoder", self.encoder)
        checks.text_to_read(self.config, source, mask, "mask")
        with checks.checked_before():
            return self._encode(source, mask=mask)

    def new_cache(
        self, batch_size: int, length: int, *, rewindable: int = 0
    ) -> ModelCache:
        """As `scratch.Transformer.new_cache`."""
        checks.has_part("decoder", self.decoder)
        checks.whole("rewindable", rewindable, at_least=0)
        return ModelCache(
            [
                block.attention.new_cache(
                    batch_size, length, rewindable=rewindable
                )
                for block in self.decoder.blocks
            ]
        )

    def _encode(
        self,
        ids: Integer[Tensor, "*B S"],
        *,
        segments: Integer[Tensor, "*B S"] | None = None,
        mask: Bool[Tensor, "*B S"] | None = None,
        position_ids: Integer[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*B S D"]:
        return self.encoder(
            self._embed(ids, segments),
            ids=ids,
            position_ids=position_ids,
            mask=mask,
        )

    def _embed(
        self,
        ids: Integer[Tensor, "*B T"],
        segments: Integer[Tensor, "*B T"] | None = None,
    ) -> Float[Tensor, "*B T D"]:
        """Returns the token vectors; for BERT, adds the embedding of the segment (by default the first of two)."""
        x = self.token_embedding(ids)
        if self.config.embedding_scale != 1:
            x = x * self.config.embedding_scale
        if self.segment_embedding is not None:
            segments = torch.zeros_like(ids) if segments is None else segments
            x = x + self.segment_embedding(segments)
        return x
