"""Rotary positions: queries and keys are rotated, so that their product depends on the distance."""

import math

import numpy as np

from glassformer import _checks as checks
from glassformer.config import ROPE_BASE, ROPE_SCALINGS
from glassformer.scratch.layer import Saved, save_for_backward
from glassformer.scratch.positions import (
    NoPositions,
    frequencies,
    positions_of,
)
from glassformer.shapes import Float, Integer, Real


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
    checks.even("d_head", d_head)
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
    truncate: bool = True,
) -> Float[np.ndarray, " {d}//2"]:
    """Returns the factor on each pair's frequency that stretches a context: 1 for fast pairs, less for slow ones.

    A pair is slow or fast by how many rotations it makes within
    `original_context` positions, the length in training. Pairs with at most
    `slow` rotations are divided in full, because longer texts would show them
    angles that no training text had. Pairs with at least `fast` rotations have
    shown all angles, so they stay as they are and still tell neighbours apart. In
    between, `"llama3"` blends by the number of rotations, and `"yarn"` by the
    index of the pair, where the ramp begins and ends at a whole index, as in its
    authors' code, or with `truncate=False` in between, as in gpt-oss. `"linear"`
    divides every pair. The result is float64.

    Source: Peng et al. 2024, "YaRN: Efficient Context Window Extension of Large
    Language Models", section 3.2, "NTK-by-parts", which is `"llama3"` with slow
    = α and fast = β; the index for `"yarn"`: the authors' code. Derived in chapter
    13.

    Raises:
        ValueError: a number is outside its range, `slow` exceeds `fast`, or
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
        if truncate:
            first, last = math.floor(first), math.ceil(last)
        first, last = max(first, 0), min(last, d - 1)
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
    checks.even("d_head", K)
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


class RotaryPositions(NoPositions):
    """Rotates queries and keys by their positions (RoPE).

    Rotating a query and a key by the same angle keeps their dot product, so it
    depends only on the distance. `scaling`, `interpolation`, `original_context`
    (needed unless the scaling is linear), `slow` and `fast` slow the rotation of
    some pairs down for longer texts: see `stretch`. `attention_factor` multiplies
    the rotated queries and keys, and so its square the scores.

    If `share` is below 1, only so many of a head's features rotate. They are the
    first ones, as if the head had no more; or with `proportional`, the pairs lie
    as in the whole head, and the slower ones have an angle of 0.

    Source: Su et al. 2021, "RoFormer", section 3.2; the factor: Peng et al. 2024,
    "YaRN", the scaling of attention, where it is √(1/t); a share: Black et al.
    2022, "GPT-NeoX-20B", section 2.1.1. Derived in chapter 04, shares in 16.

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
        share: float = 1.0,
        proportional: bool = False,
        truncate: bool = True,
    ) -> None:
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
        x: Float[np.ndarray, "*B T K"],
        position_ids: Integer[np.ndarray, "..."] | None = None,
        saved: Saved | None = None,
    ) -> Float[np.ndarray, "*B T K"]:
        """Rotates each row of x (..., H, T, K), queries or keys, by its position, 0..T-1 by default."""
        angles = self._angles(x, position_ids)
        save_for_backward(saved, angles)
        return self._turned(x, angles)

    def rotate_backward(
        self, grad: Float[np.ndarray, "*B T K"], saved: Saved
    ) -> Float[np.ndarray, "*B T K"]:
        """Rotates the gradient back by the same angles: the transpose of a rotation is its inverse."""
        (angles,) = saved.pop()
        return self._turned(grad, -angles)

    def _turned(
        self,
        x: Float[np.ndarray, "*B T K"],
        angles: Float[np.ndarray, "..."],
    ) -> Float[np.ndarray, "*B T K"]:
        """Rotates the features that rotate, and leaves the others."""
        n = self._width
        turning = x if n == self.d_head else x[..., :n]
        rotated = rotate(turning, angles, layout=self.layout)
        rotated = _times(self.attention_factor, rotated)
        if turning is x:
            return rotated
        return np.concatenate([rotated, x[..., n:]], axis=-1)

    def _angles(
        self,
        x: Float[np.ndarray, "*B T K"],
        position_ids: Integer[np.ndarray, "..."] | None,
    ) -> Float[np.ndarray, "..."]:
        position_ids = positions_of(
            x, position_ids, "d_head", self.d_head, heads=True
        )
        n = self._width
        angles = rotation_angles(position_ids.reshape(-1), n, base=self.base)
        angles *= stretch(n, base=self.base, **self.stretching)
        if self.n_rotated < n:
            angles[:, self.n_rotated // 2 :] = 0
        angles = angles.reshape(*position_ids.shape, n // 2)
        # (T, K/2), or with a batch (B, 1, T, K/2): the same for all heads
        return angles if position_ids.ndim == 1 else angles[:, None]


def _times(factor: float, x: Float[np.ndarray, "*B"]) -> Float[np.ndarray, "*B"]:
    """Returns factor · x, without a pass over the array where the factor is 1."""
    return x if factor == 1 else factor * x
