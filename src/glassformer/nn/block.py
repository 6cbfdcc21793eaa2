"""The Transformer block in PyTorch; `scratch.block` explains it and the axes."""

from typing import Any

import torch
from jaxtyping import Bool, Float, Integer
from torch import Tensor, nn

from glassformer.config import ModelConfig
from glassformer.nn.cache import KeyValueCache
from glassformer.nn.encodings import rotation_of
from glassformer.nn.feedforward import FeedForward
from glassformer.nn.multi_head import MultiHeadAttention
from glassformer.nn.norm import LayerNorm, NoNorm, RMSNorm, norm_of
from glassformer.nn.output_norm import with_output
from glassformer.nn.positions import NoPositions
from glassformer.nn.scores import score_layer_of
from glassformer.trace import see


class Block(nn.Module):
    """As `scratch.Block`, in PyTorch."""

    def __init__(
        self,
        config: ModelConfig,
        index: int = 0,
        *,
        causal: bool,
        crossing: bool = False,
        generator: torch.Generator | None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        layer = config.layer(index)
        parts, network = layer.attention, layer.feedforward
        placement = layer.residual.placement
        self.norm_placement = "post" if placement == "post" else "pre"
        init_kwargs = {
            "dropout": config.dropout,
            "generator": generator,
            "dtype": dtype,
        }

        def attention(
            position_encoding: NoPositions, **options: Any
        ) -> MultiHeadAttention:
            return with_output(MultiHeadAttention, config, layer, dtype)(
                config.d_model,
                parts.n_heads,
                n_kv_heads=parts.n_kv_heads,
                d_head=parts.d_head,
                position_encoding=position_encoding,
                bias=parts.bias,
                qk_norm=parts.qk_norm,
                norm_eps=layer.norm.eps,
                scale=parts.scale,
                **options,
                **init_kwargs,
            )

        def norm() -> LayerNorm | RMSNorm | NoNorm:
            """The norm before a sublayer or, for post-norm, after the sum."""
            if placement == "output":
                return NoNorm()
            return norm_of(config, dtype)

        self.norm_attention = norm()
        self.attention = attention(
            rotation_of(parts.rotation),
            causal=causal,
            window=parts.window,
            scores=score_layer_of(layer.scores),
        )
        self.norm_cross_attention = norm() if crossing else None
        self.cross_attention = attention(NoPositions()) if crossing else None
        self.norm_feedforward = norm()
        self.feedforward = with_output(FeedForward, config, layer, dtype)(
            config.d_model,
            network.d_ff,
            activation=network.activation,
            bias=network.bias,
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
        given = {
            "position_ids": position_ids,
            "mask": mask,
            "score_bias": score_bias,
            "cache": cache,
        }
        given_across = {
            "memory": memory,
            "mask": memory_mask,
            "cache": memory_cache,
        }
        if self.norm_placement == "pre":
            x = x + self.attention(self.norm_attention(x), **given)
            see(stream=x)
            if self.cross_attention is not None:
                normed = self.norm_cross_attention(x)
                x = x + self.cross_attention(normed, **given_across)
                see(stream=x)
            x = x + self.feedforward(self.norm_feedforward(x))
        else:
            x = self.norm_attention(x + self.attention(x, **given))
            see(stream=x)
            if self.cross_attention is not None:
                x = self.norm_cross_attention(
                    x + self.cross_attention(x, **given_across)
                )
                see(stream=x)
            x = self.norm_feedforward(x + self.feedforward(x))
        see(stream=x)
        return x
