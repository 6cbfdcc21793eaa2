"""The Transformer block: attention, then feed-forward, each added to the stream that runs through.

The axes: B batch, T positions, D d_model, S positions of the encoder's output.
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Integer
from torch import Tensor, nn

from glassformer.config import ModelConfig
from glassformer.nn.attention import MultiHeadAttention
from glassformer.nn.cache import KeyValueCache
from glassformer.nn.feedforward import FeedForward
from glassformer.nn.norm import LayerNorm, RMSNorm, SigmaNorm
from glassformer.nn.positions import NoPositions, RotaryPositions
from glassformer.trace import enter_sublayer, see

NORMS = {"layernorm": LayerNorm, "layernorm_sigma": SigmaNorm, "rmsnorm": RMSNorm}


def norm_of(config: ModelConfig, dtype: torch.dtype) -> LayerNorm | RMSNorm:
    """The norm that a configuration names, for vectors of its width."""
    return NORMS[config.norm](config.d_model, eps=config.norm_eps, dtype=dtype)


class Block(nn.Module):
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
        generator: torch.Generator | None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
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
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self,
        x: Float[Tensor, "*B T D"],
        *,
        memory: Float[Tensor, "*B S D"] | None = None,
        positions: Integer[Tensor, "..."] | None = None,
        mask: Bool[Tensor, "..."] | None = None,
        bias: Float[Tensor, "..."] | None = None,
        memory_mask: Bool[Tensor, "..."] | None = None,
        cache: KeyValueCache | None = None,
        memory_cache: KeyValueCache | None = None,
    ) -> Float[Tensor, "*B T D"]:
        """Maps x (..., T, D) to (..., T, D); `positions`, masks, `bias` and caches are attention's."""
        x = self._add(
            "attention",
            lambda x: self.attention(x, positions=positions, mask=mask, bias=bias, cache=cache),
            self.norm_attention,
            x,
        )
        if self.cross_attention is not None:
            x = self._add(
                "cross-attention",
                lambda x: self.cross_attention(x, memory=memory, mask=memory_mask, cache=memory_cache),
                self.norm_cross_attention,
                x,
            )
        return self._add("feed-forward", self.feedforward, self.norm_feedforward, x)

    def _add(
        self, name: str, sublayer: Callable, norm: LayerNorm | RMSNorm, x: Float[Tensor, "*B T D"]
    ) -> Float[Tensor, "*B T D"]:
        """One sublayer with its norm and its residual connection."""
        enter_sublayer(name)
        if self.norm_placement == "pre":
            y = self.dropout(sublayer(norm(x)))
            x = x + y
        else:
            y = self.dropout(sublayer(x))
            x = norm(x + y)
        see(write=y, stream=x)
        return x


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
