"""The Transformer block in PyTorch; `scratch.block` explains it and the axes."""

import torch
from jaxtyping import Bool, Float, Integer
from torch import Tensor, nn

from glassformer.config import ModelConfig
from glassformer.nn.cache import KeyValueCache
from glassformer.nn.encodings import position_encoding_of
from glassformer.nn.feedforward import FeedForward
from glassformer.nn.multi_head import MultiHeadAttention
from glassformer.nn.norm import LayerNorm, RMSNorm, SigmaNorm
from glassformer.nn.positions import NoPositions
from glassformer.trace import see

NORMS = {"layernorm": LayerNorm, "layernorm_sigma": SigmaNorm, "rmsnorm": RMSNorm}


def norm_of(config: ModelConfig, dtype: torch.dtype) -> LayerNorm | RMSNorm:
    """Returns the norm that a configuration names, for vectors of its width."""
    return NORMS[config.norm](config.d_model, eps=config.norm_eps, dtype=dtype)


class Block(nn.Module):
    """As `scratch.Block`, in PyTorch."""

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
        x: Float[Tensor, "*B T D"],
        *,
        position_ids: Integer[Tensor, "..."] | None = None,
        mask: Bool[Tensor, "..."] | None = None,
        score_bias: Float[Tensor, "..."] | None = None,
        cache: KeyValueCache | None = None,
        memory: Float[Tensor, "*B S D"] | None = None,
        memory_mask: Bool[Tensor, "..."] | None = None,
        memory_cache: KeyValueCache | None = None,
    ) -> Float[Tensor, "*B T D"]:
        """As `scratch.Block.forward`."""

        def attend(x: Float[Tensor, "*B T D"]) -> Float[Tensor, "*B T D"]:
            return self.attention(
                x,
                position_ids=position_ids,
                mask=mask,
                score_bias=score_bias,
                cache=cache,
            )

        def cross_attend(x: Float[Tensor, "*B T D"]) -> Float[Tensor, "*B T D"]:
            return self.cross_attention(
                x,
                memory=memory,
                mask=memory_mask,
                cache=memory_cache,
            )

        if self.norm_placement == "pre":
            x = x + attend(self.norm_attention(x))
            see(stream=x)
            if self.cross_attention is not None:
                x = x + cross_attend(self.norm_cross_attention(x))
                see(stream=x)
            x = x + self.feedforward(self.norm_feedforward(x))
        else:
            x = self.norm_attention(x + attend(x))
            see(stream=x)
            if self.cross_attention is not None:
                x = self.norm_cross_attention(x + cross_attend(x))
                see(stream=x)
            x = self.norm_feedforward(x + self.feedforward(x))
        see(stream=x)
        return x
