"""The Transformer block: attention, then feed-forward, each added to the stream that runs through.

The axes: B batch, T positions, D d_model, S positions of the encoder's output.
"""

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from glassformer.config import ModelConfig
from glassformer.nn.attention import MultiHeadAttention
from glassformer.nn.cache import KeyValueCache
from glassformer.nn.feedforward import FeedForward
from glassformer.nn.norm import LayerNorm, RMSNorm, SigmaNorm
from glassformer.nn.positions import NoPositions, positions_of
from glassformer.trace import see

NORMS = {"layernorm": LayerNorm, "layernorm_sigma": SigmaNorm, "rmsnorm": RMSNorm}


def norm_of(config: ModelConfig, dtype: torch.dtype) -> LayerNorm | RMSNorm:
    """The norm that a configuration names, for vectors of its width."""
    return NORMS[config.norm](config.d_model, eps=config.norm_eps, dtype=dtype)


class Block(nn.Module):
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
        generator: torch.Generator | None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
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
        x: Float[Tensor, "*B T D"],
        *,
        memory: Float[Tensor, "*B S D"] | None = None,
        memory_mask: Bool[Tensor, "..."] | None = None,
        memory_cache: KeyValueCache | None = None,
        **own: Any,
    ) -> Float[Tensor, "*B T D"]:
        """Maps x (..., T, D) to (..., T, D).

        `own` are the inputs of self-attention: `positions`, `mask`, `bias` and
        `cache`.
        """
        other = {"memory": memory, "mask": memory_mask, "cache": memory_cache}
        if self.norm_placement == "pre":
            x = x + self.attention(self.norm_attention(x), **own)
            see(stream=x)
            if self.cross_attention is not None:
                normed = self.norm_cross_attention(x)
                x = x + self.cross_attention(normed, **other)
                see(stream=x)
            x = x + self.feedforward(self.norm_feedforward(x))
        else:
            x = self.norm_attention(x + self.attention(x, **own))
            see(stream=x)
            if self.cross_attention is not None:
                looked = self.cross_attention(x, **other)
                x = self.norm_cross_attention(x + looked)
                see(stream=x)
            x = self.norm_feedforward(x + self.feedforward(x))
        see(stream=x)
        return x
