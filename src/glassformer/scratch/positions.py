"""Position encodings: five ways to tell attention the order of the tokens, and one that adds nothing.

Attention by itself ignores order. A position can enter in three ways, and every
class here has a method for each:

    embed(x)           adds to the input, the token vectors
    rotate(x)          rotates queries and keys
    score_bias(t, s)   biases the scores: returns what is added to them

Each class implements one of the three; its other two methods have no effect. The
classes use the functions above them. Each method has its backward pass. Positions
have shape (T,), the same for every row of a batch, or (B, T). Tables and angles
are computed in float64 and cast to the dtype of x before they are used. The axes:
B batch, T query positions, S key positions, D d_model, H heads, K d_head.
"""

import math
from collections.abc import Collection

import numpy as np
from numpy.typing import DTypeLike

from glassformer import _checks as checks
from glassformer.config import ROPE_BASE, ROPE_SCALINGS, ModelConfig
from glassformer.scratch.embedding import add_at
from glassformer.scratch.layer import (
    Layer,
    Saved,
    normal,
    save_for_backward,
    sum_to,
)
from glassformer.shapes import Float, Int, Integer, Real

IN_PAIRS = "sines and cosines come in pairs of dimensions"


def frequencies(
    d: int, *, base: float = ROPE_BASE
) -> Float[np.ndarray, " {d}//2"]:
    """Returns how fast each pair of dimensions rotates: base^(−2i/d) radians per position for pair i.

    The frequencies fall from 1 for the first pair almost to 1/base for the last;
    float64. Derived in chapter 04.

    Raises:
        ValueError: `d` is odd or below 2, or `base` is not positive and finite.
    """
    checks.even("d", d, IN_PAIRS)
    checks.positive("base", base)
    return base ** (-np.arange(0, d, 2, dtype=np.float64) / d)


# Absolute positions: where am I?


def sinusoidal(
    positions: Real[np.ndarray, " T"], d_model: int, *, base: float = ROPE_BASE
) -> Float[np.ndarray, "T {d_model}"]:
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
    angles = positions[:, None] * frequencies(d_model, base=base)  # (T, D/2)
    pairs = np.stack([np.sin(angles), np.cos(angles)], axis=-1)  # (T, D/2, 2)
    return pairs.reshape(len(positions), d_model)


# Rotary: rotate queries and keys by their positions, so that their product
# depends on the distance


def rotation_angles(
    positions: Real[np.ndarray, " T"],
    d_head: int,
    *,
    base: float = ROPE_BASE,
    interpolation: float = 1.0,
) -> Float[np.ndarray, "T {d_head}//2"]:
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
    w = frequencies(d_head, base=base)
    return positions.astype(np.float64)[:, None] / interpolation * w


def stretch(
    d: int,
    *,
    base: float = ROPE_BASE,
    scaling: str = "linear",
    interpolation: float = 1.0,
    original_context: int,
    slow: float = 1.0,
    fast: float = 32.0,
) -> Float[np.ndarray, " {d}//2"]:
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
        return np.full_like(w, 1 / interpolation)
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
        kept = 1 - (np.arange(d // 2) - first) / (last - first)
    kept = kept.clip(0, 1)
    return kept + (1 - kept) / interpolation


def rotate(
    x: Float[np.ndarray, "*B T K"],
    angles: Float[np.ndarray, "... T K//2"],
    *,
    layout: str = "half",
) -> Float[np.ndarray, "*B T K"]:
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
    if layout == "half":  # pair i: dimensions i and i + K/2
        first, second = slice(0, K // 2), slice(K // 2, K)
    else:  # pair i: dimensions 2i and 2i + 1
        first, second = slice(0, K, 2), slice(1, K, 2)
    a, b = x[..., first], x[..., second]
    cos, sin = np.cos(angles).astype(x.dtype), np.sin(angles).astype(x.dtype)
    turned = np.empty_like(x)
    turned[..., first] = a * cos - b * sin
    turned[..., second] = a * sin + b * cos
    return turned


# Relative positions: how far away are you? A number is added to each score


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


# The encodings: each acts in one of three ways


class NoPositions(Layer):
    """Changes nothing. The other encodings inherit from this class; `acts_on` names the one thing they act on."""

    acts_on: str | None = None

    def embed(
        self,
        x: Float[np.ndarray, "*B T D"],
        position_ids: Integer[np.ndarray, "..."] | None = None,
        saved: Saved | None = None,
    ) -> Float[np.ndarray, "*B T D"]:
        """Returns token vectors (..., T, D), with their positions added if the encoding does that."""
        return x

    def embed_backward(
        self, grad: Float[np.ndarray, "*B T D"], saved: Saved
    ) -> Float[np.ndarray, "*B T D"]:
        """Maps the gradient of the output of `embed` to that of the token vectors; a sum passes it on unchanged."""
        return grad

    def rotate(
        self,
        x: Float[np.ndarray, "*B T K"],
        position_ids: Integer[np.ndarray, "..."] | None = None,
        saved: Saved | None = None,
    ) -> Float[np.ndarray, "*B T K"]:
        """Returns queries or keys (..., H, T, K), rotated by their positions if the encoding does that."""
        return x

    def rotate_backward(
        self, grad: Float[np.ndarray, "*B T K"], saved: Saved
    ) -> Float[np.ndarray, "*B T K"]:
        """Maps the gradient of the output of `rotate` to that of the queries or keys."""
        return grad

    def score_bias(
        self,
        query_positions: Integer[np.ndarray, "*B T"],
        key_positions: Integer[np.ndarray, "*B S"],
        saved: Saved | None = None,
    ) -> Float[np.ndarray, "*B H T S"] | None:
        """Returns the bias to add to the scores, (H, T, S), or None."""
        return None

    def score_bias_backward(
        self, grad: Float[np.ndarray, "*B H T S"], saved: Saved
    ) -> None:
        """Adds the gradient of the scores, (..., H, T, S), to that of the weights behind `score_bias`, if any."""


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
        checks.even("d_model", d_model, IN_PAIRS)
        checks.positive("base", base)
        self.d_model, self.base = d_model, base

    def embed(
        self,
        x: Float[np.ndarray, "*B T D"],
        position_ids: Integer[np.ndarray, "..."] | None = None,
        saved: Saved | None = None,
    ) -> Float[np.ndarray, "*B T D"]:
        """Adds the table's rows at `position_ids`, 0..T-1 by default, to x (..., T, D)."""
        position_ids = _places(x, position_ids, "d_model", self.d_model)
        waves = sinusoidal(position_ids.reshape(-1), self.d_model, base=self.base)
        waves = waves.reshape(*position_ids.shape, self.d_model)
        return x + waves.astype(x.dtype)


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
        generator: np.random.Generator | None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        checks.whole("context_length", context_length)
        checks.whole("d_model", d_model)
        self.context_length, self.d_model = context_length, d_model
        self.weight = normal(generator, 0.02, (context_length, d_model), dtype)

    def embed(
        self,
        x: Float[np.ndarray, "*B T D"],
        position_ids: Integer[np.ndarray, "..."] | None = None,
        saved: Saved | None = None,
    ) -> Float[np.ndarray, "*B T D"]:
        """Adds the table's rows at `position_ids`, 0..T-1 by default, to x (..., T, D)."""
        position_ids = _places(x, position_ids, "d_model", self.d_model)
        checks.indices(
            "position_ids", position_ids, "context_length", self.context_length
        )
        save_for_backward(saved, position_ids)
        return x + self.weight[position_ids].astype(x.dtype)

    def embed_backward(
        self, grad: Float[np.ndarray, "*B T D"], saved: Saved
    ) -> Float[np.ndarray, "*B T D"]:
        """Adds the gradient of the vectors to that of the table's row that was added to them."""
        (position_ids,) = saved.pop()
        each = sum_to(grad, (*position_ids.shape, self.d_model))
        self.accumulate(weight=add_at(self.weight.shape, position_ids, each))
        return grad


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
        x: Float[np.ndarray, "*B T K"],
        position_ids: Integer[np.ndarray, "..."] | None = None,
        saved: Saved | None = None,
    ) -> Float[np.ndarray, "*B T K"]:
        """Rotates each row of x (..., H, T, K), queries or keys, by its position, 0..T-1 by default."""
        angles = self._angles(x, position_ids)
        save_for_backward(saved, angles)
        rotated = rotate(x, angles, layout=self.layout)
        return _times(self.attention_factor, rotated)

    def rotate_backward(
        self, grad: Float[np.ndarray, "*B T K"], saved: Saved
    ) -> Float[np.ndarray, "*B T K"]:
        """Rotates the gradient back by the same angles: the transpose of a rotation is its inverse."""
        (angles,) = saved.pop()
        rotated = rotate(grad, -angles, layout=self.layout)
        return _times(self.attention_factor, rotated)

    def _angles(
        self,
        x: Float[np.ndarray, "*B T K"],
        position_ids: Integer[np.ndarray, "..."] | None,
    ) -> Float[np.ndarray, "..."]:
        position_ids = _places(x, position_ids, "d_head", self.d_head, heads=True)
        angles = rotation_angles(
            position_ids.reshape(-1), self.d_head, base=self.base
        )
        angles *= stretch(self.d_head, base=self.base, **self.stretching)
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
    generator: np.random.Generator | None = None,
    dtype: DTypeLike = np.float32,
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


def _times(factor: float, x: Float[np.ndarray, "*B"]) -> Float[np.ndarray, "*B"]:
    """Returns factor · x, without a pass over the array where the factor is 1."""
    return x if factor == 1 else factor * x


def _places(
    x: Float[np.ndarray, "*B T D"],
    position_ids: Integer[np.ndarray, "..."] | None,
    size_name: str,
    size: int,
    *,
    heads: bool = False,
) -> Integer[np.ndarray, "..."]:
    """Checks that x has rows of `size` features; returns their positions, by default 0..T-1."""
    checks.floats("x", x)
    checks.axes("x", x, "T, D")
    checks.equal("x.shape[-1]", x.shape[-1], size_name, size)
    if position_ids is None:
        return np.arange(x.shape[-2])
    checks.places(
        "position_ids",
        position_ids,
        x.shape[:-3] if heads else x.shape[:-2],
        x.shape[-2],
    )
    return position_ids
