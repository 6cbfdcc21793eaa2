"""The Transformer in PyTorch, one concept per file. `glassformer.scratch` is its NumPy twin, with the same names."""

from glassformer.nn.attention import (
    MultiHeadAttention,
    causal_mask,
    merge_heads,
    repeat_heads,
    scaled_dot_product_attention,
    softmax,
    split_heads,
    window_mask,
)
from glassformer.nn.block import Block
from glassformer.nn.cache import KeyValueCache, ModelCache
from glassformer.nn.embedding import TokenEmbedding
from glassformer.nn.feedforward import (
    FeedForward,
    gelu,
    gelu_tanh,
    relu,
    sigmoid,
    silu,
)
from glassformer.nn.head import Pooler, Unembedding
from glassformer.nn.linear import Linear
from glassformer.nn.loss import cross_entropy
from glassformer.nn.model import Stack, Transformer
from glassformer.nn.norm import LayerNorm, RMSNorm, SigmaNorm
from glassformer.nn.positions import (
    AlibiPositions,
    LearnedPositions,
    NoPositions,
    RotaryPositions,
    SinusoidalPositions,
    T5Positions,
    alibi_slopes,
    frequencies,
    relative_positions,
    rotate,
    rotation_angles,
    sinusoidal,
    stretch,
    t5_bucket,
)

__all__ = [
    "AlibiPositions",
    "Block",
    "FeedForward",
    "KeyValueCache",
    "LayerNorm",
    "LearnedPositions",
    "Linear",
    "ModelCache",
    "MultiHeadAttention",
    "NoPositions",
    "Pooler",
    "RMSNorm",
    "RotaryPositions",
    "SigmaNorm",
    "SinusoidalPositions",
    "Stack",
    "T5Positions",
    "TokenEmbedding",
    "Transformer",
    "Unembedding",
    "alibi_slopes",
    "causal_mask",
    "cross_entropy",
    "frequencies",
    "gelu",
    "gelu_tanh",
    "merge_heads",
    "relative_positions",
    "relu",
    "repeat_heads",
    "rotate",
    "rotation_angles",
    "scaled_dot_product_attention",
    "sigmoid",
    "silu",
    "sinusoidal",
    "softmax",
    "split_heads",
    "stretch",
    "t5_bucket",
    "window_mask",
]
