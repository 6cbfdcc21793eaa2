"""The attention layer that a kind of layer has, built as its description says."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from glassformer.config import ModelConfig
from glassformer.layers import (
    CompressedAttention as CompressedAttentionDescription,
)
from glassformer.layers import Layer
from glassformer.scratch.compressed import CompressedAttention
from glassformer.scratch.encodings import rotation_of
from glassformer.scratch.indexer import Indexer
from glassformer.scratch.key_value_sharing import KeyValueSharing
from glassformer.scratch.latent import LatentAttention
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
) -> MultiHeadAttention | CompressedAttention:
    """Returns the attention of layer `index` to its own text or, if `crossing`, to an encoder's output."""
    layer = config.layer(index)
    parts = layer.attention
    init_kwargs = {"generator": generator, "dtype": dtype}
    kind, own = _usual_form(layer)
    if parts.form is not None:
        kind, own = _other_form(config, layer, init_kwargs)
    elif not crossing:
        own |= {"window": parts.window, "sinks": parts.sinks is not None}
        own["scores"] = score_layer_of(layer.scores)
        if parts.gate is not None:
            sizes = config.d_model, parts.n_heads, parts.d_head
            has_bias = {"bias": parts.bias != "none"}
            own["gate"] = OutputGate(
                *sizes, **vars(parts.gate), **has_bias, **init_kwargs
            )
        if parts.sharing is not None:
            kind = KeyValueSharing
            own |= {"kind": config.kind(index), **vars(parts.sharing)}
    if not crossing:
        own["position_encoding"] = rotation_of(parts.rotation)
        own["causal"] = causal
    return with_output(kind, config, layer, dtype)(
        config.d_model,
        parts.n_heads,
        d_head=parts.d_head,
        dropout=config.dropout,
        **own,
        **init_kwargs,
    )


def _usual_form(layer: Layer) -> tuple[type, dict[str, Any]]:
    """Returns the class of an attention with W_k and W_v, and the arguments that only it has."""
    parts = layer.attention
    return MultiHeadAttention, {
        "n_kv_heads": parts.n_kv_heads,
        "bias": parts.bias,
        "qk_norm": parts.qk_norm,
        "norm_eps": layer.norm.eps,
        "scale": parts.scale,
    }


def _other_form(
    config: ModelConfig, layer: Layer, init_kwargs: dict[str, Any]
) -> tuple[type, dict[str, Any]]:
    """Returns the class of an attention with other keys and values, and the arguments that only it has."""
    parts = layer.attention
    own = dict(vars(parts.form))
    index = own.pop("indexer")
    if isinstance(parts.form, CompressedAttentionDescription):
        own |= {"window": parts.window, "norm_eps": layer.norm.eps}
        if index is not None:
            own |= {"top_k": index.top_k, "index_heads": index.n_heads}
            own["d_index"] = index.d_head
        return CompressedAttention, own
    own["scale"] = parts.scale
    if index is not None:
        rotation = parts.rotation
        if rotation is not None:
            rotation = replace(
                rotation,
                d_head=index.d_head,
                share=rotation.d_head / index.d_head,
                layout=index.layout,
            )
        own["indexer"] = Indexer(
            own["d_query_latent"] or config.d_model,
            config.d_model,
            n_heads=index.n_heads,
            d_head=index.d_head,
            top_k=index.top_k,
            position_encoding=rotation_of(rotation),
            **init_kwargs,
        )
    return LatentAttention, own
