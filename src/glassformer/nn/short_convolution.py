"""A short causal convolution in PyTorch."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from glassformer import _checks as checks
from glassformer.nn.linear import normal


class ShortConvolution(nn.Module):
    """As `scratch.ShortConvolution`, in PyTorch."""

    def __init__(
        self,
        n_features: int,
        taps: int,
        *,
        bias: bool = False,
        generator: torch.Generator | None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        checks.whole("n_features", n_features)
        checks.whole("taps", taps)
        self.taps, self.n_features = taps, n_features
        self.weight = normal(generator, taps**-0.5, (taps, n_features), dtype)
        zeros = torch.zeros(n_features, dtype=dtype)
        self.bias = nn.Parameter(zeros) if bias else None

    def forward(
        self,
        x: Float[Tensor, "*B T E"],
        *,
        past: Float[Tensor, "*B N E"] | None = None,
        real: Bool[Tensor, "*B T"] | None = None,
    ) -> tuple[Float[Tensor, "*B T E"], Float[Tensor, "*B N E"]]:
        """As `scratch.ShortConvolution.forward`."""
        checks.vectors("x", x, "n_features", self.n_features, "T, E")
        checks.neighbours(past, real, tuple(x.shape), self.taps)
        T, order = x.shape[-2], None
        if real is not None:
            order = (~real).to(torch.uint8).argsort(dim=-1, stable=True)
            x = _rows(x, order)
        if past is None:
            past = x.new_zeros((*x.shape[:-2], self.taps - 1, x.shape[-1]))
        rows = torch.cat([past, x], dim=-2)
        y = rows[..., :T, :] * self.weight[0]
        for i in range(1, self.taps):
            y = y + rows[..., i : i + T, :] * self.weight[i]
        if self.bias is not None:
            y = y + self.bias
        if real is None or order is None:
            return y, rows[..., T:, :]
        taps = torch.arange(self.taps - 1, device=x.device)
        last = real.sum(dim=-1, keepdim=True) + taps
        y = _rows(y, order.argsort(dim=-1)) * real[..., None]
        return y, _rows(rows, last)


def _rows(x: Tensor, indices: Tensor) -> Tensor:
    """Returns the rows x[..., indices, :], other ones for each text."""
    return x.take_along_dim(indices[..., None], dim=-2)
