"""The whole machine: embeddings, stacks of blocks and a head. Three families use the same parts.

The axes: B batch, T positions, S positions of the source, D d_model, V
vocabulary.
"""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from glassformer import _checks as checks
from glassformer.config import ModelConfig
from glassformer.scratch.block import Block
from glassformer.scratch.cache import KeyValueCache, ModelCache
from glassformer.scratch.dropout import Dropout
from glassformer.scratch.embedding import TokenEmbedding
from glassformer.scratch.encodings import position_encoding_of
from glassformer.scratch.head import Pooler, Unembedding
from glassformer.scratch.hyper_connections import StreamsBlock, streams_of
from glassformer.scratch.layer import Layer, Saved, plus, save_for_backward
from glassformer.scratch.layer_embeddings import (
    LongerBlock,
    layer_embeddings_of,
)
from glassformer.scratch.multi_head import Shared
from glassformer.scratch.norm import norm_of
from glassformer.scratch.soft_cap import SoftCap
from glassformer.shapes import Bool, Float, Integer
from glassformer.trace import enter, see, tracing


class Stack(Layer):
    """A sequence of blocks, with positions added before the first and, for pre-norm blocks, a norm after the last.

    An encoder's stack is not causal; a decoder's is. With `crossing`, each block
    also attends to an encoder's output.

    Derived in chapter 08, its gradient in 09.
    """

    def __init__(
        self,
        config: ModelConfig,
        n_layers: int,
        *,
        causal: bool,
        crossing: bool = False,
        generator: np.random.Generator | None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        self.name = "decoder" if causal else "encoder"
        init_kwargs = {"generator": generator, "dtype": dtype}
        self.positions = position_encoding_of(
            config, causal=causal, **init_kwargs
        )
        self.embedding_norm = (
            norm_of(config, dtype) if config.embedding_norm else None
        )
        self.dropout = Dropout(config.dropout, generator=generator)
        self.streams = streams_of(config, **init_kwargs)
        self.layer_embeddings = layer_embeddings_of(
            config, n_layers, **init_kwargs
        )
        self.blocks = [
            _block_kind(config, i)(
                config, i, causal=causal, crossing=crossing, **init_kwargs
            )
            for i in range(n_layers)
        ]
        self.norm = (
            norm_of(config, dtype) if config.norm_placement == "pre" else None
        )
        self.shares = any(
            layer.attention.shares
            for layer, _ in config.layers(n_layers).values()
        )

    def forward(
        self,
        x: Float[np.ndarray, "*B T D"],
        *,
        ids: Integer[np.ndarray, "*B T"] | None = None,
        memory: Float[np.ndarray, "*B S D"] | None = None,
        position_ids: Integer[np.ndarray, "..."] | None = None,
        mask: Bool[np.ndarray, "*B _"] | None = None,
        memory_mask: Bool[np.ndarray, "*B S"] | None = None,
        cache: ModelCache | None = None,
        saved: Saved | None = None,
    ) -> Float[np.ndarray, "*B T D"]:
        """Maps token vectors (..., T, D) to final states (..., T, D).

        The masks (B, S) mark the real positions; the stack applies its causal
        mask by itself. With a cache, a long text is read in pieces, unless a
        trace is open.
        """
        if position_ids is None:
            position_ids = np.arange(x.shape[-2])
            if cache is not None:
                position_ids = position_ids + cache.next_position

        # A long text in pieces; a trace and a gradient need it whole
        pieces = []
        if cache is not None and not tracing():
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
            return np.concatenate(parts, axis=-2)

        enter(f"{self.name}: in")
        given = {}
        if self.layer_embeddings is not None:
            given["layer_vectors"] = self.layer_embeddings(x, ids, saved)
        x = self.positions.embed(x, position_ids, saved)
        key_positions = (
            position_ids if cache is None else cache.place(position_ids)
        )
        # One score bias for all blocks
        score_bias = self.positions.score_bias(position_ids, key_positions, saved)
        if self.embedding_norm is not None:
            x = self.embedding_norm(x, saved)
        x = self.dropout(x, saved)
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
                saved=saved,
                **given,
                **caches(i),
            )

        enter(f"{self.name}: out")
        if self.streams is not None:
            x = self.streams(x, saved)
        if self.norm is not None:
            x = self.norm(x, saved)
            see(normed=x)
        return x

    def backward(
        self, grad: Float[np.ndarray, "*B T D"], saved: Saved
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Maps the gradient of the final states to those of the token vectors and `memory`.

        The second is None if there was no memory. All blocks attended to it, and
        all used the bias, so both gradients are sums.
        """
        if self.norm is not None:
            grad = self.norm.backward(grad, saved)
        if self.streams is not None:
            grad = self.streams.backward(grad, saved)
        grad_memory = grad_score_bias = None
        to_vectors = []
        for block in reversed(self.blocks):
            grad, to_memory, to_bias, *to_own = block.backward(grad, saved)
            to_vectors = to_own + to_vectors
            grad_memory = plus(grad_memory, to_memory)
            grad_score_bias = plus(grad_score_bias, to_bias)
        if self.streams is not None:
            grad = self.streams.copies_backward(grad)
        grad = self.dropout.backward(grad, saved)
        if self.embedding_norm is not None:
            grad = self.embedding_norm.backward(grad, saved)
        if grad_score_bias is not None:
            self.positions.score_bias_backward(grad_score_bias, saved)
        grad = self.positions.embed_backward(grad, saved)
        if self.layer_embeddings is not None:
            all_vectors = np.stack(to_vectors, axis=-2)
            grad = grad + self.layer_embeddings.backward(all_vectors, saved)
        return grad, grad_memory


def _block_kind(config: ModelConfig, index: int) -> type[Block]:
    """Returns the class of block `index`."""
    if config.streams is not None:
        return StreamsBlock
    scaled = config.layer(index).stream_scale is not None
    return LongerBlock if scaled or config.layer_embeddings else Block


def _for_all_queries(
    mask: Bool[np.ndarray, "*B S"] | None,
) -> Bool[np.ndarray, "..."] | None:
    """(B, S) -> (B, 1, 1, S): the same keys are real for every head and query."""
    return None if mask is None else mask[..., None, None, :]


class Transformer(Layer):
    """A Transformer, built as its configuration describes.

    A decoder continues a text: every position sees the ones before it. An encoder
    reads a text: every position sees all the others. An encoder–decoder does
    both: its decoder continues one text and attends to the encoder's output for
    another, the source. All use the same blocks and one token embedding.

    Source: Vaswani et al. 2017, "Attention Is All You Need"; decoder: Radford et
    al. 2018; encoder: Devlin et al. 2019. Derived in chapter 08, the families in
    chapter 12, its gradient in 09.

    Raises:
        TypeError: `config` is not a ModelConfig.
    """

    def __init__(
        self,
        config: ModelConfig,
        *,
        generator: np.random.Generator | None,
        dtype: DTypeLike = np.float32,
    ) -> None:
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
        if config.pooler:
            self.pooler = Pooler(D, **init_kwargs)

    def forward(
        self,
        ids: Integer[np.ndarray, "*B T"],
        *,
        saved: Saved | None = None,
        **inputs: Any,
    ) -> Float[np.ndarray, "*B T V"]:
        """Maps ids (..., T) to logits (..., T, V).

        A model without a head returns its final states (..., T, D). `inputs` are
        those of `hidden`; see there for the rules.
        """
        hidden = self.hidden(ids, saved=saved, **inputs)
        if self.unembedding is None:
            return hidden
        logits = self.head(hidden, saved)
        see(logits=logits)
        return logits

    def backward(self, grad: Float[np.ndarray, "*B T V"], saved: Saved) -> None:
        """Maps the gradient of the output of `forward` to those of all weights.

        `saved` is the list that was given to `forward`. Use one list for each
        forward pass; it is empty again afterwards.

        Raises:
            ValueError: nothing was saved.
        """
        if not saved:
            raise ValueError(
                "saved is empty: pass the list that forward has filled"
            )
        if self.soft_cap is not None:
            grad = self.soft_cap.backward(grad, saved)
        if self.unembedding is not None:
            grad = self.unembedding.backward(grad, saved)
        if self.decoder is None:
            self._encode_backward(grad, saved)
            return
        (has_source,) = saved.pop()
        grad, grad_memory = self.decoder.backward(grad, saved)
        self._embed_backward(grad, saved)
        if has_source:
            self._encode_backward(grad_memory, saved)

    def hidden(
        self,
        ids: Integer[np.ndarray, "*B T"],
        *,
        mask: Bool[np.ndarray, "*B _"] | None = None,
        position_ids: Integer[np.ndarray, "..."] | None = None,
        segments: Integer[np.ndarray, "*B T"] | None = None,
        source: Integer[np.ndarray, "*B S"] | None = None,
        memory: Float[np.ndarray, "*B S D"] | None = None,
        source_mask: Bool[np.ndarray, "*B S"] | None = None,
        cache: ModelCache | None = None,
        saved: Saved | None = None,
    ) -> Float[np.ndarray, "*B T D"]:
        """Maps ids (..., T) to final states (..., T, D), which `head` maps to logits.

        `mask` (..., S) is True at real tokens and False at padding; with a cache
        it covers all cached and new positions. `position_ids` is (T,) or (B, T),
        by default 0..T-1 or, with a cache, the positions that follow. An
        encoder–decoder takes either `source`, the ids to read, or `memory`, the
        output of `encode` for them, with `source_mask` for their padding. With a
        `cache`, `ids` holds only the new ids.

        Raises:
            ValueError: an input does not fit the family, the sizes or the cache.
            TypeError: ids are not integers, or a mask is not boolean.
        """
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
        checks.no_gradient_through_cache(saved, cache)
        with checks.checked_before():
            if self.decoder is None:
                return self._encode(
                    ids,
                    saved,
                    segments=segments,
                    mask=mask,
                    position_ids=position_ids,
                )
            if source is not None:
                memory = self._encode(source, saved, mask=source_mask)
            x = self.decoder(
                self._embed(ids, saved),
                ids=ids,
                memory=memory,
                memory_mask=source_mask,
                position_ids=position_ids,
                mask=mask,
                cache=cache,
                saved=saved,
            )
        save_for_backward(saved, source is not None)
        return x

    def head(
        self, hidden: Float[np.ndarray, "*B D"], saved: Saved | None = None
    ) -> Float[np.ndarray, "*B V"]:
        """Maps final states (..., D) to logits (..., V).

        Raises:
            ValueError: the model has no head.
        """
        checks.has_part("head", self.unembedding)
        logits = self.unembedding(hidden, self.token_embedding, saved)
        if self.soft_cap is not None:
            logits = self.soft_cap(logits, saved=saved)
        return logits

    def pool(
        self, hidden: Float[np.ndarray, "*B T D"]
    ) -> Float[np.ndarray, "*B D"]:
        """Maps final states (..., T, D) to one vector for the text, (..., D).

        Raises:
            ValueError: the model has no pooler.
        """
        checks.has_part("pooler", self.pooler)
        return self.pooler(hidden)

    def encode(
        self,
        source: Integer[np.ndarray, "*B S"],
        *,
        mask: Bool[np.ndarray, "*B S"] | None = None,
    ) -> Float[np.ndarray, "*B S D"]:
        """Maps ids (..., S) to the final states of the encoder, (..., S, D).

        Raises:
            ValueError: the model has no encoder, or an input does not fit.
        """
        checks.has_part("encoder", self.encoder)
        checks.text_to_read(self.config, source, mask, "mask")
        with checks.checked_before():
            return self._encode(source, mask=mask)

    def new_cache(
        self, batch_size: int, length: int, *, rewindable: int = 0
    ) -> ModelCache:
        """Returns an empty cache for `batch_size` texts of up to `length` positions.

        A layer with a window keeps what the window can see, and `rewindable`
        positions more, by which the cache can then go back.

        Raises:
            ValueError: the model has no decoder, a size is below 1, or
                `rewindable` is below 0.
        """
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
        ids: Integer[np.ndarray, "*B S"],
        saved: Saved | None = None,
        *,
        segments: Integer[np.ndarray, "*B S"] | None = None,
        mask: Bool[np.ndarray, "*B S"] | None = None,
        position_ids: Integer[np.ndarray, "..."] | None = None,
    ) -> Float[np.ndarray, "*B S D"]:
        return self.encoder(
            self._embed(ids, saved, segments),
            ids=ids,
            position_ids=position_ids,
            mask=mask,
            saved=saved,
        )

    def _encode_backward(
        self, grad: Float[np.ndarray, "*B S D"], saved: Saved
    ) -> None:
        self._embed_backward(self.encoder.backward(grad, saved)[0], saved)

    def _embed(
        self,
        ids: Integer[np.ndarray, "*B T"],
        saved: Saved | None = None,
        segments: Integer[np.ndarray, "*B T"] | None = None,
    ) -> Float[np.ndarray, "*B T D"]:
        """Returns the token vectors; for BERT, adds the embedding of the segment (by default the first of two)."""
        x = self.token_embedding(ids, saved)
        if self.config.embedding_scale != 1:
            x = x * self.config.embedding_scale
        if self.segment_embedding is not None:
            segments = np.zeros_like(ids) if segments is None else segments
            x = x + self.segment_embedding(segments, saved)
        return x

    def _embed_backward(
        self, grad: Float[np.ndarray, "*B T D"], saved: Saved
    ) -> None:
        if self.segment_embedding is not None:
            self.segment_embedding.backward(grad, saved)
        self.token_embedding.backward(grad * self.config.embedding_scale, saved)
