"""The Transformer in NumPy, one concept per file. `glassformer.nn` is its PyTorch twin, with the same names.

These exist only here, because PyTorch has its own: `Layer` (in PyTorch,
nn.Module), every backward pass (autograd), `Dropout`, `AdamW`, `Muon` and
`clip_gradients`. `in_numpy` copies a model of `nn` to this room.
"""

from glassformer.scratch import attention, positions
from glassformer.scratch.attention import (
    causal_mask,
    merge_heads,
    repeat_heads,
    scaled_dot_product_attention,
    scaled_dot_product_attention_backward,
    softmax,
    softmax_backward,
    split_heads,
    window_mask,
)
from glassformer.scratch.block import Block
from glassformer.scratch.cache import (
    BorrowedCache,
    KeyValueCache,
    ModelCache,
    WindowCache,
)
from glassformer.scratch.compressed import (
    BlockCache,
    BlockIndexer,
    CompressedAttention,
    CompressedCache,
    Compressor,
    GroupedLinear,
)
from glassformer.scratch.dropout import Dropout
from glassformer.scratch.embedding import TokenEmbedding
from glassformer.scratch.experts import Expert, Experts, Router
from glassformer.scratch.feedforward import (
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
from glassformer.scratch.head import Pooler, Unembedding
from glassformer.scratch.hyper_connections import (
    HyperConnection,
    StreamNumbers,
    Streams,
    StreamsBlock,
    sinkhorn,
    sinkhorn_backward,
)
from glassformer.scratch.indexer import Indexer
from glassformer.scratch.key_value_sharing import KeyValueSharing
from glassformer.scratch.latent import LatentAttention
from glassformer.scratch.layer import Layer
from glassformer.scratch.layer_embeddings import (
    LayerEmbedding,
    LayerEmbeddings,
    LongerBlock,
)
from glassformer.scratch.linear import Linear
from glassformer.scratch.linear_attention import LinearAttention
from glassformer.scratch.loss import cross_entropy, cross_entropy_backward
from glassformer.scratch.mamba2 import Mamba2
from glassformer.scratch.model import Stack, Transformer
from glassformer.scratch.multi_head import MultiHeadAttention
from glassformer.scratch.norm import LayerNorm, NoNorm, RMSNorm, SigmaNorm
from glassformer.scratch.optimizer import (
    AdamW,
    Muon,
    clip_gradients,
    orthogonalized,
)
from glassformer.scratch.output_gate import OutputGate
from glassformer.scratch.output_norm import OutputNorm
from glassformer.scratch.pieces import (
    attention_in_pieces,
    attention_in_pieces_backward,
    merge,
)
from glassformer.scratch.position_scale import PositionScale
from glassformer.scratch.positions import (
    LearnedPositions,
    NoPositions,
    SinusoidalPositions,
    frequencies,
    sinusoidal,
)
from glassformer.scratch.recurrence import (
    recurrent_chunks,
    recurrent_chunks_backward,
    recurrent_steps,
)
from glassformer.scratch.relative import (
    AlibiPositions,
    T5Positions,
    alibi_slopes,
    relative_positions,
    t5_bucket,
)
from glassformer.scratch.rotary import (
    RotaryPositions,
    rotate,
    rotation_angles,
    stretch,
)
from glassformer.scratch.short_convolution import ShortConvolution
from glassformer.scratch.sinks import softmax_with_sinks
from glassformer.scratch.soft_cap import SoftCap
from glassformer.scratch.state_cache import StateCache
from glassformer.scratch.twin import in_numpy

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
    "AdamW",
    "AlibiPositions",
    "Block",
    "BlockCache",
    "BlockIndexer",
    "BorrowedCache",
    "CompressedAttention",
    "CompressedCache",
    "Compressor",
    "Dropout",
    "Expert",
    "Experts",
    "FeedForward",
    "GroupedLinear",
    "HyperConnection",
    "Indexer",
    "KeyValueCache",
    "KeyValueSharing",
    "LatentAttention",
    "Layer",
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
    "Muon",
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
    "attention_in_pieces_backward",
    "causal_mask",
    "clip_gradients",
    "cross_entropy",
    "cross_entropy_backward",
    "frequencies",
    "gelu",
    "gelu_tanh",
    "in_numpy",
    "merge",
    "merge_heads",
    "orthogonalized",
    "recurrent_chunks",
    "recurrent_chunks_backward",
    "recurrent_steps",
    "relative_positions",
    "relu",
    "relu2",
    "repeat_heads",
    "rotate",
    "rotation_angles",
    "scaled_dot_product_attention",
    "scaled_dot_product_attention_backward",
    "sigmoid",
    "silu",
    "sinkhorn",
    "sinkhorn_backward",
    "sinusoidal",
    "softmax",
    "softmax_backward",
    "softmax_with_sinks",
    "split_heads",
    "stretch",
    "t5_bucket",
    "window_mask",
]
