"""The Transformer in PyTorch, one concept per file. `glassformer.scratch` is its NumPy twin, with the same names.

What a docstring calls "as `scratch.softmax`" is explained by `help(glassformer.scratch.softmax)`: what it computes,
its shapes, its source, and what it raises. The docstrings here add what differs.
"""

from glassformer._checks.extras import torch as _  # noqa: F401 - or say how to install it
from glassformer.nn import attention, positions
from glassformer.nn.attention import (
    causal_mask,
    merge_heads,
    repeat_heads,
    scaled_dot_product_attention,
    softmax,
    split_heads,
    window_mask,
)
from glassformer.nn.block import Block
from glassformer.nn.cache import (
    BorrowedCache,
    KeyValueCache,
    ModelCache,
    WindowCache,
)
from glassformer.nn.compressed import (
    BlockCache,
    BlockIndexer,
    CompressedAttention,
    CompressedCache,
    Compressor,
    GroupedLinear,
)
from glassformer.nn.embedding import TokenEmbedding
from glassformer.nn.experts import Expert, Experts, Router
from glassformer.nn.feedforward import (
    FeedForward,
    NoFeedForward,
    XIeLU,
    gelu,
    gelu_tanh,
    relu,
    relu2,
    sigmoid,
    silu,
)
from glassformer.nn.head import Pooler, Unembedding
from glassformer.nn.hyper_connections import (
    HyperConnection,
    StreamNumbers,
    Streams,
    StreamsBlock,
    sinkhorn,
)
from glassformer.nn.indexer import Indexer
from glassformer.nn.key_value_sharing import KeyValueSharing
from glassformer.nn.latent import LatentAttention
from glassformer.nn.layer_embeddings import (
    LayerEmbedding,
    LayerEmbeddings,
    LongerBlock,
)
from glassformer.nn.linear import Linear
from glassformer.nn.linear_attention import LinearAttention
from glassformer.nn.loss import cross_entropy
from glassformer.nn.mamba2 import Mamba2
from glassformer.nn.model import Stack, Transformer
from glassformer.nn.multi_head import MultiHeadAttention
from glassformer.nn.norm import LayerNorm, NoNorm, RMSNorm, SigmaNorm
from glassformer.nn.output_gate import OutputGate
from glassformer.nn.output_norm import OutputNorm
from glassformer.nn.pieces import (
    attention_in_pieces,
    merge,
)
from glassformer.nn.position_scale import PositionScale
from glassformer.nn.positions import (
    LearnedPositions,
    NoPositions,
    SinusoidalPositions,
    frequencies,
    sinusoidal,
)
from glassformer.nn.recurrence import recurrent_chunks, recurrent_steps
from glassformer.nn.relative import (
    AlibiPositions,
    T5Positions,
    alibi_slopes,
    relative_positions,
    t5_bucket,
)
from glassformer.nn.rotary import (
    RotaryPositions,
    rotate,
    rotation_angles,
    stretch,
)
from glassformer.nn.short_convolution import ShortConvolution
from glassformer.nn.sinks import softmax_with_sinks
from glassformer.nn.soft_cap import SoftCap
from glassformer.nn.state_cache import StateCache

# Readers' own files may import these from where they were before
vars(attention).update(MultiHeadAttention=MultiHeadAttention)
vars(positions).update(
    AlibiPositions=AlibiPositions,
    RotaryPositions=RotaryPositions,
    T5Positions=T5Positions,
    alibi_slopes=alibi_slopes,
    relative_positions=relative_positions,
    rotate=rotate,
    rotation_angles=rotation_angles,
    stretch=stretch,
    t5_bucket=t5_bucket,
)

__all__ = [
    "AlibiPositions",
    "Block",
    "BlockCache",
    "BlockIndexer",
    "BorrowedCache",
    "CompressedAttention",
    "CompressedCache",
    "Compressor",
    "Expert",
    "Experts",
    "FeedForward",
    "GroupedLinear",
    "HyperConnection",
    "Indexer",
    "KeyValueCache",
    "KeyValueSharing",
    "LatentAttention",
    "LayerEmbedding",
    "LayerEmbeddings",
    "LayerNorm",
    "LearnedPositions",
    "Linear",
    "LinearAttention",
    "LongerBlock",
    "Mamba2",
    "ModelCache",
    "MultiHeadAttention",
    "NoFeedForward",
    "NoNorm",
    "NoPositions",
    "OutputGate",
    "OutputNorm",
    "Pooler",
    "PositionScale",
    "RMSNorm",
    "RotaryPositions",
    "Router",
    "ShortConvolution",
    "SigmaNorm",
    "SinusoidalPositions",
    "SoftCap",
    "Stack",
    "StateCache",
    "StreamNumbers",
    "Streams",
    "StreamsBlock",
    "T5Positions",
    "TokenEmbedding",
    "Transformer",
    "Unembedding",
    "WindowCache",
    "XIeLU",
    "alibi_slopes",
    "attention_in_pieces",
    "causal_mask",
    "cross_entropy",
    "frequencies",
    "gelu",
    "gelu_tanh",
    "merge",
    "merge_heads",
    "recurrent_chunks",
    "recurrent_steps",
    "relative_positions",
    "relu",
    "relu2",
    "repeat_heads",
    "rotate",
    "rotation_angles",
    "scaled_dot_product_attention",
    "sigmoid",
    "silu",
    "sinkhorn",
    "sinusoidal",
    "softmax",
    "softmax_with_sinks",
    "split_heads",
    "stretch",
    "t5_bucket",
    "window_mask",
]
