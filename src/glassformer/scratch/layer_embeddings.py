"""Embeddings of each layer: a vector for each token and layer, which the layer's last sublayer lets through a gate.

The axes: B batch, T positions, D d_model, Z d_layer, V vocabulary.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from glassformer import _checks as checks
from glassformer.config import ModelConfig
from glassformer.scratch.block import Block
from glassformer.scratch.embedding import TokenEmbedding
from glassformer.scratch.feedforward import ACTIVATIONS, SLOPES
from glassformer.scratch.layer import Layer, Saved, save_for_backward
from glassformer.scratch.linear import Linear
from glassformer.scratch.norm import LayerNorm, RMSNorm, norm_of
from glassformer.shapes import Float, Integer
from glassformer.trace import enter_sublayer, see


class LayerEmbeddings(Layer):
    """Makes the vectors of all layers at once: (norm(x @ W / √D) + √Z · table[ids]) / √2, with x the token vectors.

    The table has a row for each token, with the Z numbers of each layer one after
    the other. √Z multiplies it as √D multiplies token vectors. If both halves have
    the same size, 1/√2 gives that size to their sum, as long as they are unrelated.

    Source: Gemma 3n, and in this form Gemma 4. Derived in chapter 18.

    Raises:
        ValueError: a size is below 1, or an id is outside 0..V-1.
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        n_layers: int,
        d_layer: int,
        *,
        norm_eps: float = 1e-5,
        generator: np.random.Generator | None,
        dtype: DTypeLike = np.float32,
    ) -> None:
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
        x: Float[np.ndarray, "*B T D"],
        ids: Integer[np.ndarray, "*B T"],
        saved: Saved | None = None,
    ) -> Float[np.ndarray, "*B T n_layers Z"]:
        """Maps token vectors x (..., T, D) and their ids (..., T) to vectors (..., T, n_layers, Z)."""
        shape = *x.shape[:-1], self.n_layers, self.d_layer
        from_x = self.W(x, saved).reshape(shape) * self.input_scale
        from_x = self.norm(from_x, saved)
        from_ids = self.table(ids, saved).reshape(shape) * self.table_scale
        return (from_x + from_ids) * math.sqrt(0.5)

    def backward(
        self, grad: Float[np.ndarray, "*B T n_layers Z"], saved: Saved
    ) -> Float[np.ndarray, "*B T D"]:
        """Maps the gradient of the vectors to that of x."""
        grad = grad * math.sqrt(0.5)
        flat = *grad.shape[:-2], self.n_layers * self.d_layer
        self.table.backward((grad * self.table_scale).reshape(flat), saved)
        grad = self.norm.backward(grad, saved) * self.input_scale
        return self.W.backward(grad.reshape(flat), saved)


def layer_embeddings_of(
    config: ModelConfig,
    n_layers: int,
    *,
    generator: np.random.Generator | None,
    dtype: DTypeLike = np.float32,
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


class LayerEmbedding(Layer):
    """The sublayer that reads a layer's vectors v: norm((activate(x @ W_gate) · v) @ W_down).

    The stream decides which numbers of the vector get through.

    Source: Gemma 3n. Derived in chapter 18.
    """

    def __init__(
        self,
        d_model: int,
        d_layer: int,
        *,
        activation: str = "gelu_tanh",
        norm: LayerNorm | RMSNorm,
        generator: np.random.Generator | None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        checks.one_of("activation", activation, ACTIVATIONS)
        self.activate = ACTIVATIONS[activation]
        self.slope = SLOPES[self.activate]
        init_kwargs = {"generator": generator, "dtype": dtype}
        self.W_gate = Linear(d_model, d_layer, bias=False, **init_kwargs)
        self.W_down = Linear(d_layer, d_model, bias=False, **init_kwargs)
        self.norm_output = norm

    def forward(
        self,
        x: Float[np.ndarray, "*B T D"],
        vectors: Float[np.ndarray, "*B T Z"],
        saved: Saved | None = None,
    ) -> Float[np.ndarray, "*B T D"]:
        """Maps x (..., T, D) and the layer's vectors (..., T, Z) to (..., T, D)."""
        enter_sublayer("layer embedding")
        gate = self.W_gate(x, saved)
        opened = self.activate(gate)
        save_for_backward(saved, gate, opened, vectors)
        y = self.norm_output(self.W_down(opened * vectors, saved), saved)
        see(write=y)
        return y

    def backward(
        self, grad: Float[np.ndarray, "*B T D"], saved: Saved
    ) -> tuple[Float[np.ndarray, "*B T D"], Float[np.ndarray, "*B T Z"]]:
        """Maps the gradient of the output to those of x and of the vectors."""
        grad = self.norm_output.backward(grad, saved)
        grad = self.W_down.backward(grad, saved)
        gate, opened, vectors = saved.pop()
        grad_gate = grad * vectors * self.slope(gate)
        return self.W_gate.backward(grad_gate, saved), grad * opened


class LongerBlock(Block):
    """A block with what some models have after its sublayers: a `LayerEmbedding`, and a learned factor.

    The factor `scale` (1), which begins at 1, multiplies the whole stream.
    """

    def __init__(
        self,
        config: ModelConfig,
        index: int = 0,
        *,
        generator: np.random.Generator | None,
        dtype: DTypeLike = np.float32,
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
            self.scale = np.ones(1, dtype)

    def forward(
        self,
        x: Float[np.ndarray, "*B T D"],
        *,
        layer_vectors: Any = None,
        saved: Saved | None = None,
        **inputs: Any,
    ) -> Float[np.ndarray, "*B T D"]:
        """Maps x (..., T, D) to (..., T, D); `layer_vectors` (..., T, n_layers, Z) are those of all layers."""
        x = super().forward(x, saved=saved, **inputs)
        if self.layer_embedding is not None:
            vectors = layer_vectors[..., self.index, :]
            x = x + self.layer_embedding(x, vectors, saved)
        if self.scale is not None:
            save_for_backward(saved, x)
            x = x * self.scale
        see(stream=x)
        return x

    def backward(self, grad: Float[np.ndarray, "*B T D"], saved: Saved) -> Any:
        """As `Block.backward`, and the gradient of this layer's vectors as the last, if it has any."""
        to_vectors = []
        if self.scale is not None:
            (x,) = saved.pop()
            self.accumulate(scale=(grad * x).sum().reshape(1))
            grad = grad * self.scale
        if self.layer_embedding is not None:
            to_x, own = self.layer_embedding.backward(grad, saved)
            grad, to_vectors = grad + to_x, [own]
        return *super().backward(grad, saved), *to_vectors
