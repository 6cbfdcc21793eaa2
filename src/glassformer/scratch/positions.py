"""Position encodings: what they share, and those that add to the input.

Attention by itself ignores order. A position can enter in three ways, and every
class here and in `rotary.py` and `relative.py` has a method for each:

    embed(x)           adds to the input, the token vectors
    rotate(x)          rotates queries and keys
    score_bias(t, s)   biases the scores: returns what is added to them

Each class implements one of the three; its other two methods have no effect. The
classes use the functions above them. Each method has its backward pass. Positions
have shape (T,), the same for every row of a batch, or (B, T). Tables and angles
are computed in float64 and cast to the dtype of x before they are used. The axes:
B batch, T query positions, S key positions, D d_model, H heads, K d_head.
"""

import numpy as np
from numpy.typing import DTypeLike

from glassformer import _checks as checks
from glassformer.config import ROPE_BASE
from glassformer.scratch.embedding import add_at
from glassformer.scratch.layer import (
    Layer,
    Saved,
    normal,
    save_for_backward,
    sum_to,
)
from glassformer.shapes import Float, Integer, Real


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


def positions_of(
    x: Float[np.ndarray, "*B T D"],
    position_ids: Integer[np.ndarray, "..."] | None,
    size_name: str,
    size: int,
    *,
    heads: bool = False,
) -> Integer[np.ndarray, "..."]:
    """Checks that x has rows of `size` features; returns their positions, by default 0..T-1."""
    checks.vectors("x", x, size_name, size, "T, D")
    if position_ids is None:
        return np.arange(x.shape[-2])
    checks.places(
        "position_ids",
        position_ids,
        x.shape[:-3] if heads else x.shape[:-2],
        x.shape[-2],
    )
    return position_ids


def frequencies(
    d: int, *, base: float = ROPE_BASE
) -> Float[np.ndarray, " {d}//2"]:
    """Returns how fast each pair of dimensions rotates: base^(−2i/d) radians per position for pair i.

    The frequencies fall from 1 for the first pair almost to 1/base for the last;
    float64. Derived in chapter 04.

    Raises:
        ValueError: `d` is odd or below 2, or `base` is not positive and finite.
    """
    checks.even("d", d)
    checks.positive("base", base)
    return base ** (-np.arange(0, d, 2, dtype=np.float64) / d)


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
    checks.even("d_model", d_model)
    angles = positions[:, None] * frequencies(d_model, base=base)  # (T, D/2)
    pairs = np.stack([np.sin(angles), np.cos(angles)], axis=-1)  # (T, D/2, 2)
    return pairs.reshape(len(positions), d_model)


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
        checks.even("d_model", d_model)
        checks.positive("base", base)
        self.d_model, self.base = d_model, base

    def embed(
        self,
        x: Float[np.ndarray, "*B T D"],
        position_ids: Integer[np.ndarray, "..."] | None = None,
        saved: Saved | None = None,
    ) -> Float[np.ndarray, "*B T D"]:
        """Adds the table's rows at `position_ids`, 0..T-1 by default, to x (..., T, D)."""
        position_ids = positions_of(x, position_ids, "d_model", self.d_model)
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
        position_ids = positions_of(x, position_ids, "d_model", self.d_model)
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
