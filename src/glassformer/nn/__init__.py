"""The Transformer in PyTorch, one concept a file. `glassformer.scratch` is its NumPy twin, name for name."""

from glassformer.nn.attention import (
    MultiHeadAttention,
    causal_mask,
    merge_heads,
    scaled_dot_product_attention,
    softmax,
    split_heads,
)
from glassformer.nn.embedding import TokenEmbedding
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
    t5_bucket,
)

__all__ = [
    "AlibiPositions",
    "LearnedPositions",
    "MultiHeadAttention",
    "NoPositions",
    "RotaryPositions",
    "SinusoidalPositions",
    "T5Positions",
    "TokenEmbedding",
    "alibi_slopes",
    "causal_mask",
    "frequencies",
    "merge_heads",
    "relative_positions",
    "rotate",
    "rotation_angles",
    "scaled_dot_product_attention",
    "sinusoidal",
    "softmax",
    "split_heads",
    "t5_bucket",
]
