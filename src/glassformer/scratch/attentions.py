"""The attention layer that a kind of layer has, built as its description says."""

import numpy as np
from numpy.typing import DTypeLike

from glassformer.config import ModelConfig
from glassformer.scratch.compressed import CompressedAttention
from glassformer.scratch.encodings import rotation_of
from glassformer.scratch.indexer import Indexer
from glassformer.scratch.key_value_sharing import KeyValueSharing
from glassformer.scratch.latent import LatentAttention
from glassformer.scratch.linear_attention import LinearAttention
from glassformer.scratch.mamba2 import Mamba2
from glassformer.scratch.multi_head import MultiHeadAttention
from glassformer.scratch.output_gate import OutputGate
from glassformer.scratch.output_norm import with_output
from glassformer.scratch.scores import score_layer_of

FORMS = {
    "LatentAttention": LatentAttention,
    "CompressedAttention": CompressedAttention,
    "LinearAttention": LinearAttention,
    "Mamba2": Mamba2,
}


def attention_of(
    config: ModelConfig,
    index: int,
    *,
    causal: bool = False,
    crossing: bool = False,
    generator: np.random.Generator | None,
    dtype: DTypeLike = np.float32,
) -> MultiHeadAttention | LinearAttention:
    """Returns the attention of layer `index` to its own text or, if `crossing`, to an encoder's output."""
    layer = config.layer(index)
    parts = layer.attention
    init_kwargs = {"generator": generator, "dtype": dtype}
    kind = FORMS.get(type(parts.form).__name__, MultiHeadAttention)
    own = parts.arguments(layer.norm.eps)
    if parts.has_state:
        return with_output(kind, config, layer, dtype)(
            config.d_model, dropout=config.dropout, **own, **init_kwargs
        )
    if (chooser := own.get("indexer")) is not None:
        turns = rotation_of(chooser.pop("rotation"))
        sizes = own["d_query_latent"] or config.d_model, config.d_model
        own["indexer"] = Indexer(
            *sizes, **chooser, position_encoding=turns, **init_kwargs
        )
    if parts.form is None and not crossing:
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
