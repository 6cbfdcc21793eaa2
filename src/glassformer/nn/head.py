"""The way out: from the last state of the stream to a number for every entry of the vocabulary."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from glassformer import _checks as checks
from glassformer.config import ModelConfig
from glassformer.nn.block import norm_of
from glassformer.nn.embedding import TokenEmbedding
from glassformer.nn.feedforward import ACTIVATIONS
from glassformer.nn.linear import Linear, normal


class Unembedding(nn.Module):
    """The head of a language model: logits, one for each entry of the vocabulary.

    Untied, it has a `weight` (D, V) of its own; tied, it uses the embedding's,
    transposed, so that reading a token and predicting it are one vector. BERT's
    head has a `transform` first, a linear map, an activation and a norm; a `bias`
    (V) may follow, and `head_scale` multiplies what comes in.

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
        generator: torch.Generator | None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        D, V = config.d_model, config.vocab_size
        self.d_model, self.scale = D, config.head_scale
        self.activation = config.feedforward
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
        self.bias = (
            nn.Parameter(torch.zeros(V, dtype=dtype))
            if config.head_bias
            else None
        )

    def forward(
        self, x: Float[Tensor, "*B D"], embedding: TokenEmbedding
    ) -> Float[Tensor, "*B V"]:
        """Maps x (..., D) to logits (..., V).

        `embedding` lends its weight where the two are tied.
        """
        checks.floats("x", x)
        checks.equal("x.shape[-1]", x.shape[-1], "d_model", self.d_model)
        if self.transform is not None:
            activation = ACTIVATIONS[self.activation]
            x = self.norm(activation(self.transform(x)))
        # (D, V)
        weight = embedding.weight.T if self.weight is None else self.weight
        logits = (x if self.scale == 1 else x * self.scale) @ weight
        return logits if self.bias is None else logits + self.bias


class Pooler(nn.Module):
    """BERT's summary of a text: the final state of its first position, through a linear map and tanh.

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
        generator: torch.Generator | None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.linear = Linear(d_model, d_model, generator=generator, dtype=dtype)

    def forward(self, x: Float[Tensor, "*B T D"]) -> Float[Tensor, "*B D"]:
        """Maps x (..., T, D) to (..., D)."""
        checks.axes("x", x, "T, D")
        return torch.tanh(self.linear(x[..., 0, :]))
