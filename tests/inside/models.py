"""Builds tiny decoders with every choice that might break an instrument, and ids for them to read."""

import numpy as np

from glassformer import scratch
from glassformer.checkpoints import model_of
from glassformer.config import ModelConfig

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
    "one block": GPT2.replace(n_layers=1, positions="none", feedforward="geglu", head="untied"),
}
POST, BENT = GPT2.replace(norm_placement="post"), GPT2.replace(head_transform=True, head_bias=True)
DECODERS = SUMS | {"post-norm": POST, "BERT's head": BENT}


def build(config, dtype=np.float64, seed=0):
    """Returns a model in evaluation mode whose vectors also differ from their initial values."""
    rng = np.random.default_rng(seed)
    model = scratch.Transformer(config, generator=rng, dtype=dtype)
    for name, weight in model.named_parameters().items():
        if weight.ndim == 1:
            weight += rng.normal(0, 0.3, weight.shape)
        elif "embedding" in name:
            weight *= 30
    return model.eval()


def in_torch(model):
    """Returns the same model in the other room."""
    return model_of(model.config, model.state_dict(), room="nn")


def some_ids(config, shape=(2, 7), seed=1):
    return np.random.default_rng(seed).integers(0, config.vocab_size, shape)
