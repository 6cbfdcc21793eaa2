"""Position encodings: five ways to tell attention the order of the tokens, and one that adds nothing.

Attention by itself ignores order. A position can enter in three ways, and every
class here has a method for each:

    embed(x)           adds to the input, the token vectors
    rotate(x)          rotates queries and keys
    score_bias(t, s)   biases the scores: returns what is added to them

Each class implements one of the three; its other two methods have no effect. The
classes use the functions above them. Positions have shape (T,), the same for
every row of a batch, or (B, T). Tables and angles are computed in float64 and
cast to the dtype of x before they are used. The axes: B batch, T query positions,
S key positions, D d_model, H heads, K d_head.
"""

import math
from collections.abc import Collection

import torch
from jaxtyping import Float, Int, Integer, Real
from torch import Tensor, nn

from glassformer import _checks as checks
from glassformer.config import ROPE_BASE, ROPE_SCALINGS, ModelConfig
from glassformer.nn.linear import normal

IN_PAIRS = "sines and cosines come in pairs of dimensions"


def frequencies(d: int, *, base: float = ROPE_BASE) -> Float[Tensor, " {d}//2"]:
    """Returns how fast each pair of dimensions rotates: base^(−2i/d) radians per position for pair i.

    The frequencies fall from 1 for the first pair almost to 1/base for the last;
    float64. Derived in chapter 04.

    Raises:
        ValueError: `d` is odd or below 2, or `base` is not positive and finite.
    """
    checks.even("d", d, IN_PAIRS)
    checks.positive("base", base)
    return base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)


# Absolute positions: where am I?


def sinusoidal(
    positions: Real[Tensor, " T"], d_model: int, *, base: float = ROPE_BASE
) -> Float[Tensor, "T {d_model}"]:
    """Returns a fixed table of waves, one row per position: dimension 2i is sin(p·w_i), dimension 2i+1 is cos(p·w_i).

    Both share the frequency w_i = base^(−2i/D). The positions can be any real
    numbers; the result is float64.

    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.5. Derived
    in chapter 04.

    Raises:
        ValueError: `d_model` is odd or below 2, `base` is not positive and
            finite, or `positions` does not have exactly one axis.
    """
    checks.one_axis("positions", positions)
    checks.even("d_model", d_model, IN_PAIRS)
    w = frequencies(d_model, base=base).to(positions.device)
    angles = positions[:, None] * w  # (T, D/2)
    pairs = torch.stack([torch.sin(angles), torch.cos(angles)], dim=-1)
    return pairs.reshape(len(positions), d_model)


# Rotary: rotate queries and keys by their positions, so that their product
# depends on the distance


def rotation_angles(
    positions: Real[Tensor, " T"],
    d_head: int,
    *,
    base: float = ROPE_BASE,
    interpolation: float = 1.0,
) -> Float[Tensor, "T {d_head}//2"]:
    """Returns the rotation angle of each pair of dimensions: (p / interpolation)·base^(−2i/K) radians for pair i.

    `interpolation` = 4 squeezes texts four times as long as those in training
    into the range of angles that the model knows (Chen et al. 2023, "Extending
    Context Window of Large Language Models via Positional Interpolation"). The
    positions can be any real numbers; the result is float64.

    Source: Su et al. 2021, "RoFormer", equation 15. Derived in chapter 04.

    Raises:
        ValueError: `d_head` is odd or below 2, `base` or `interpolation` is not
            positive and finite, or `positions` does not have exactly one axis.
    """
    checks.one_axis("positions", positions)
    checks.even("d_head", d_head, IN_PAIRS)
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
) -> Float[Tensor, " {d}//2"]:
    """Returns the factor on each pair's frequency that stretches a context: 1 for fast pairs, less for slow ones.

    A pair is slow or fast by how many rotations it makes within
    `original_context` positions, the length in training. Pairs with at most
    `slow` rotations are divided in full, because longer texts would show them
    angles that no training text had. Pairs with at least `fast` rotations have
    shown all angles, so they stay as they are and still tell neighbours apart. In
    between, `"llama3"` blends by the number of rotations, and `"yarn"` by the
    index of the pair, where the ramp begins and ends at a whole index, as in its
    authors' code. `"linear"` divides every pair. The result is float64.

    Source: Peng et al. 2024, "YaRN: Efficient Context Window Extension of Large
    Language Models", section 3.2, "NTK-by-parts", which is `"llama3"` with slow
    = α and fast = β; the index for `"yarn"`: the authors' code. Derived in chapter
    13.

    Raises:
        ValueError: a number is outside its range, `slow` is not below `fast`, or
            `scaling` is not one of these.
    """
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
        first, last = max(math.floor(first), 0), min(math.ceil(last), d - 1)
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
    """Rotates each pair of dimensions of x in its plane, pair i of row t by angles[t, i].

    Which dimensions form a pair is a convention, and weights are trained for one
    of two: `"half"` pairs i with i + K/2 (LLaMA, GPT-NeoX and the Hugging Face
    weights), `"interleaved"` pairs 2i with 2i + 1 (RoFormer, GPT-J). Using the
    wrong one raises no error.

    Source: Su et al. 2021, "RoFormer", equation 34. Derived in chapter 04.

    Raises:
        ValueError: `layout` is neither of these, K is odd, or `angles` is not (T,
            K/2).
        TypeError: x is not floating-point.
    """
    checks.floats("x", x)
    checks.axes("x", x, "T, K")
    checks.one_of("layout", layout, ("half", "interleaved"))
    T, K = x.shape[-2:]
    checks.even("d_head", K, IN_PAIRS)
    checks.equal(
        "angles.shape[-2:]",
        tuple(angles.shape[-2:]),
        "(T, d_head/2)",
        (T, K // 2),
    )
    cos, sin = torch.cos(angles).to(x.dtype), torch.sin(angles).to(x.dtype)
    if layout == "half":
        a, b = x.chunk(2, dim=-1)  # pair i: dimensions i and i + K/2
        return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1)
    a, b = x.unflatten(-1, (K // 2, 2)).unbind(-1)  # pair i: 2i and 2i + 1
    return torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2)


# Relative positions: how far away are you? A number is added to each score


def relative_positions(
    query_positions: Integer[Tensor, "*B T"],
    key_positions: Integer[Tensor, "*B S"],
) -> Int[Tensor, "*B T S"]:
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
    queries, keys = query_positions.to(torch.int64), key_positions.to(torch.int64)
    return keys[..., None, :] - queries[..., None]


def alibi_slopes(n_heads: int) -> Float[Tensor, " H"]:
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


# The encodings: each acts in one of three ways


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


class SinusoidalPositions(NoPositions):
    """Adds the `sinusoidal` table to the input; it has no parameters and works for any length.

    (The paper also multiplies the token vectors by √D first; here the caller has
    to do that.)

    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.5. Derived
    in chapter 04.

    Raises:
        ValueError: `d_model` is odd or below 2, `base` is not positive and
            finite, or x does not fit `d_model`.
    """

    acts_on = "input"

    def __init__(self, d_model: int, *, base: float = ROPE_BASE) -> None:
        super().__init__()
        checks.even("d_model", d_model, IN_PAIRS)
        checks.positive("base", base)
        self.d_model, self.base = d_model, base

    def embed(
        self,
        x: Float[Tensor, "*B T D"],
        position_ids: Integer[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*B T D"]:
        """Adds the table's rows at `position_ids`, 0..T-1 by default, to x (..., T, D)."""
        position_ids = _places(x, position_ids, "d_model", self.d_model)
        waves = sinusoidal(position_ids.reshape(-1), self.d_model, base=self.base)
        return x + waves.reshape(*position_ids.shape, self.d_model).to(x.dtype)


class LearnedPositions(NoPositions):
    """Adds a learned vector to the input, one for each of `context_length` positions; longer texts do not fit.

    `weight` (context_length, D) is initialized from a normal distribution with
    standard deviation 0.02.

    Source: Radford et al. 2018, "Improving Language Understanding by Generative
    Pre-Training". Derived in chapter 04.

    Raises:
        ValueError: a size is below 1, x does not fit `d_model`, or a position is
            outside 0..context_length-1.
    """

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
        position_ids = _places(x, position_ids, "d_model", self.d_model)
        # A check of values cuts a compiled program in two
        if not torch.compiler.is_compiling():
            checks.indices(
                "position_ids",
                position_ids,
                "context_length",
                self.context_length,
            )
        return x + self.weight[position_ids.long()].to(x.dtype)


class RotaryPositions(NoPositions):
    """Rotates queries and keys by their positions (RoPE).

    Rotating a query and a key by the same angle keeps their dot product, so it
    depends only on the distance. `scaling`, `interpolation`, `original_context`
    (needed unless the scaling is linear), `slow` and `fast` slow the rotation of
    some pairs down for longer texts: see `stretch`. `attention_factor` multiplies
    the rotated queries and keys, and so its square the scores.

    Source: Su et al. 2021, "RoFormer", section 3.2; the factor: Peng et al. 2024,
    "YaRN", the scaling of attention, where it is √(1/t). Derived in chapter 04.

    Raises:
        ValueError: `d_head` is odd or below 2, a number is not positive and
            finite, `layout` is neither `"half"` nor `"interleaved"`, the settings
            do not suit `stretch`, or x does not fit `d_head`.
    """

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
    ) -> None:
        super().__init__()
        checks.even("d_head", d_head, IN_PAIRS)
        checks.positive("base", base)
        checks.one_of("layout", layout, ("half", "interleaved"))
        checks.positive("interpolation", interpolation)
        checks.positive("attention_factor", attention_factor)
        self.d_head, self.base, self.layout = d_head, base, layout
        self.attention_factor = attention_factor
        self.stretching = {
            "scaling": scaling,
            "interpolation": interpolation,
            "original_context": original_context,
            "slow": slow,
            "fast": fast,
        }
        stretch(d_head, base=base, **self.stretching)  # refuses what does not fit

    def rotate(
        self,
        x: Float[Tensor, "*B T K"],
        position_ids: Integer[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*B T K"]:
        """Rotates each row of x (..., H, T, K), queries or keys, by its position, 0..T-1 by default."""
        rotated = rotate(x, self._angles(x, position_ids), layout=self.layout)
        return _times(self.attention_factor, rotated)

    def _angles(
        self,
        x: Float[Tensor, "*B T K"],
        position_ids: Integer[Tensor, "..."] | None,
    ) -> Float[Tensor, "..."]:
        position_ids = _places(x, position_ids, "d_head", self.d_head, heads=True)
        angles = rotation_angles(
            position_ids.reshape(-1), self.d_head, base=self.base
        )
        slowed = stretch(self.d_head, base=self.base, **self.stretching)
        angles = angles * slowed.to(angles.device)
        angles = angles.reshape(*position_ids.shape, self.d_head // 2)
        # (T, K/2), or with a batch (B, 1, T, K/2): the same for all heads
        return angles if position_ids.ndim == 1 else angles[:, None]


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


# The encoding that a configuration names

METHODS = {
    "none": NoPositions,
    "sinusoidal": SinusoidalPositions,
    "learned": LearnedPositions,
    "rope": RotaryPositions,
    "alibi": AlibiPositions,
    "t5": T5Positions,
}


def position_encoding_of(
    config: ModelConfig,
    *,
    acting_on: Collection[str],
    causal: bool = True,
    generator: torch.Generator | None = None,
    dtype: torch.dtype = torch.float32,
) -> NoPositions:
    """Returns the encoding that a configuration names, if it acts on one of `acting_on`.

    A stack asks for encodings that act on the input or the scores, once for all
    its blocks. Each block asks for one that rotates queries and keys inside
    attention.

    Raises:
        ValueError: there is no such encoding.
    """
    checks.one_of("positions", config.positions, METHODS)
    if METHODS[config.positions].acts_on not in acting_on:
        return NoPositions()
    init_kwargs = {"generator": generator, "dtype": dtype}
    match config.positions:
        case "sinusoidal":
            return SinusoidalPositions(config.d_model)
        case "learned":
            return LearnedPositions(
                config.context_length, config.d_model, **init_kwargs
            )
        case "rope":
            return RotaryPositions(
                config.d_head,
                base=config.rope_base,
                layout=config.rope_layout,
                interpolation=config.rope_interpolation,
                scaling=config.rope_scaling,
                original_context=config.rope_original_context,
                slow=config.rope_slow,
                fast=config.rope_fast,
                attention_factor=config.rope_attention_factor,
            )
        case "alibi":
            return AlibiPositions(config.n_heads)
        case "t5":
            return T5Positions(
                config.n_heads,
                bidirectional=not causal,
                n_buckets=config.t5_n_buckets,
                max_distance=config.t5_max_distance,
                **init_kwargs,
            )
    raise NotImplementedError(f"{config.positions} cannot be built from a config")


def _times(factor: float, x: Float[Tensor, "*B"]) -> Float[Tensor, "*B"]:
    """Returns factor · x, without a pass over the array where the factor is 1."""
    return x if factor == 1 else factor * x


def _places(
    x: Float[Tensor, "*B T D"],
    position_ids: Integer[Tensor, "..."] | None,
    size_name: str,
    size: int,
    *,
    heads: bool = False,
) -> Integer[Tensor, "..."]:
    """Checks that x has rows of `size` features; returns their positions, by default 0..T-1."""
    checks.floats("x", x)
    checks.axes("x", x, "T, D")
    checks.equal("x.shape[-1]", x.shape[-1], size_name, size)
    if position_ids is None:
        return torch.arange(x.shape[-2], device=x.device)
    checks.places(
        "position_ids",
        position_ids,
        x.shape[:-3] if heads else x.shape[:-2],
        x.shape[-2],
    )
    return position_ids
