"""Position encodings in PyTorch; `scratch.positions` explains them and the axes."""

import torch
from jaxtyping import Float, Integer, Real
from torch import Tensor, nn

from glassformer import _checks as checks
from glassformer.config import ROPE_BASE
from glassformer.nn.linear import normal


class NoPositions(nn.Module):
    """Changes nothing. The other encodings inherit from this class; `acts_on` names the one thing they act on."""

    acts_on: str | None = None

    def embed(
        self,
        x: Float[Tensor, "*B T D"],
        position_ids: Integer[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*B T D"]:
        """Returns token vectors (..., T, D), with their positions added if the encoding does that."""
        return x

    def rotate(
        self,
        x: Float[Tensor, "*B T K"],
        position_ids: Integer[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*B T K"]:
        """Returns queries or keys (..., H, T, K), rotated by their positions if the encoding does that."""
        return x

    def score_bias(
        self,
        query_positions: Integer[Tensor, "*B T"],
        key_positions: Integer[Tensor, "*B S"],
    ) -> Float[Tensor, "*B H T S"] | None:
        """Returns the bias to add to the scores, (H, T, S), or None."""
        return None


def positions_of(
    x: Float[Tensor, "*B T D"],
    position_ids: Integer[Tensor, "..."] | None,
    size_name: str,
    size: int,
    *,
    heads: bool = False,
) -> Integer[Tensor, "..."]:
    """Checks that x has rows of `size` features; returns their positions, by default 0..T-1."""
    checks.vectors("x", x, size_name, size, "T, D")
    if position_ids is None:
        return torch.arange(x.shape[-2], device=x.device)
    checks.places(
        "position_ids",
        position_ids,
        x.shape[:-3] if heads else x.shape[:-2],
        x.shape[-2],
    )
    return position_ids


def frequencies(d: int, *, base: float = ROPE_BASE) -> Float[Tensor, " {d}//2"]:
    """As `scratch.frequencies`, in PyTorch."""
    checks.even("d", d)
    checks.positive("base", base)
    return base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)


def sinusoidal(
    positions: Real[Tensor, " T"], d_model: int, *, base: float = ROPE_BASE
) -> Float[Tensor, "T {d_model}"]:
    """As `scratch.sinusoidal`, in PyTorch."""
    checks.one_axis("positions", positions)
    checks.even("d_model", d_model)
    w = frequencies(d_model, base=base).to(positions.device)
    angles = positions[:, None] * w  # (T, D/2)
    pairs = torch.stack([torch.sin(angles), torch.cos(angles)], dim=-1)
    return pairs.reshape(len(positions), d_model)


class SinusoidalPositions(NoPositions):
    """As `scratch.SinusoidalPositions`, in PyTorch."""

    acts_on = "input"

    def __init__(self, d_model: int, *, base: float = ROPE_BASE) -> None:
        super().__init__()
        checks.even("d_model", d_model)
        checks.positive("base", base)
        self.d_model, self.base = d_model, base

    def embed(
        self,
        x: Float[Tensor, "*B T D"],
        position_ids: Integer[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*B T D"]:
        """Adds the table's rows at `position_ids`, 0..T-1 by default, to x (..., T, D)."""
        position_ids = positions_of(x, position_ids, "d_model", self.d_model)
        waves = sinusoidal(position_ids.reshape(-1), self.d_model, base=self.base)
        return x + waves.reshape(*position_ids.shape, self.d_model).to(x.dtype)


class LearnedPositions(NoPositions):
    """As `scratch.LearnedPositions`, in PyTorch; positions are not checked while torch compiles."""

    acts_on = "input"

    def __init__(
        self,
        context_length: int,
        d_model: int,
        *,
        generator: torch.Generator | None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        checks.whole("context_length", context_length)
        checks.whole("d_model", d_model)
        self.context_length, self.d_model = context_length, d_model
        self.weight = normal(generator, 0.02, (context_length, d_model), dtype)

    def embed(
        self,
        x: Float[Tensor, "*B T D"],
        position_ids: Integer[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*B T D"]:
        """Adds the table's rows at `position_ids`, 0..T-1 by default, to x (..., T, D)."""
        position_ids = positions_of(x, position_ids, "d_model", self.d_model)
        # A check of values cuts a compiled program in two
        if not torch.compiler.is_compiling():
            checks.indices(
                "position_ids",
                position_ids,
                "context_length",
                self.context_length,
            )
        return x + self.weight[position_ids.long()].to(x.dtype)
