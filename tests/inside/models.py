"""Builds tiny decoders with every choice that might break an instrument, and ids for them to read."""

import numpy as np

from glassformer import scratch
from glassformer.checkpoints import model_of
from glassformer.config import ModelConfig
from glassformer.layers import (
    CompressedAttention,
    Experts,
    Indexer,
    KeyValueSharing,
    LatentAttention,
    LayerEmbeddings,
    OutputGate,
    Sinks,
    Streams,
    StreamScale,
)

GPT2 = ModelConfig(vocab_size=11, context_length=12, d_model=8, n_layers=2, n_heads=2)
MODERN = GPT2.replace(
    n_heads=4,
    n_kv_heads=2,
    d_head=6,
    d_ff=10,
    positions="rope",
    norm="rmsnorm",
    feedforward="swiglu",
    feedforward_bias=False,
    attention_bias="none",
    qk_norm=True,
    embedding_norm=True,
    head="untied",
)
# Their stream is a sum, and their head is linear.
SUMS = {
    "GPT-2": GPT2,
    "modern": MODERN,
    "ALiBi, one head of keys": GPT2.replace(n_heads=4, n_kv_heads=1, positions="alibi", embedding_norm=True),
    "T5's": GPT2.replace(
        positions="t5", norm="rmsnorm", feedforward="relu", attention_bias="qkv", head_scale=0.4
    ),
    "σ + ε": GPT2.replace(norm="layernorm_sigma", head="untied", head_bias=True, head_scale=0.4),
    "scaled": GPT2.replace(
        positions="sinusoidal", embedding_scale=8**0.5, attention_scale=0.7, head="untied"
    ),
    "a window, and positions stretched": MODERN.replace(
        sliding_window=3, rope_scaling="yarn", rope_interpolation=4.0, rope_original_context=6
    ),
    "latents, and some of them chosen": MODERN.replace(
        n_kv_heads=4,
        qk_norm=False,
        kinds={
            "all": {
                "form": LatentAttention(
                    d_latent=5,
                    d_rotated=2,
                    d_value=3,
                    d_query_latent=7,
                    indexer=Indexer(n_heads=16, d_head=4, top_k=3),
                )
            }
        },
    ),
    "sinks, and borrowed keys": MODERN.replace(
        rope_share=2 / 3,
        kinds={
            "lender": {"sharing": KeyValueSharing(values="keys", norm_values=True)},
            "borrower": {"sharing": KeyValueSharing(borrows="lender"), "sinks": Sinks()},
        },
        order="lender borrower",
    ),
    "one block": GPT2.replace(n_layers=1, positions="none", feedforward="geglu", head="untied"),
}
POST, BENT = GPT2.replace(norm_placement="post"), GPT2.replace(head_transform=True, head_bias=True)
GATED = MODERN.replace(kinds={"all": {"gate": OutputGate(per="head")}})
COMPRESSED = MODERN.replace(
    n_kv_heads=4,
    qk_norm=False,
    sliding_window=3,
    kinds={
        "all": {
            "form": CompressedAttention(
                d_rotated=2,
                d_query_latent=7,
                n_groups=2,
                d_group=5,
                compress=2,
                overlapping=True,
                indexer=Indexer(n_heads=16, d_head=4, top_k=1),
            )
        }
    },
)
STREAMS = MODERN.replace(streams=Streams(n_streams=3))
VECTORS = GPT2.replace(layer_embeddings=LayerEmbeddings(d_layer=3))
SCALED = GPT2.replace(kinds={"all": {"stream_scale": StreamScale()}})
EXPERTS = MODERN.replace(
    kinds={
        "dense": {},
        "sparse": {"d_ff": 5, "experts": Experts(n_experts=4, top_k=2, d_shared=3, shared_gate=True)},
    },
    order="dense sparse",
)
DECODERS = SUMS | {
    "post-norm": POST,
    "BERT's head": BENT,
    "gated": GATED,
    "compressed": COMPRESSED,
    "several streams": STREAMS,
    "vectors of each layer": VECTORS,
    "scaled at the end": SCALED,
    "experts": EXPERTS,
}


def build(config, dtype=np.float64, seed=0):
    """Returns a model in evaluation mode whose vectors also differ from their initial values."""
    rng = np.random.default_rng(seed)
    model = scratch.Transformer(config, generator=rng, dtype=dtype)
    for name, weight in model.named_parameters().items():
        if weight.ndim == 1:
            weight += rng.normal(0, 0.3, weight.shape)
        elif "embedding" in name and ".W" not in name:
            weight *= 30
    return model.eval()


def in_torch(model):
    """Returns the same model in the other room."""
    return model_of(model.config, model.state_dict(), room="nn")


def some_ids(config, shape=(2, 7), seed=1):
    return np.random.default_rng(seed).integers(0, config.vocab_size, shape)
