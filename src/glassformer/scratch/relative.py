"""Relative positions: a number for the distance between query and key is added to each score."""

import math

import numpy as np
from numpy.typing import DTypeLike

from glassformer import _checks as checks
from glassformer.scratch.embedding import add_at
from glassformer.scratch.layer import Saved, normal, save_for_backward, sum_to
from glassformer.scratch.positions import NoPositions
from glassformer.shapes import Float, Int, Integer


def relative_positions(
    query_positions: Integer[np.ndarray, "*B T"],
    key_positions: Integer[np.ndarray, "*B S"],
) -> Int[np.ndarray, "*B T S"]:
    """Returns key position minus query position for every pair: negative if the key is in the query's past.

    Derived in chapter 04.

    Raises:
        ValueError: an argument has neither one axis nor two (one row for each
            text of a batch).
        TypeError: an argument does not hold integers.
    """
    for name, positions in (
        ("query_positions", query_positions),
        ("key_positions", key_positions),
    ):
        checks.integers(name, positions)
        checks.one_axis_or_two(name, positions)
    queries, keys = (
        query_positions.astype(np.int64),
        key_positions.astype(np.int64),
    )
    return keys[..., None, :] - queries[..., None]


def alibi_slopes(n_heads: int) -> Float[np.ndarray, " H"]:
    """Returns how steeply each head discounts distance: 2^(−8/H) … 2^−8 if H is a power of two.

    For any other H, let n be the largest power of two below it. The slopes for n
    heads come first. The rest are every second slope for 2n heads, starting with
    the first; they lie between the slopes already taken. The result is float64.

    Source: Press et al. 2022, "Train Short, Test Long", section 3 and its code.
    Derived in chapter 04.

    Raises:
        ValueError: `n_heads` is below 1.
        TypeError: `n_heads` is not a whole number.
    """
    checks.whole("n_heads", n_heads)
    n = 2 ** math.floor(math.log2(n_heads))
    first = np.arange(1, n + 1) / n
    between = (np.arange(1, n_heads - n + 1) - 0.5) / n
    return 2.0 ** (-8 * np.concatenate([first, between]))


def t5_bucket(
    relative_positions: Integer[np.ndarray, "*B"],
    *,
    bidirectional: bool,
    n_buckets: int = 32,
    max_distance: int = 128,
) -> Int[np.ndarray, "*B"]:
    """Returns the bucket of each relative position (key − query): short distances have their own, long ones share.

    With `bidirectional`, the past (and distance 0) uses the lower half of the
    buckets and the future the upper half. Without it, the past uses all buckets,
    and every future key goes into bucket 0 (a causal mask hides it). On each
    side, the first half of the buckets holds the distances 0, 1, 2 …; the buckets
    of the other half widen logarithmically up to `max_distance`, and the last one
    holds everything beyond. If the number of buckets is odd, `bidirectional`
    leaves one empty.

    Source: Raffel et al. 2020, "Exploring the Limits of Transfer Learning with a
    Unified Text-to-Text
    Transformer", section 2.1, and its code. Derived in chapter 04.

    Raises:
        ValueError: `n_buckets` leaves fewer than 2 for a side, or `max_distance`
            does not exceed the distances that have their own bucket.
        TypeError: `relative_positions` does not hold integers.
    """
    checks.integers("relative_positions", relative_positions)
    checks.t5_buckets(bidirectional, n_buckets, max_distance)
    # Buckets for one direction
    n_side = n_buckets // 2 if bidirectional else n_buckets
    n_exact = n_side // 2  # buckets that hold a single distance
    relative = relative_positions.astype(np.int64)
    if bidirectional:
        first = np.where(relative > 0, n_side, 0)
        distance = np.abs(relative)
    else:
        first = 0
        distance = (-relative).clip(min=0)
    reached = distance.clip(min=n_exact) / n_exact
    # 0 at n_exact, 1 at max_distance
    progress = np.log(reached) / math.log(max_distance / n_exact)
    shared = n_exact + (progress * (n_side - n_exact)).astype(np.int64)
    shared = shared.clip(max=n_side - 1)
    return first + np.where(distance < n_exact, distance, shared)


class AlibiPositions(NoPositions):
    """Biases the scores: subtracts slope × distance from each; every head has its own fixed slope.

    The paper covers only causal attention. Here a key in the future is discounted
    as much as one equally far in the past, so without a causal mask, a text and
    its reverse look the same.

    Source: Press et al. 2022, "Train Short, Test Long", section 3. Derived in
    chapter 04.

    Raises:
        ValueError: `n_heads` is below 1.
    """

    acts_on = "scores"

    def __init__(self, n_heads: int) -> None:
        checks.whole("n_heads", n_heads)
        self.n_heads = n_heads

    def score_bias(
        self,
        query_positions: Integer[np.ndarray, "*B T"],
        key_positions: Integer[np.ndarray, "*B S"],
        saved: Saved | None = None,
    ) -> Float[np.ndarray, "*B H T S"]:
        """Returns −slope·|key − query|, (H, T, S), float64."""
        distance = np.abs(relative_positions(query_positions, key_positions))
        slopes = alibi_slopes(self.n_heads)[:, None, None]
        return slopes * -distance[..., None, :, :]


class T5Positions(NoPositions):
    """Biases the scores: adds a learned number to each, one for every head and bucket of distances.

    `weight` (n_buckets, H) is initialized from a normal distribution with
    standard deviation 0.02. See `t5_bucket` for the buckets. (T5 shares one such
    table among all layers and does not divide the scores by √K.)

    Source: Raffel et al. 2020, "Exploring the Limits of Transfer Learning with a
    Unified Text-to-Text Transformer", section 2.1. Derived in chapter 04.

    Raises:
        ValueError: `n_heads` is below 1, or `n_buckets` and `max_distance` do not
            suit `t5_bucket`.
    """

    acts_on = "scores"

    def __init__(
        self,
        n_heads: int,
        *,
        bidirectional: bool,
        n_buckets: int = 32,
        max_distance: int = 128,
        generator: np.random.Generator | None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        checks.whole("n_heads", n_heads)
        checks.t5_buckets(bidirectional, n_buckets, max_distance)
        self.n_heads, self.bidirectional = n_heads, bidirectional
        self.n_buckets, self.max_distance = n_buckets, max_distance
        self.weight = normal(generator, 0.02, (n_buckets, n_heads), dtype)

    def score_bias(
        self,
        query_positions: Integer[np.ndarray, "*B T"],
        key_positions: Integer[np.ndarray, "*B S"],
        saved: Saved | None = None,
    ) -> Float[np.ndarray, "*B H T S"]:
        """Returns the entry of `weight` for each distance and head, (H, T, S)."""
        buckets = self._buckets(query_positions, key_positions)
        save_for_backward(saved, buckets)
        return np.moveaxis(self.weight[buckets], -1, -3)

    def score_bias_backward(
        self, grad: Float[np.ndarray, "*B H T S"], saved: Saved
    ) -> None:
        """Adds the gradients of the scores to the bucket that was added to each of them."""
        (buckets,) = saved.pop()
        *B, T, S = buckets.shape
        each = np.moveaxis(sum_to(grad, (*B, self.n_heads, T, S)), -3, -1)
        self.accumulate(weight=add_at(self.weight.shape, buckets, each))

    def _buckets(
        self,
        query_positions: Integer[np.ndarray, "*B T"],
        key_positions: Integer[np.ndarray, "*B S"],
    ) -> Int[np.ndarray, "*B T S"]:
        return t5_bucket(
            relative_positions(query_positions, key_positions),
            bidirectional=self.bidirectional,
            n_buckets=self.n_buckets,
            max_distance=self.max_distance,
        )
