"""The Transformer block in PyTorch; `scratch.block` explains it and the axes."""

from typing import Any

import torch
from jaxtyping import Bool, Float, Integer
from torch import Tensor, nn

from glassformer.config import ModelConfig
from glassformer.nn.attentions import attention_of
from glassformer.nn.cache import KeyValueCache
from glassformer.nn.experts import Experts
from glassformer.nn.feedforward import FeedForward, NoFeedForward
from glassformer.nn.multi_head import Shared
from glassformer.nn.norm import LayerNorm, NoNorm, RMSNorm, norm_of
from glassformer.nn.output_norm import with_output
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
        network = layer.feedforward
        placement = layer.residual.placement
        self.norm_placement = "post" if placement == "post" else "pre"
        self.parallel = placement == "parallel"
        init_kwargs = {"generator": generator, "dtype": dtype}

        def norm() -> LayerNorm | RMSNorm | NoNorm:
            """The norm before a sublayer or, for post-norm, after the sum."""
            if placement == "output":
                return NoNorm()
            return norm_of(config, dtype)

        self.norm_attention = norm()
        self.attention = attention_of(config, index, causal=causal, **init_kwargs)
        self.norm_cross_attention = self.cross_attention = None
        if crossing:
            self.norm_cross_attention = norm()
            self.cross_attention = attention_of(
                config, index, crossing=True, **init_kwargs
            )
        self.norm_feedforward: Any = NoNorm()
        self.feedforward: Any = NoFeedForward()
        self.reads_ids = False
        if network.activation == "none":
            return
        kind, own = FeedForward, {}
        if network.experts is not None:
            given = config.vocab_size, layer.norm.eps
            kind, own = Experts, network.experts.arguments(*given)
        if not self.parallel and not own.get("own_norms"):
            self.norm_feedforward = norm()
        self.reads_ids = own.get("vocab_size") is not None
        self.feedforward = with_output(kind, config, layer, dtype)(
            config.d_model,
            network.d_ff,
            activation=network.activation,
            bias=network.bias,
            dropout=config.dropout,
            **own,
            **init_kwargs,
        )

    def forward(
        self,
        x: Float[Tensor, "*B T D"],
        *,
        ids: Integer[Tensor, "*B T"] | None = None,
        position_ids: Integer[Tensor, "..."] | None = None,
        mask: Bool[Tensor, "..."] | None = None,
        score_bias: Float[Tensor, "..."] | None = None,
        cache: KeyValueCache | None = None,
        shared: Shared | None = None,
        memory: Float[Tensor, "*B S D"] | None = None,
        memory_mask: Bool[Tensor, "..."] | None = None,
        memory_cache: KeyValueCache | None = None,
    ) -> Float[Tensor, "*B T D"]:
        """As `scratch.Block.forward`."""
        given: dict[str, Any] = {
            "position_ids": position_ids,
            "mask": mask,
            "score_bias": score_bias,
            "cache": cache,
        }
        if shared is not None:
            given["shared"] = shared
        given_across = {
            "memory": memory,
            "mask": memory_mask,
            "cache": memory_cache,
        }
        given_too = {"ids": ids} if self.reads_ids else {}
        if self.norm_placement == "pre":
            normed = self.norm_attention(x)
            x = x + self.attention(normed, **given)
            see(stream=x)
            if self.cross_attention is not None:
                across = self.norm_cross_attention(x)
                x = x + self.cross_attention(across, **given_across)
                see(stream=x)
            if not self.parallel:
                normed = self.norm_feedforward(x)
            x = x + self.feedforward(normed, **given_too)
        else:
            x = self.norm_attention(x + self.attention(x, **given))
            see(stream=x)
            if self.cross_attention is not None:
                x = self.norm_cross_attention(
                    x + self.cross_attention(x, **given_across)
                )
                see(stream=x)
            x = self.norm_feedforward(x + self.feedforward(x, **given_too))
        see(stream=x)
        return x
