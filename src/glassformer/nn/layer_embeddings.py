"""Embeddings of each layer in PyTorch; `scratch.layer_embeddings` explains them and the axes."""

import math
from typing import Any

import torch
from jaxtyping import Float, Integer
from torch import Tensor, nn

from glassformer import _checks as checks
from glassformer.config import ModelConfig
from glassformer.nn.block import Block
from glassformer.nn.embedding import TokenEmbedding
from glassformer.nn.feedforward import ACTIVATIONS
from glassformer.nn.linear import Linear
from glassformer.nn.norm import LayerNorm, RMSNorm, norm_of
from glassformer.trace import enter_sublayer, see


class LayerEmbeddings(nn.Module):
    """As `scratch.LayerEmbeddings`, in PyTorch."""

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        n_layers: int,
        d_layer: int,
        *,
        norm_eps: float = 1e-5,
        generator: torch.Generator | None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        checks.whole("n_layers", n_layers)
        checks.whole("d_layer", d_layer)
        self.n_layers, self.d_layer = n_layers, d_layer
        self.input_scale, self.table_scale = d_model**-0.5, d_layer**0.5
        init_kwargs = {"generator": generator, "dtype": dtype}
        n_out = n_layers * d_layer
        self.table = TokenEmbedding(vocab_size, n_out, **init_kwargs)
        self.W = Linear(d_model, n_out, bias=False, **init_kwargs)
        self.norm = RMSNorm(d_layer, eps=norm_eps, dtype=dtype)

    def forward(
        self,
        x: Float[Tensor, "*B T D"],
        ids: Integer[Tensor, "*B T"],
    ) -> Float[Tensor, "*B T n_layers Z"]:
        """Maps token vectors x (..., T, D) and their ids (..., T) to vectors (..., T, n_layers, Z)."""
        shape = self.n_layers, self.d_layer
        from_x = self.W(x).unflatten(-1, shape) * self.input_scale
        from_ids = self.table(ids).unflatten(-1, shape) * self.table_scale
        return (self.norm(from_x) + from_ids) * math.sqrt(0.5)


def layer_embeddings_of(
    config: ModelConfig,
    n_layers: int,
    *,
    generator: torch.Generator | None,
    dtype: torch.dtype = torch.float32,
) -> LayerEmbeddings | None:
    """Returns the embeddings of all layers that a configuration has, or None."""
    if (vectors := config.layer_embeddings) is None:
        return None
    return LayerEmbeddings(
        config.vocab_size,
        config.d_model,
        n_layers,
        vectors.d_layer,
        norm_eps=config.norm_eps,
        generator=generator,
        dtype=dtype,
    )


class LayerEmbedding(nn.Module):
    """As `scratch.LayerEmbedding`, in PyTorch."""

    def __init__(
        self,
        d_model: int,
        d_layer: int,
        *,
        activation: str = "gelu_tanh",
        norm: LayerNorm | RMSNorm,
        generator: torch.Generator | None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        checks.one_of("activation", activation, ACTIVATIONS)
        self.activate = ACTIVATIONS[activation]
        init_kwargs = {"generator": generator, "dtype": dtype}
        self.W_gate = Linear(d_model, d_layer, bias=False, **init_kwargs)
        self.W_down = Linear(d_layer, d_model, bias=False, **init_kwargs)
        self.norm_output = norm

    def forward(
        self,
        x: Float[Tensor, "*B T D"],
        vectors: Float[Tensor, "*B T Z"],
    ) -> Float[Tensor, "*B T D"]:
        """Maps x (..., T, D) and the layer's vectors (..., T, Z) to (..., T, D)."""
        enter_sublayer("layer embedding")
        opened = self.activate(self.W_gate(x))
        y = self.norm_output(self.W_down(opened * vectors))
        see(write=y)
        return y


class LongerBlock(Block):
    """As `scratch.LongerBlock`, in PyTorch."""

    def __init__(
        self,
        config: ModelConfig,
        index: int = 0,
        *,
        generator: torch.Generator | None,
        dtype: torch.dtype = torch.float32,
        **options: Any,
    ) -> None:
        init_kwargs = {"generator": generator, "dtype": dtype}
        super().__init__(config, index, **options, **init_kwargs)
        self.index, self.layer_embedding, self.scale = index, None, None
        if config.layer_embeddings is not None:
            self.layer_embedding = LayerEmbedding(
                config.d_model,
                **vars(config.layer_embeddings),
                norm=norm_of(config, dtype),
                **init_kwargs,
            )
        if config.layer(index).stream_scale is not None:
            self.scale = nn.Parameter(torch.ones(1, dtype=dtype))

    def forward(
        self,
        x: Float[Tensor, "*B T D"],
        *,
        layer_vectors: Any = None,
        **inputs: Any,
    ) -> Float[Tensor, "*B T D"]:
        """Maps x (..., T, D) to (..., T, D); `layer_vectors` (..., T, n_layers, Z) are those of all layers."""
        x = super().forward(x, **inputs)
        if self.layer_embedding is not None:
            vectors = layer_vectors[..., self.index, :]
            x = x + self.layer_embedding(x, vectors)
        if self.scale is not None:
            x = x * self.scale
        see(stream=x)
        return x
