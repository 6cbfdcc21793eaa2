"""The Transformer block: attention, then a feed-forward network, each added to the residual stream.

The axes: B batch, T positions, D d_model, S positions of the encoder's output.
"""

import numpy as np
from numpy.typing import DTypeLike

from glassformer.config import ModelConfig
from glassformer.scratch.cache import KeyValueCache
from glassformer.scratch.encodings import position_encoding_of
from glassformer.scratch.feedforward import FeedForward
from glassformer.scratch.layer import Layer, Saved
from glassformer.scratch.multi_head import MultiHeadAttention
from glassformer.scratch.norm import LayerNorm, RMSNorm, SigmaNorm
from glassformer.scratch.positions import NoPositions
from glassformer.shapes import Bool, Float, Integer
from glassformer.trace import see

NORMS = {"layernorm": LayerNorm, "layernorm_sigma": SigmaNorm, "rmsnorm": RMSNorm}


def norm_of(config: ModelConfig, dtype: DTypeLike) -> LayerNorm | RMSNorm:
    """Returns the norm that a configuration names, for vectors of its width."""
    return NORMS[config.norm](config.d_model, eps=config.norm_eps, dtype=dtype)


class Block(Layer):
    """Two sublayers, self-attention and feed-forward, with cross-attention between them if `crossing`.

    Each sublayer reads the stream and adds to it. Pre-norm computes x +
    sublayer(norm(x)), so the stream itself is never normalized. Post-norm, as in
    2017, computes norm(x + sublayer(x)).

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
        init_kwargs = {
            "dropout": config.dropout,
            "generator": generator,
            "dtype": dtype,
        }

        def attention(
            position_encoding: NoPositions, causal: bool
        ) -> MultiHeadAttention:
            return MultiHeadAttention(
                config.d_model,
                config.n_heads,
                n_kv_heads=config.n_kv_heads,
                d_head=config.d_head,
                position_encoding=position_encoding,
                causal=causal,
                bias=config.attention_bias,
                qk_norm=config.qk_norm,
                norm_eps=config.norm_eps,
                scale=config.attention_scale,
                **init_kwargs,
            )

        rotation = position_encoding_of(
            config, acting_on=("queries and keys",), dtype=dtype
        )
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
            **init_kwargs,
        )

    def forward(
        self,
        x: Float[np.ndarray, "*B T D"],
        *,
        position_ids: Integer[np.ndarray, "..."] | None = None,
        mask: Bool[np.ndarray, "..."] | None = None,
        score_bias: Float[np.ndarray, "..."] | None = None,
        cache: KeyValueCache | None = None,
        memory: Float[np.ndarray, "*B S D"] | None = None,
        memory_mask: Bool[np.ndarray, "..."] | None = None,
        memory_cache: KeyValueCache | None = None,
        saved: Saved | None = None,
    ) -> Float[np.ndarray, "*B T D"]:
        """Maps x (..., T, D) to (..., T, D).

        `position_ids`, `mask`, `score_bias` and `cache` go to self-attention;
        arguments that begin with `memory` go to cross-attention.
        """

        def attend(x: Float[np.ndarray, "*B T D"]) -> Float[np.ndarray, "*B T D"]:
            return self.attention(
                x,
                position_ids=position_ids,
                mask=mask,
                score_bias=score_bias,
                cache=cache,
                saved=saved,
            )

        def cross_attend(
            x: Float[np.ndarray, "*B T D"],
        ) -> Float[np.ndarray, "*B T D"]:
            return self.cross_attention(
                x,
                memory=memory,
                mask=memory_mask,
                cache=memory_cache,
                saved=saved,
            )

        if self.norm_placement == "pre":
            x = x + attend(self.norm_attention(x, saved))
            see(stream=x)
            if self.cross_attention is not None:
                x = x + cross_attend(self.norm_cross_attention(x, saved))
                see(stream=x)
            x = x + self.feedforward(self.norm_feedforward(x, saved), saved)
        else:
            x = self.norm_attention(x + attend(x), saved)
            see(stream=x)
            if self.cross_attention is not None:
                x = self.norm_cross_attention(x + cross_attend(x), saved)
                see(stream=x)
            x = self.norm_feedforward(x + self.feedforward(x, saved), saved)
        see(stream=x)
        return x

    def backward(
        self, grad: Float[np.ndarray, "*B T D"], saved: Saved
    ) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
        """Maps the gradient of the output to those of x, of `memory` and of `score_bias`.

        The gradient of an input that was not given is None. A sum passes its
        gradient to both of its terms.
        """
        grad_memory = None
        if self.norm_placement == "pre":
            to_x = self.feedforward.backward(grad, saved)
            grad = grad + self.norm_feedforward.backward(to_x, saved)
            if self.cross_attention is not None:
                to_x, grad_memory, _ = self.cross_attention.backward(grad, saved)
                grad = grad + self.norm_cross_attention.backward(to_x, saved)
            to_x, _, grad_score_bias = self.attention.backward(grad, saved)
            grad = grad + self.norm_attention.backward(to_x, saved)
        else:
            grad = self.norm_feedforward.backward(grad, saved)
            grad = grad + self.feedforward.backward(grad, saved)
            if self.cross_attention is not None:
                grad = self.norm_cross_attention.backward(grad, saved)
                to_x, grad_memory, _ = self.cross_attention.backward(grad, saved)
                grad = grad + to_x
            grad = self.norm_attention.backward(grad, saved)
            to_x, _, grad_score_bias = self.attention.backward(grad, saved)
            grad = grad + to_x
        return grad, grad_memory, grad_score_bias
