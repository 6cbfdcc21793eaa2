"""The linear map: every output is a weighted sum of the inputs."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from glassformer import _checks as checks
from glassformer.nn.product import times

Shape = tuple[int, ...]


class Linear(nn.Module):
    """As `scratch.Linear`; torch's own stores the transposed weight, (n_out, n_in)."""

    def __init__(
        self,
        n_in: int,
        n_out: int,
        *,
        bias: bool = True,
        generator: torch.Generator | None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        checks.whole("n_in", n_in)
        checks.whole("n_out", n_out)
        self.n_in, self.n_out = n_in, n_out
        self.weight = normal(generator, n_in**-0.5, (n_in, n_out), dtype)
        self.bias = (
            nn.Parameter(torch.zeros(n_out, dtype=dtype)) if bias else None
        )

    def forward(self, x: Float[Tensor, "*B n_in"]) -> Float[Tensor, "*B n_out"]:
        """Maps x (..., n_in) to (..., n_out)."""
        checks.vectors("x", x, "n_in", self.n_in)
        return times(x, self.weight, self.bias)


def normal(
    generator: torch.Generator | None,
    deviation: float,
    shape: Shape,
    dtype: torch.dtype,
) -> nn.Parameter:
    """As `scratch.layer.normal`, in PyTorch."""
    if generator is None:
        return nn.Parameter(torch.zeros(shape, dtype=dtype))
    if not isinstance(generator, torch.Generator):
        raise TypeError(
            "generator must be a torch.Generator, such as torch.Generator().manual_seed(0), or None, "
            f"not {generator!r}"
        )
    drawn = torch.randn(shape, generator=generator, dtype=dtype)
    return nn.Parameter(deviation * drawn)


def plus(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    """Adds two arrays, either of which may be None."""
    if a is None or b is None:
        return b if a is None else a
    return a + b
