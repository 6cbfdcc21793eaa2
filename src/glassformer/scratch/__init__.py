"""The Transformer in NumPy, one concept a file. `glassformer.nn` is its PyTorch twin, name for name."""

from glassformer.scratch.attention import (
    MultiHeadAttention,
    causal_mask,
    merge_heads,
    scaled_dot_product_attention,
    softmax,
    split_heads,
)
from glassformer.scratch.embedding import TokenEmbedding
from glassformer.scratch.positions import (
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
