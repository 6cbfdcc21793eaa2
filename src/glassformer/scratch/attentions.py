"""The attention layer that a kind of layer has, built as its description says."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from glassformer.config import ModelConfig
from glassformer.scratch.encodings import rotation_of
from glassformer.scratch.key_value_sharing import KeyValueSharing
from glassformer.scratch.multi_head import MultiHeadAttention
from glassformer.scratch.output_gate import OutputGate
from glassformer.scratch.output_norm import with_output
from glassformer.scratch.scores import score_layer_of


def attention_of(
    config: ModelConfig,
    index: int,
    *,
    causal: bool = False,
    crossing: bool = False,
    generator: np.random.Generator | None,
    dtype: DTypeLike = np.float32,
) -> MultiHeadAttention:
    """Returns the attention of layer `index` to its own text or, if `crossing`, to an encoder's output."""
    layer = config.layer(index)
    parts = layer.attention
    init_kwargs = {"generator": generator, "dtype": dtype}
    kind: type[MultiHeadAttention] = MultiHeadAttention
    options: dict[str, Any] = {}
    if not crossing:
        options = {
            "position_encoding": rotation_of(parts.rotation),
            "causal": causal,
            "window": parts.window,
            "scores": score_layer_of(layer.scores),
            "sinks": parts.sinks is not None,
        }
        if parts.gate is not None:
            options["gate"] = OutputGate(
                config.d_model,
                parts.n_heads,
                parts.d_head,
                **vars(parts.gate),
                bias=parts.bias != "none",
                **init_kwargs,
            )
        if parts.sharing is not None:
            kind = KeyValueSharing
            options |= {"kind": config.kind(index), **vars(parts.sharing)}
    return with_output(kind, config, layer, dtype)(
        config.d_model,
        parts.n_heads,
        n_kv_heads=parts.n_kv_heads,
        d_head=parts.d_head,
        bias=parts.bias,
        qk_norm=parts.qk_norm,
        norm_eps=layer.norm.eps,
        scale=parts.scale,
        dropout=config.dropout,
        **options,
        **init_kwargs,
    )
