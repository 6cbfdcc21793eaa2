"""The Transformer block: attention, then feed-forward, each added to the stream that runs through.

The axes: B batch, T positions, D d_model, S positions of the encoder's output.
"""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from glassformer.config import ModelConfig
from glassformer.scratch.attention import MultiHeadAttention
from glassformer.scratch.cache import KeyValueCache
from glassformer.scratch.feedforward import FeedForward
from glassformer.scratch.layer import Kept, Layer
from glassformer.scratch.norm import LayerNorm, RMSNorm, SigmaNorm
from glassformer.scratch.positions import NoPositions, positions_of
from glassformer.shapes import Bool, Float
from glassformer.trace import see

NORMS = {"layernorm": LayerNorm, "layernorm_sigma": SigmaNorm, "rmsnorm": RMSNorm}


def norm_of(config: ModelConfig, dtype: DTypeLike) -> LayerNorm | RMSNorm:
    """The norm that a configuration names, for vectors of its width."""
    return NORMS[config.norm](config.d_model, eps=config.norm_eps, dtype=dtype)


class Block(Layer):
    """Two sublayers, or three: self-attention, cross-attention if `crossing`, feed-forward.

    Each reads the stream and adds to it. Pre-norm: x + sublayer(norm(x)), so that
    the stream itself is never touched. Post-norm, as in 2017: norm(x +
    sublayer(x)).

    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.1;
    pre-norm: Radford et al. 2019, "Language Models are Unsupervised Multitask
    Learners", section 2.3. Derived in chapter 07, its gradient in 09.
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
        drawn = {
            "dropout": config.dropout,
            "generator": generator,
            "dtype": dtype,
        }

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

        rotation = positions_of(config, doors=(2,), dtype=dtype)
        self.norm_attention = norm_of(config, dtype)
        self.attention = attention(rotation, causal)
        self.norm_cross_attention = norm_of(config, dtype) if crossing else None
        self.cross_attention = (
            attention(NoPositions(), False) if crossing else None
        )
        self.norm_feedforward = norm_of(config, dtype)
        self.feedforward = FeedForward(
            config.d_model,
            config.d_ff,
            activation=config.feedforward,
            bias=config.feedforward_bias,
            **drawn,
        )

    def forward(
        self,
        x: Float[np.ndarray, "*B T D"],
        *,
        memory: Float[np.ndarray, "*B S D"] | None = None,
        memory_mask: Bool[np.ndarray, "..."] | None = None,
        memory_cache: KeyValueCache | None = None,
        kept: Kept | None = None,
        **own: Any,
    ) -> Float[np.ndarray, "*B T D"]:
        """Maps x (..., T, D) to (..., T, D).

        `own` are the inputs of self-attention: `positions`, `mask`, `bias` and
        `cache`.
        """
        other = {"memory": memory, "mask": memory_mask, "cache": memory_cache}
        if self.norm_placement == "pre":
            x = x + self.attention(self.norm_attention(x, kept), kept=kept, **own)
            see(stream=x)
            if self.cross_attention is not None:
                normed = self.norm_cross_attention(x, kept)
                x = x + self.cross_attention(normed, kept=kept, **other)
                see(stream=x)
            x = x + self.feedforward(self.norm_feedforward(x, kept), kept)
        else:
            x = self.norm_attention(x + self.attention(x, kept=kept, **own), kept)
            see(stream=x)
            if self.cross_attention is not None:
                looked = self.cross_attention(x, kept=kept, **other)
                x = self.norm_cross_attention(x + looked, kept)
                see(stream=x)
            x = self.norm_feedforward(x + self.feedforward(x, kept), kept)
        see(stream=x)
        return x

    def backward(
        self, grad: Float[np.ndarray, "*B T D"], kept: Kept
    ) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
        """From the gradient of the output to those of x, of `memory` and of `bias`.

        None for what was not there. A sum hands its gradient to both of its
        terms.
        """
        grad_memory = None
        if self.norm_placement == "pre":
            to_x = self.feedforward.backward(grad, kept)
            grad = grad + self.norm_feedforward.backward(to_x, kept)
            if self.cross_attention is not None:
                to_x, grad_memory, _ = self.cross_attention.backward(grad, kept)
                grad = grad + self.norm_cross_attention.backward(to_x, kept)
            to_x, _, grad_bias = self.attention.backward(grad, kept)
            grad = grad + self.norm_attention.backward(to_x, kept)
        else:
            grad = self.norm_feedforward.backward(grad, kept)
            grad = grad + self.feedforward.backward(grad, kept)
            if self.cross_attention is not None:
                grad = self.norm_cross_attention.backward(grad, kept)
                to_x, grad_memory, _ = self.cross_attention.backward(grad, kept)
                grad = grad + to_x
            grad = self.norm_attention.backward(grad, kept)
            to_x, _, grad_bias = self.attention.backward(grad, kept)
            grad = grad + to_x
        return grad, grad_memory, grad_bias
