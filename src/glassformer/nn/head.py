"""The output head: maps the final state of the stream to one logit for every entry of the vocabulary."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from glassformer import _checks as checks
from glassformer.config import ModelConfig
from glassformer.nn.embedding import TokenEmbedding
from glassformer.nn.feedforward import activation_of
from glassformer.nn.linear import Linear, normal
from glassformer.nn.norm import norm_of
from glassformer.nn.product import times


class Unembedding(nn.Module):
    """As `scratch.Unembedding`, in PyTorch."""

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
        if config.head_transform:
            self.activate = activation_of(config.feedforward)
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
        """As `scratch.Unembedding.forward`."""
        checks.vectors("x", x, "d_model", self.d_model)
        if self.transform is not None:
            x = self.norm(self.activate(self.transform(x)))
        # (D, V)
        weight = embedding.weight.T if self.weight is None else self.weight
        return times(x if self.scale == 1 else x * self.scale, weight, self.bias)


class Pooler(nn.Module):
    """As `scratch.Pooler`, in PyTorch."""

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
