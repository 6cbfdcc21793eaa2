"""The output head: maps the final state of the stream to one logit for every entry of the vocabulary."""

import numpy as np
from numpy.typing import DTypeLike

from glassformer import _checks as checks
from glassformer.config import ModelConfig
from glassformer.scratch.embedding import TokenEmbedding
from glassformer.scratch.feedforward import activation_of, activation_slope
from glassformer.scratch.layer import Layer, Saved, normal, save_for_backward
from glassformer.scratch.linear import Linear
from glassformer.scratch.norm import norm_of
from glassformer.shapes import Float


class Unembedding(Layer):
    """The head of a language model: logits, one for each entry of the vocabulary.

    If untied, it has its own `weight` (D, V). If tied, it uses the embedding's
    weight, transposed, so that the same vector serves to read a token and to
    predict it. BERT's head first applies a `transform`: a linear map, an
    activation and a norm. There can be a `bias` (V), and `head_scale` multiplies
    the input.

    Source: tied: Press and Wolf 2017, "Using the Output Embedding to Improve
    Language Models"; the transform: Devlin et al. 2019, "BERT", and its code.
    Derived in chapter 08, its gradient in 09.

    Raises:
        ValueError: the last axis of x is not d_model.
        TypeError: x is not floating-point.
    """

    def __init__(
        self,
        config: ModelConfig,
        *,
        generator: np.random.Generator | None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        D, V = config.d_model, config.vocab_size
        self.d_model, self.scale = D, config.head_scale
        if config.head_transform:
            self.activate = activation_of(config.feedforward)
            self.slope = activation_slope(config.feedforward)
        init_kwargs = {"generator": generator, "dtype": dtype}
        self.transform = (
            Linear(D, D, **init_kwargs) if config.head_transform else None
        )
        self.norm = norm_of(config, dtype) if config.head_transform else None
        self.weight = (
            normal(generator, D**-0.5, (D, V), dtype)
            if config.head == "untied"
            else None
        )
        self.bias = np.zeros(V, dtype) if config.head_bias else None

    def forward(
        self,
        x: Float[np.ndarray, "*B D"],
        embedding: TokenEmbedding,
        saved: Saved | None = None,
    ) -> Float[np.ndarray, "*B V"]:
        """Maps x (..., D) to logits (..., V).

        If the two are tied, the weight is that of `embedding`.
        """
        checks.vectors("x", x, "d_model", self.d_model)
        if self.transform is not None:
            wide = self.transform(x, saved)
            save_for_backward(saved, wide)
            x = self.norm(self.activate(wide), saved)
        rows = x.reshape(-1, self.d_model)
        if self.scale != 1:
            rows = rows * self.scale
        save_for_backward(saved, rows, x.shape, embedding)
        weight = embedding.weight.T if self.weight is None else self.weight
        logits = rows @ weight
        if self.bias is not None:
            logits += self.bias
        return logits.reshape(*x.shape[:-1], logits.shape[-1])

    def backward(
        self, grad: Float[np.ndarray, "*B V"], saved: Saved
    ) -> Float[np.ndarray, "*B D"]:
        """Maps the gradient of the logits to that of x."""
        rows, shape, embedding = saved.pop()
        grads = grad.reshape(-1, grad.shape[-1])
        if self.bias is not None:
            self.accumulate(bias=grads.sum(axis=0))
        if self.weight is None:  # the lookup adds its own share there
            embedding.accumulate(weight=grads.T @ rows)
            grad = grads @ embedding.weight
        else:
            self.accumulate(weight=rows.T @ grads)
            grad = grads @ self.weight.T
        grad = (grad * self.scale).reshape(shape)
        if self.transform is not None:
            grad = self.norm.backward(grad, saved)
            (wide,) = saved.pop()
            grad = self.transform.backward(grad * self.slope(wide), saved)
        return grad


class Pooler(Layer):
    """BERT's summary of a text: a linear map and tanh of the final state of its first position.

    Source: Devlin et al. 2019, "BERT", section 3, and its code. Derived in
    chapter 12.

    Raises:
        ValueError: the last axis of x is not d_model.
        TypeError: x is not floating-point.
    """

    def __init__(
        self,
        d_model: int,
        *,
        generator: np.random.Generator | None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        self.linear = Linear(d_model, d_model, generator=generator, dtype=dtype)

    def forward(
        self, x: Float[np.ndarray, "*B T D"], saved: Saved | None = None
    ) -> Float[np.ndarray, "*B D"]:
        """Maps x (..., T, D) to (..., D)."""
        checks.axes("x", x, "T, D")
        pooled = np.tanh(self.linear(x[..., 0, :], saved))
        save_for_backward(saved, pooled, x.shape)
        return pooled

    def backward(
        self, grad: Float[np.ndarray, "*B D"], saved: Saved
    ) -> Float[np.ndarray, "*B T D"]:
        """Maps the gradient of the output to that of x, which is 0 at all positions but the first."""
        pooled, shape = saved.pop()
        grad_x = np.zeros(shape, grad.dtype)
        grad = grad * (1 - pooled * pooled)
        grad_x[..., 0, :] = self.linear.backward(grad, saved)
        return grad_x
