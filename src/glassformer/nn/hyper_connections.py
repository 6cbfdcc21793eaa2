"""Several residual streams in PyTorch; `scratch.hyper_connections` explains them and the axes."""

import math
from typing import Any

import torch
from jaxtyping import Float, Integer
from torch import Tensor, nn

from glassformer import _checks as checks
from glassformer.config import ModelConfig
from glassformer.nn.block import Block
from glassformer.nn.feedforward import sigmoid
from glassformer.nn.linear import Linear
from glassformer.nn.norm import RMSNorm
from glassformer.trace import enter_sublayer, see

ROWS, COLUMNS = -1, -2  # the axis to sum over


def sinkhorn(
    z: Float[Tensor, "*B M M"], steps: int, eps: float = 0.0
) -> Float[Tensor, "*B M M"]:
    """As `scratch.sinkhorn`, in PyTorch."""
    checks.floats("z", z)
    checks.axes("z", z, "M, M")
    checks.equal("z.shape[-2]", z.shape[-2], "z.shape[-1]", z.shape[-1])
    checks.whole("steps", steps)
    checks.not_negative("eps", eps)
    weights = torch.softmax(z, dim=-1) + eps
    for axis in _order(steps):
        weights = weights / (weights.sum(dim=axis, keepdim=True) + eps)
    return weights


def _order(steps: int) -> list[int]:
    return [COLUMNS] + [ROWS, COLUMNS] * (steps - 1)


class StreamNumbers(nn.Module):
    """As `scratch.StreamNumbers`, in PyTorch; half precision gives numbers in float32."""

    def __init__(
        self,
        d_model: int,
        n_streams: int,
        sizes: tuple[int, ...],
        *,
        norm_eps: float = 1e-5,
        generator: torch.Generator | None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        checks.whole("d_model", d_model)
        checks.whole("n_streams", n_streams)
        self.n_streams, self.sizes = n_streams, sizes
        n_in, n_out = n_streams * d_model, sum(sizes)
        init_kwargs = {"generator": generator, "dtype": dtype}
        self.norm = RMSNorm(n_in, eps=norm_eps, gain=False, dtype=dtype)
        self.W = Linear(n_in, n_out, bias=False, **init_kwargs)
        first = torch.full((len(sizes),), 0.01, dtype=dtype)
        self.scale = nn.Parameter(first)
        self.bias = nn.Parameter(torch.zeros(n_out, dtype=dtype))

    def forward(self, x: Float[Tensor, "*B M D"]) -> Float[Tensor, "*B n_out"]:
        """Maps streams x (..., M, D) to numbers (..., n_out)."""
        checks.axes("x", x, "M, D")
        checks.equal("x.shape[-2]", x.shape[-2], "n_streams", self.n_streams)
        z = self.W(self.norm(x.flatten(-2)))
        z = z.to(torch.promote_types(z.dtype, torch.float32))
        scales = [
            one.expand(size)
            for one, size in zip(self.scale, self.sizes, strict=True)
        ]
        return z * torch.cat(scales) + self.bias


class HyperConnection(nn.Module):
    """As `scratch.HyperConnection`, in PyTorch."""

    def __init__(
        self,
        d_model: int,
        n_streams: int,
        *,
        steps: int = 20,
        eps: float = 1e-6,
        norm_eps: float = 1e-5,
        generator: torch.Generator | None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        checks.whole("steps", steps)
        checks.not_negative("eps", eps)
        self.n_streams, self.steps, self.eps = n_streams, steps, eps
        M = n_streams
        self.numbers = StreamNumbers(
            d_model,
            M,
            (M, M, M * M),
            norm_eps=norm_eps,
            generator=generator,
            dtype=dtype,
        )
        bias = self.numbers.bias.data
        bias[:M] = mean_of(M)
        bias[2 * M :] = -8 * (1 - torch.eye(M, dtype=dtype)).flatten()

    def forward(
        self, x: Float[Tensor, "*B M D"]
    ) -> tuple[
        Float[Tensor, "*B D"],
        Float[Tensor, "*B M"],
        Float[Tensor, "*B M M"],
    ]:
        """Maps streams x (..., M, D) to what the sublayer reads, (..., D), and to post and mix, which `write` needs."""
        M = self.n_streams
        numbers = self.numbers(x)
        pre = sigmoid(numbers[..., :M]) + self.eps
        post = 2 * sigmoid(numbers[..., M : 2 * M])
        z = numbers[..., 2 * M :].unflatten(-1, (M, M))
        mix = sinkhorn(z, self.steps, self.eps)
        see(pre=pre, post=post, mix=mix)
        return weighted(pre.to(x.dtype), x), post.to(x.dtype), mix.to(x.dtype)

    def write(
        self,
        x: Float[Tensor, "*B M D"],
        y: Float[Tensor, "*B D"],
        post: Float[Tensor, "*B M"],
        mix: Float[Tensor, "*B M M"],
    ) -> Float[Tensor, "*B M D"]:
        """Maps the streams x, and what the sublayer has returned, to the streams after it."""
        return mix.mT @ x + post[..., None] * y[..., None, :]


class Streams(nn.Module):
    """As `scratch.Streams`, in PyTorch."""

    def __init__(
        self,
        d_model: int,
        n_streams: int,
        *,
        eps: float = 1e-6,
        norm_eps: float = 1e-5,
        generator: torch.Generator | None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        checks.not_negative("eps", eps)
        self.n_streams, self.eps = n_streams, eps
        self.numbers = StreamNumbers(
            d_model,
            n_streams,
            (n_streams,),
            norm_eps=norm_eps,
            generator=generator,
            dtype=dtype,
        )
        self.numbers.bias.data[:] = mean_of(n_streams)

    def copies(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B M D"]:
        """Maps vectors x (..., D) to equal streams (..., M, D)."""
        return x[..., None, :].repeat_interleave(self.n_streams, dim=-2)

    def forward(self, x: Float[Tensor, "*B M D"]) -> Float[Tensor, "*B D"]:
        """Maps streams x (..., M, D) to their weighted sum (..., D)."""
        opened = sigmoid(self.numbers(x)) + self.eps
        return weighted(opened.to(x.dtype), x)


def streams_of(
    config: ModelConfig,
    *,
    generator: torch.Generator | None,
    dtype: torch.dtype = torch.float32,
) -> Streams | None:
    """Returns what a configuration needs around its blocks, or None if there is one stream."""
    if (streams := config.streams) is None:
        return None
    return Streams(
        config.d_model,
        streams.n_streams,
        eps=streams.eps,
        norm_eps=config.norm_eps,
        generator=generator,
        dtype=dtype,
    )


class StreamsBlock(Block):
    """As `scratch.StreamsBlock`, in PyTorch."""

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
        layer = config.layer(index)

        def connection() -> HyperConnection:
            return HyperConnection(
                config.d_model,
                **vars(config.streams),
                norm_eps=layer.norm.eps,
                **init_kwargs,
            )

        self.streams_attention = connection()
        self.streams_feedforward = None
        if layer.n_sublayers == 2:
            self.streams_feedforward = connection()

    def forward(
        self,
        x: Float[Tensor, "*B T M D"],
        *,
        ids: Integer[Tensor, "*B T"] | None = None,
        **inputs: Any,
    ) -> Float[Tensor, "*B T M D"]:
        """Maps streams x (..., T, M, D) to streams; `inputs` are those of `Block.forward`."""
        given = {name: v for name, v in inputs.items() if v is not None}
        enter_sublayer("attention")
        connection = self.streams_attention
        read, post, mix = connection(x)
        y = self.attention(self.norm_attention(read), **given)
        x = connection.write(x, y, post, mix)
        see(stream=x)
        if (connection := self.streams_feedforward) is None:
            return x
        enter_sublayer("feed-forward")
        given_too = {"ids": ids} if self.reads_ids else {}
        read, post, mix = connection(x)
        y = self.feedforward(self.norm_feedforward(read), **given_too)
        x = connection.write(x, y, post, mix)
        see(stream=x)
        return x


def weighted(
    weights: Float[Tensor, "*B M"], x: Float[Tensor, "*B M D"]
) -> Float[Tensor, "*B D"]:
    """Returns the sum of the streams x (..., M, D), each times its weight."""
    return (weights[..., None, :] @ x)[..., 0, :]


def mean_of(n_streams: int) -> float:
    """Returns the b with σ(b) = 1/M, so that a sum with such weights is a mean; for one stream, σ(b) is nearly 1."""
    return -math.log(n_streams - 1) if n_streams > 1 else 8.0
