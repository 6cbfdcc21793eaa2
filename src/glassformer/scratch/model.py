"""The whole machine: embeddings, stacks of blocks, a head; three families from the same parts.

The axes: B batch, T positions, S positions that are looked at, D d_model, V vocabulary.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float, Integer
from numpy.typing import DTypeLike

from glassformer import _checks as checks
from glassformer.config import ModelConfig
from glassformer.scratch.block import Block, norm_of
from glassformer.scratch.cache import KeyValueCache, ModelCache
from glassformer.scratch.dropout import Dropout
from glassformer.scratch.embedding import TokenEmbedding
from glassformer.scratch.head import Pooler, Unembedding
from glassformer.scratch.layer import Layer
from glassformer.scratch.positions import (
    AlibiPositions,
    LearnedPositions,
    NoPositions,
    SinusoidalPositions,
    T5Positions,
)
from glassformer.trace import enter, see


def positions_of(
    config: ModelConfig, *, causal: bool, generator: np.random.Generator | None, dtype: DTypeLike
) -> NoPositions:
    """What tells a whole stack where its tokens are: doors 1 and 3. RoPE's door, 2, is in every attention."""
    match config.positions:
        case "sinusoidal":
            return SinusoidalPositions(config.d_model)
        case "learned":
            return LearnedPositions(config.context_length, config.d_model, generator=generator, dtype=dtype)
        case "alibi":
            return AlibiPositions(config.n_heads)
        case "t5":
            return T5Positions(
                config.n_heads,
                bidirectional=not causal,
                n_buckets=config.t5_n_buckets,
                max_distance=config.t5_max_distance,
                generator=generator,
                dtype=dtype,
            )
    return NoPositions()


class Stack(Layer):
    """Blocks one after another, with positions before the first and, if they are pre-norm, a norm at the end.

    An encoder's stack is not causal; a decoder's is, and with `crossing` each of its blocks also looks at an
    encoder's output.

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
        drawn = {"generator": generator, "dtype": dtype}
        self.positions = positions_of(config, causal=causal, **drawn)
        self.embedding_norm = norm_of(config, dtype) if config.embedding_norm else None
        self.dropout = Dropout(config.dropout, generator=generator)
        self.blocks = [Block(config, causal=causal, crossing=crossing, **drawn) for _ in range(n_layers)]
        self.norm = norm_of(config, dtype) if config.norm_placement == "pre" else None

    def forward(
        self,
        x: Float[np.ndarray, "*B T D"],
        *,
        memory: Float[np.ndarray, "*B S D"] | None = None,
        positions: Integer[np.ndarray, "..."] | None = None,
        mask: Bool[np.ndarray, "..."] | None = None,
        memory_mask: Bool[np.ndarray, "..."] | None = None,
        cache: ModelCache | None = None,
    ) -> tuple[Float[np.ndarray, "*B T D"], Callable]:
        """Maps token vectors (..., T, D) to final states (..., T, D).

        The masks say which positions are real, (B, S); the causal mask is the stack's own affair.
        """
        if positions is None:
            positions = np.arange(x.shape[-2])
            if cache is not None:
                positions = positions + cache.next_position
        mask = None if mask is None else mask[..., None, None, :]  # (B, 1, 1, S): for every head and query
        memory_mask = None if memory_mask is None else memory_mask[..., None, None, :]

        enter(f"{self.name}: in")
        x = self.positions.embed(x, positions)
        key_positions = positions if cache is None else cache.place(positions)
        bias = self.positions.bias(positions, key_positions)  # one for all blocks
        if self.embedding_norm is not None:
            x, norm_in_backward = self.embedding_norm.forward(x)
        x, dropout_backward = self.dropout.forward(x)
        see(stream=x)
        block_backwards = []
        for i, block in enumerate(self.blocks):
            enter(f"{self.name}: block {i}")
            x, block_backward = block.forward(
                x,
                memory=memory,
                positions=positions,
                mask=mask,
                bias=bias,
                memory_mask=memory_mask,
                cache=None if cache is None else cache.blocks[i],
                memory_cache=None
                if cache is None or memory is None
                else cache.for_memory(i, memory.shape[-2]),
            )
            if self.training:  # else let go of what the block remembers, one block at a time
                block_backwards.append(block_backward)
        enter(f"{self.name}: out")
        if self.norm is not None:
            x, norm_out_backward = self.norm.forward(x)
            see(normed=x)

        def backward(grad: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
            """Gives the gradients of the token vectors and of `memory` (None where there was none)."""
            if len(block_backwards) != len(self.blocks):
                raise RuntimeError("in evaluation nothing is kept for backward: call train() before forward")
            if self.norm is not None:
                grad = norm_out_backward(grad)
            grad_memory = None
            for block_backward in reversed(block_backwards):
                grad, to_memory, to_bias = block_backward(grad)
                if to_memory is not None:
                    grad_memory = to_memory if grad_memory is None else grad_memory + to_memory
                if to_bias is not None:
                    self.positions.bias_backward(to_bias, positions, key_positions)
            grad = dropout_backward(grad)
            if self.embedding_norm is not None:
                grad = norm_in_backward(grad)
            return self.positions.embed_backward(grad, positions), grad_memory

        return x, backward


class Transformer(Layer):
    """A Transformer as its configuration describes it.

    A decoder continues a text: every position sees what came before. An encoder reads one: every position
    sees all. An encoder–decoder does both: the decoder continues its own text and looks at what the encoder
    made of another, the source. All use the same blocks and one token embedding.

    Source: Vaswani et al. 2017, "Attention Is All You Need"; decoder: Radford et al. 2018; encoder: Devlin et
    al. 2019. Derived in chapter 08, the families in chapter 12, its gradient in 09.

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
        drawn = {"generator": generator, "dtype": dtype}
        two = config.family == "encoder-decoder"
        self.token_embedding = TokenEmbedding(config.vocab_size, config.d_model, **drawn)
        self.segment_embedding = (
            TokenEmbedding(config.n_segments, config.d_model, **drawn) if config.n_segments else None
        )
        self.encoder = (
            Stack(config, config.n_layers, causal=False, **drawn) if config.family != "decoder" else None
        )
        self.decoder = (
            Stack(
                config,
                config.n_decoder_layers if two else config.n_layers,
                causal=True,
                crossing=two,
                **drawn,
            )
            if config.family != "encoder"
            else None
        )
        self.unembedding = Unembedding(config, **drawn) if config.head != "none" else None
        self.pooler = Pooler(config.d_model, **drawn) if config.pooler else None

    def forward(
        self,
        ids: Integer[np.ndarray, "*B T"],
        *,
        mask: Bool[np.ndarray, "*B _"] | None = None,
        positions: Integer[np.ndarray, "..."] | None = None,
        segments: Integer[np.ndarray, "*B T"] | None = None,
        source: Integer[np.ndarray, "*B S"] | None = None,
        memory: Float[np.ndarray, "*B S D"] | None = None,
        source_mask: Bool[np.ndarray, "*B S"] | None = None,
        cache: ModelCache | None = None,
    ) -> tuple[Float[np.ndarray, "*B T V"], Callable]:
        """Maps ids (..., T) to logits (..., T, V), or where the model has no head to final states (..., T, D).

        `mask` (..., S) is True at real tokens and False at padding, with a cache for all that is cached and
        new. `positions` is (T,) or (B, T), by default 0..T-1 or, with a cache, what follows. An
        encoder–decoder takes the ids to read as `source`, or as `memory` what `encode` made of them, with
        `source_mask` for their padding. With a `cache`, ids are the new ones only.

        Raises:
            ValueError: an input does not fit the family, the sizes or the cache.
            TypeError: ids are not integers, or a mask is not boolean.
        """
        hidden, hidden_backward = self._hidden(
            ids, mask, positions, segments, source, memory, source_mask, cache
        )
        if self.unembedding is None:
            return hidden, hidden_backward
        logits, head_backward = self.unembedding.forward(hidden, self.token_embedding)
        see(logits=logits)
        return logits, lambda grad: hidden_backward(head_backward(grad))

    def hidden(
        self,
        ids: Integer[np.ndarray, "*B T"],
        *,
        mask: Bool[np.ndarray, "*B _"] | None = None,
        positions: Integer[np.ndarray, "..."] | None = None,
        segments: Integer[np.ndarray, "*B T"] | None = None,
        source: Integer[np.ndarray, "*B S"] | None = None,
        memory: Float[np.ndarray, "*B S D"] | None = None,
        source_mask: Bool[np.ndarray, "*B S"] | None = None,
        cache: ModelCache | None = None,
    ) -> Float[np.ndarray, "*B T D"]:
        """Maps ids (..., T) to final states (..., T, D), which `head` maps to logits. Takes what forward does."""
        return self._hidden(ids, mask, positions, segments, source, memory, source_mask, cache)[0]

    def head(self, hidden: Float[np.ndarray, "*B D"]) -> Float[np.ndarray, "*B V"]:
        """Maps final states (..., D) to logits (..., V).

        Raises:
            ValueError: the model has no head.
        """
        checks.has_part("head", self.unembedding)
        return self.unembedding(hidden, self.token_embedding)

    def pool(self, hidden: Float[np.ndarray, "*B T D"]) -> Float[np.ndarray, "*B D"]:
        """Maps final states (..., T, D) to one vector for the text, (..., D).

        Raises:
            ValueError: the model has no pooler.
        """
        checks.has_part("pooler", self.pooler)
        return self.pooler(hidden)

    def encode(
        self, source: Integer[np.ndarray, "*B S"], *, mask: Bool[np.ndarray, "*B S"] | None = None
    ) -> Float[np.ndarray, "*B S D"]:
        """Maps ids (..., S) to the final states of the encoder, (..., S, D).

        Raises:
            ValueError: the model has no encoder, or an input does not fit.
        """
        checks.has_part("encoder", self.encoder)
        checks.text_to_read(self.config, source, mask, "mask")
        return self._encode(source, mask, None, None)[0]

    def new_cache(self, batch_size: int, length: int) -> ModelCache:
        """An empty cache for `batch_size` texts of up to `length` positions.

        Raises:
            ValueError: the model has no decoder, or a size is below 1.
        """
        checks.has_part("decoder", self.decoder)
        config = self.config
        return ModelCache(
            [
                KeyValueCache(
                    batch_size,
                    config.n_kv_heads,
                    length,
                    config.d_head,
                    dtype=self.token_embedding.weight.dtype,
                )
                for _ in self.decoder.blocks
            ]
        )

    def _hidden(
        self,
        ids: Integer[np.ndarray, "*B T"],
        mask: Bool[np.ndarray, "*B _"] | None,
        positions: Integer[np.ndarray, "..."] | None,
        segments: Integer[np.ndarray, "*B T"] | None,
        source: Integer[np.ndarray, "*B S"] | None,
        memory: Float[np.ndarray, "*B S D"] | None,
        source_mask: Bool[np.ndarray, "*B S"] | None,
        cache: ModelCache | None,
    ) -> tuple[Float[np.ndarray, "*B T D"], Callable]:
        checks.model_inputs(self.config, ids, mask, positions, segments, source, memory, source_mask, cache)
        if self.decoder is None:
            return self._encode(ids, mask, positions, segments)
        if source is not None:
            memory, encode_backward = self._encode(source, source_mask, None, None)
        x, embed_backward = self._embed(ids, None)
        hidden, decode_backward = self.decoder.forward(
            x, memory=memory, positions=positions, mask=mask, memory_mask=source_mask, cache=cache
        )

        def backward(grad: np.ndarray) -> None:
            grad, grad_memory = decode_backward(grad)
            embed_backward(grad)
            if source is not None:
                encode_backward(grad_memory)

        return hidden, backward

    def _encode(
        self,
        ids: Integer[np.ndarray, "*B S"],
        mask: Bool[np.ndarray, "*B S"] | None,
        positions: Integer[np.ndarray, "..."] | None,
        segments: Integer[np.ndarray, "*B S"] | None,
    ) -> tuple[Float[np.ndarray, "*B S D"], Callable]:
        x, embed_backward = self._embed(ids, segments)
        hidden, stack_backward = self.encoder.forward(x, positions=positions, mask=mask)
        return hidden, lambda grad: embed_backward(stack_backward(grad)[0])

    def _embed(
        self, ids: Integer[np.ndarray, "*B T"], segments: Integer[np.ndarray, "*B T"] | None
    ) -> tuple[Float[np.ndarray, "*B T D"], Callable]:
        """Token vectors, and for BERT what says which of two texts each belongs to (the first by default)."""
        x, token_backward = self.token_embedding.forward(ids)
        if self.config.embedding_scale != 1:
            x = x * self.config.embedding_scale
        if self.segment_embedding is not None:
            segments = np.zeros_like(ids) if segments is None else segments
            from_segments, segment_backward = self.segment_embedding.forward(segments)
            x = x + from_segments

        def backward(grad: np.ndarray) -> None:
            if self.segment_embedding is not None:
                segment_backward(grad)
            token_backward(grad * self.config.embedding_scale)

        return x, backward
