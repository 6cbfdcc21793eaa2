"""The Transformer block: attention, then feed-forward, each added to the stream that runs through.

The axes: B batch, T positions, D d_model, S positions of the encoder's output.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float, Integer
from numpy.typing import DTypeLike

from glassformer.config import ModelConfig
from glassformer.scratch.attention import MultiHeadAttention
from glassformer.scratch.cache import KeyValueCache
from glassformer.scratch.dropout import Dropout
from glassformer.scratch.feedforward import FeedForward
from glassformer.scratch.layer import Layer
from glassformer.scratch.norm import LayerNorm, RMSNorm, SigmaNorm
from glassformer.scratch.positions import NoPositions, RotaryPositions
from glassformer.trace import enter_sublayer, see

NORMS = {"layernorm": LayerNorm, "layernorm_sigma": SigmaNorm, "rmsnorm": RMSNorm}


def norm_of(config: ModelConfig, dtype: DTypeLike) -> LayerNorm | RMSNorm:
    """The norm that a configuration names, for vectors of its width."""
    return NORMS[config.norm](config.d_model, eps=config.norm_eps, dtype=dtype)


class Block(Layer):
    """Two sublayers, or three: self-attention, cross-attention if `crossing`, feed-forward.

    Each reads the stream and adds to it. Pre-norm: x + sublayer(norm(x)), so that the stream itself is never
    touched. Post-norm, as in 2017: norm(x + sublayer(x)).

    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.1; pre-norm: Radford et al. 2019,
    "Language Models are Unsupervised Multitask Learners", section 2.3. Derived in chapter 07, its gradient in 09.
    """

    def __init__(
        self,
        config: ModelConfig,
        *,
        causal: bool,
        crossing: bool = False,
        generator: np.random.Generator | None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        self.norm_placement = config.norm_placement
        drawn = {"generator": generator, "dtype": dtype}

        def attention(positions: NoPositions, causal: bool) -> MultiHeadAttention:
            return MultiHeadAttention(
                config.d_model,
                config.n_heads,
                n_kv_heads=config.n_kv_heads,
                d_head=config.d_head,
                positions=positions,
                causal=causal,
                bias=config.attention_bias,
                qk_norm=config.qk_norm,
                norm_eps=config.norm_eps,
                scale=config.attention_scale,
                **drawn,
            )

        self.norm_attention = norm_of(config, dtype)
        self.attention = attention(rotation_of(config), causal)
        self.norm_cross_attention = norm_of(config, dtype) if crossing else None
        self.cross_attention = attention(NoPositions(), False) if crossing else None
        self.norm_feedforward = norm_of(config, dtype)
        self.feedforward = FeedForward(
            config.d_model,
            config.d_ff,
            activation=config.feedforward,
            bias=config.feedforward_bias,
            **drawn,
        )
        self.dropout = Dropout(config.dropout, generator=generator)

    def forward(
        self,
        x: Float[np.ndarray, "*B T D"],
        *,
        memory: Float[np.ndarray, "*B S D"] | None = None,
        positions: Integer[np.ndarray, "..."] | None = None,
        mask: Bool[np.ndarray, "..."] | None = None,
        bias: Float[np.ndarray, "..."] | None = None,
        memory_mask: Bool[np.ndarray, "..."] | None = None,
        cache: KeyValueCache | None = None,
        memory_cache: KeyValueCache | None = None,
    ) -> tuple[Float[np.ndarray, "*B T D"], Callable]:
        """Maps x (..., T, D) to (..., T, D); `positions`, masks, `bias` and caches are attention's."""
        side = {}  # the gradients of memory and bias, which come in at the side of the stream

        def attend(x: np.ndarray) -> tuple[np.ndarray, Callable]:
            y, back = self.attention.forward(x, positions=positions, mask=mask, bias=bias, cache=cache)

            def backward(grad: np.ndarray) -> np.ndarray:
                grad_x, _, side["bias"] = back(grad)
                return grad_x

            return y, backward

        def attend_to_memory(x: np.ndarray) -> tuple[np.ndarray, Callable]:
            y, back = self.cross_attention.forward(x, memory=memory, mask=memory_mask, cache=memory_cache)

            def backward(grad: np.ndarray) -> np.ndarray:
                grad_x, side["memory"], _ = back(grad)
                return grad_x

            return y, backward

        x, attention_backward = self._add("attention", attend, self.norm_attention, x)
        if self.cross_attention is not None:
            norm = self.norm_cross_attention
            x, cross_backward = self._add("cross-attention", attend_to_memory, norm, x)
        feed, norm = self.feedforward.forward, self.norm_feedforward
        x, feedforward_backward = self._add("feed-forward", feed, norm, x)

        def backward(grad: np.ndarray) -> tuple[np.ndarray | None, ...]:
            """Gives the gradients of x, of `memory` and of `bias`; None for what was not there."""
            grad = feedforward_backward(grad)
            if self.cross_attention is not None:
                grad = cross_backward(grad)
            return attention_backward(grad), side.get("memory"), side["bias"]

        return x, backward

    def _add(
        self, name: str, sublayer: Callable, norm: LayerNorm | RMSNorm, x: Float[np.ndarray, "*B T D"]
    ) -> tuple[Float[np.ndarray, "*B T D"], Callable]:
        """One sublayer with its norm and its residual connection."""
        enter_sublayer(name)
        if self.norm_placement == "pre":
            normed, norm_backward = norm.forward(x)
            y, sublayer_backward = sublayer(normed)
            y, dropout_backward = self.dropout.forward(y)
            x = x + y
            see(write=y, stream=x)
            # A sum hands its gradient to both of its terms.
            return x, lambda grad: grad + norm_backward(sublayer_backward(dropout_backward(grad)))

        y, sublayer_backward = sublayer(x)
        y, dropout_backward = self.dropout.forward(y)
        x, norm_backward = norm.forward(x + y)
        see(write=y, stream=x)

        def backward(grad: np.ndarray) -> np.ndarray:
            grad = norm_backward(grad)
            return grad + sublayer_backward(dropout_backward(grad))

        return x, backward


def rotation_of(config: ModelConfig) -> NoPositions:
    """What turns queries and keys: RoPE if the configuration says so. The other methods are the stack's."""
    if config.positions != "rope":
        return NoPositions()
    return RotaryPositions(
        config.d_head,
        base=config.rope_base,
        layout=config.rope_layout,
        interpolation=config.rope_interpolation,
    )
