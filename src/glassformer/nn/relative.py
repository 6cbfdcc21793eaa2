"""Relative positions in PyTorch."""

import math

import torch
from jaxtyping import Float, Int, Integer
from torch import Tensor

from glassformer import _checks as checks
from glassformer.nn.linear import normal
from glassformer.nn.positions import NoPositions


def relative_positions(
    query_positions: Integer[Tensor, "*B T"],
    key_positions: Integer[Tensor, "*B S"],
) -> Int[Tensor, "*B T S"]:
    """As `scratch.relative_positions`, in PyTorch."""
    for name, positions in (
        ("query_positions", query_positions),
        ("key_positions", key_positions),
    ):
        checks.integers(name, positions)
        checks.one_axis_or_two(name, positions)
    queries, keys = query_positions.to(torch.int64), key_positions.to(torch.int64)
    return keys[..., None, :] - queries[..., None]


def alibi_slopes(n_heads: int) -> Float[Tensor, " H"]:
    """As `scratch.alibi_slopes`, in PyTorch."""
    checks.whole("n_heads", n_heads)
    n = 2 ** math.floor(math.log2(n_heads))
    first = torch.arange(1, n + 1, dtype=torch.float64) / n
    between = (torch.arange(1, n_heads - n + 1, dtype=torch.float64) - 0.5) / n
    return 2.0 ** (-8 * torch.cat([first, between]))


def t5_bucket(
    relative_positions: Integer[Tensor, "*B"],
    *,
    bidirectional: bool,
    n_buckets: int = 32,
    max_distance: int = 128,
) -> Int[Tensor, "*B"]:
    """As `scratch.t5_bucket`, in PyTorch."""
    checks.integers("relative_positions", relative_positions)
    checks.t5_buckets(bidirectional, n_buckets, max_distance)
    # Buckets for one direction
    n_side = n_buckets // 2 if bidirectional else n_buckets
    n_exact = n_side // 2  # buckets that hold a single distance
    relative = relative_positions.to(torch.int64)
    if bidirectional:
        first = torch.where(relative > 0, n_side, 0)
        distance = torch.abs(relative)
    else:
        first = 0
        distance = (-relative).clip(min=0)
    reached = distance.clip(min=n_exact).to(torch.float64) / n_exact
    # 0 at n_exact, 1 at max_distance
    progress = torch.log(reached) / math.log(max_distance / n_exact)
    shared = n_exact + (progress * (n_side - n_exact)).to(torch.int64)
    shared = shared.clip(max=n_side - 1)
    return first + torch.where(distance < n_exact, distance, shared)


class AlibiPositions(NoPositions):
    """As `scratch.AlibiPositions`, in PyTorch."""

    acts_on = "scores"

    def __init__(self, n_heads: int) -> None:
        super().__init__()
        checks.whole("n_heads", n_heads)
        self.n_heads = n_heads

    def score_bias(
        self,
        query_positions: Integer[Tensor, "*B T"],
        key_positions: Integer[Tensor, "*B S"],
    ) -> Float[Tensor, "*B H T S"]:
        """Returns −slope·|key − query|, (H, T, S), float64."""
        distance = torch.abs(relative_positions(query_positions, key_positions))
        slopes = alibi_slopes(self.n_heads).to(distance.device)[:, None, None]
        return slopes * -distance[..., None, :, :]


class T5Positions(NoPositions):
    """As `scratch.T5Positions`, in PyTorch."""

    acts_on = "scores"

    def __init__(
        self,
        n_heads: int,
        *,
        bidirectional: bool,
        n_buckets: int = 32,
        max_distance: int = 128,
        generator: torch.Generator | None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        checks.whole("n_heads", n_heads)
        checks.t5_buckets(bidirectional, n_buckets, max_distance)
        self.n_heads, self.bidirectional = n_heads, bidirectional
        self.n_buckets, self.max_distance = n_buckets, max_distance
        self.weight = normal(generator, 0.02, (n_buckets, n_heads), dtype)

    def score_bias(
        self,
        query_positions: Integer[Tensor, "*B T"],
        key_positions: Integer[Tensor, "*B S"],
    ) -> Float[Tensor, "*B H T S"]:
        """Returns the entry of `weight` for each distance and head, (H, T, S)."""
        buckets = self._buckets(query_positions, key_positions)
        return torch.moveaxis(self.weight[buckets], -1, -3)

    def _buckets(
        self,
        query_positions: Integer[Tensor, "*B T"],
        key_positions: Integer[Tensor, "*B S"],
    ) -> Int[Tensor, "*B T S"]:
        return t5_bucket(
            relative_positions(query_positions, key_positions),
            bidirectional=self.bidirectional,
            n_buckets=self.n_buckets,
            max_distance=self.max_distance,
        )
