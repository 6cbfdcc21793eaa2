"""Rotary positions in PyTorch."""

import math

import torch
from jaxtyping import Float, Integer, Real
from torch import Tensor

from glassformer import _checks as checks
from glassformer.config import ROPE_BASE, ROPE_SCALINGS
from glassformer.nn.positions import (
    NoPositions,
    frequencies,
    positions_of,
)


def rotation_angles(
    positions: Real[Tensor, " T"],
    d_head: int,
    *,
    base: float = ROPE_BASE,
    interpolation: float = 1.0,
) -> Float[Tensor, "T {d_head}//2"]:
    """As `scratch.rotation_angles`, in PyTorch."""
    checks.one_axis("positions", positions)
    checks.even("d_head", d_head)
    checks.positive("interpolation", interpolation)
    w = frequencies(d_head, base=base).to(positions.device)
    return positions.to(torch.float64)[:, None] / interpolation * w


def stretch(
    d: int,
    *,
    base: float = ROPE_BASE,
    scaling: str = "linear",
    interpolation: float = 1.0,
    original_context: int,
    slow: float = 1.0,
    fast: float = 32.0,
    truncate: bool = True,
) -> Float[Tensor, " {d}//2"]:
    """As `scratch.stretch`, in PyTorch."""
    checks.one_of("scaling", scaling, ROPE_SCALINGS)
    for name, value in (("interpolation", interpolation), ("slow", slow)):
        checks.positive(name, value)
    checks.positive("fast", fast)
    checks.whole("original_context", original_context)
    checks.rope_scaling(scaling, base, slow, fast)
    w = frequencies(d, base=base)
    if scaling == "linear":
        return torch.full_like(w, 1 / interpolation)
    if scaling == "llama3":
        rotations = original_context * w / (2 * math.pi)
        kept = (rotations - slow) / (fast - slow)
    else:
        first, last = (
            d
            * math.log(original_context / (rotations * 2 * math.pi))
            / (2 * math.log(base))
            for rotations in (fast, slow)
        )  # the indices of the pairs that make so many rotations
        if truncate:
            first, last = math.floor(first), math.ceil(last)
        first, last = max(first, 0), min(last, d - 1)
        last = last if last != first else first + 0.001
        kept = 1 - (torch.arange(d // 2, dtype=torch.float64) - first) / (
            last - first
        )
    kept = kept.clip(0, 1)
    return kept + (1 - kept) / interpolation


def rotate(
    x: Float[Tensor, "*B T K"],
    angles: Float[Tensor, "... T K//2"],
    *,
    layout: str = "half",
) -> Float[Tensor, "*B T K"]:
    """As `scratch.rotate`, in PyTorch."""
    checks.floats("x", x)
    checks.axes("x", x, "T, K")
    checks.one_of("layout", layout, ("half", "interleaved"))
    T, K = x.shape[-2:]
    checks.even("d_head", K)
    checks.equal(
        "angles.shape[-2:]",
        tuple(angles.shape[-2:]),
        "(T, d_head/2)",
        (T, K // 2),
    )
    cos, sin = torch.cos(angles).to(x.dtype), torch.sin(angles).to(x.dtype)
    if layout == "half":  # pair i: dimensions i and i + K/2
        # All pairs at once: fewer passes over the memory than for a and b apart
        cos, sin = torch.cat((cos, cos), dim=-1), torch.cat((-sin, sin), dim=-1)
        return x * cos + x.roll(K // 2, dims=-1) * sin
    a, b = x.unflatten(-1, (K // 2, 2)).unbind(-1)  # pair i: 2i and 2i + 1
    return torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2)


class RotaryPositions(NoPositions):
    """As `scratch.RotaryPositions`, in PyTorch."""

    acts_on = "queries and keys"

    def __init__(
        self,
        d_head: int,
        *,
        base: float = ROPE_BASE,
        layout: str = "half",
        interpolation: float = 1.0,
        scaling: str = "linear",
        original_context: int = 1,
        slow: float = 1.0,
        fast: float = 32.0,
        attention_factor: float = 1.0,
        share: float = 1.0,
        proportional: bool = False,
        truncate: bool = True,
    ) -> None:
        super().__init__()
        checks.even("d_head", d_head)
        checks.positive("base", base)
        checks.one_of("layout", layout, ("half", "interleaved"))
        checks.positive("interpolation", interpolation)
        checks.positive("attention_factor", attention_factor)
        checks.rotated_share("share", share, d_head)
        self.n_rotated = round(share * d_head)
        # With those that are rotated by an angle of 0
        self._width = d_head if proportional else self.n_rotated
        self.d_head, self.base, self.layout = d_head, base, layout
        self.attention_factor = attention_factor
        self.stretching = {
            "scaling": scaling,
            "interpolation": interpolation,
            "original_context": original_context,
            "slow": slow,
            "fast": fast,
            "truncate": truncate,
        }
        stretch(d_head, base=base, **self.stretching)  # refuses what does not fit

    def rotate(
        self,
        x: Float[Tensor, "*B T K"],
        position_ids: Integer[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*B T K"]:
        """Rotates each row of x (..., H, T, K), queries or keys, by its position, 0..T-1 by default."""
        return self._turned(x, self._angles(x, position_ids))

    def _turned(
        self, x: Float[Tensor, "*B T K"], angles: Float[Tensor, "..."]
    ) -> Float[Tensor, "*B T K"]:
        """Rotates the features that rotate, and leaves the others."""
        n = self._width
        turning = x if n == self.d_head else x[..., :n]
        rotated = rotate(turning, angles, layout=self.layout)
        rotated = _times(self.attention_factor, rotated)
        if turning is x:
            return rotated
        return torch.cat([rotated, x[..., n:]], dim=-1)

    def _angles(
        self,
        x: Float[Tensor, "*B T K"],
        position_ids: Integer[Tensor, "..."] | None,
    ) -> Float[Tensor, "..."]:
        position_ids = positions_of(
            x, position_ids, "d_head", self.d_head, heads=True
        )
        n = self._width
        angles = rotation_angles(position_ids.reshape(-1), n, base=self.base)
        slowed = stretch(n, base=self.base, **self.stretching)
        if self.n_rotated < n:
            slowed[self.n_rotated // 2 :] = 0
        angles = angles * slowed.to(angles.device)
        angles = angles.reshape(*position_ids.shape, n // 2)
        # (T, K/2), or with a batch (B, 1, T, K/2): the same for all heads
        return angles if position_ids.ndim == 1 else angles[:, None]


def _times(factor: float, x: Float[Tensor, "*B"]) -> Float[Tensor, "*B"]:
    """Returns factor · x, without a pass over the array where the factor is 1."""
    return x if factor == 1 else factor * x
