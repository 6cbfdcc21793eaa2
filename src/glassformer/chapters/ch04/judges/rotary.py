"""Judges "Rotate" (chapter 04): RoPE in layout half: pairs of features are rotated by their position.

Axes: B batch, T positions asking, H heads, K d_head.
"""

import math

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import expect, expect_shape
from glassformer.exercises.material import numbers
from glassformer.scratch.rotary import rotate, rotation_angles
from glassformer.shapes import Float

from .rotations import EAST, NORTH, SECOND_PAIR, add_wrong_frequencies, pair_frequencies, turned_rows


def rotary(x: Float[np.ndarray, "*B T K"], base: float = 10_000.0) -> Float[np.ndarray, "*B T K"]:
    """RoPE in layout half: each pair (i, i + K/2) of row t turned by ``t * base**(-2i/K)`` radians."""
    T, K = x.shape[-2:]
    angles = np.arange(T)[:, None] * base ** (-np.arange(0, K, 2) / K)
    first, second = x[..., : K // 2], x[..., K // 2 :]
    cos, sin = np.cos(angles), np.sin(angles)
    return np.concatenate([first * cos - second * sin, first * sin + second * cos], axis=-1)


turn = exercise("positions.rotary", rotary, built_on=(rotation_angles, rotate), axes="T K")

_x, _angle = numbers(5, 6), np.arange(4)
turn.shape("the shape stays", _x, want=(5, 6))
turn.case("position 0 is not rotated", _x, row=0, want=_x[0], being="as it was")
turn.case(
    "with one pair, position p rotates (1, 0) to (cos p, sin p), and (0, 1) to (−sin p, cos p)",
    np.array([EAST] * 4), want=np.stack([np.cos(_angle), np.sin(_angle)], axis=-1),
    what="four rows (1, 0), rotated,",
)  # fmt: skip
turn.also(
    np.array([NORTH] * 4), want=np.stack([0 - np.sin(_angle), np.cos(_angle)], axis=-1),
    what="four rows (0, 1), rotated,",
)  # fmt: skip


@turn.check("a rotation keeps every row's length")
def _(rotary):
    x = numbers(5, 8)
    got = rotary(x)
    expect_shape(got, (5, 8), "rotary(x)", axes="T K")
    expect(np.linalg.norm(got, axis=-1), np.linalg.norm(x, axis=-1), "the length of each row")


def _turned(x, base=10_000.0):
    return turned_rows(x, pair_frequencies(x.shape[-1], base))


turn.case("dimension i is paired with i + K/2, each pair with its own frequency", _x, want=_turned)
_x = numbers(3, 5, 4)
turn.case(
    "heads and batches in front; positions run along the second axis from the end",
    _x, want=_turned, axes="H T K",
)  # fmt: skip
turn.also(numbers(2, 3, 5, 10), want=_turned, axes="B H T K")
turn.also(numbers(2, 3, 5, 10)[:1], want=_turned, axes="B H T K")
turn.case("a long text, a wide head", numbers(1100, 2), want=_turned, what="1,100 positions, rotated,")
turn.also(numbers(6, 20), want=_turned, what="a head of 20 dimensions, rotated,")
turn.case(
    "another base",
    np.array([SECOND_PAIR] * 2), base=100.0, row=1, want=[0.0, math.cos(0.1), 0.0, math.sin(0.1)],
)  # fmt: skip
turn.also(_x, base=100.0, want=_turned, axes="H T K")

_PARTS, _WAVES = "first * cos - second * sin", "np.cos(angles), np.sin(angles)"
_RESULT = f"np.concatenate([{_PARTS}, first * sin + second * cos], axis=-1)"
_BY_HALVES = (
    "x * cos + np.concatenate([-second, first], axis=-1) * sin"  # as converters of checkpoints write it
)
add_wrong_frequencies(turn, lambda theta, x, base=1e4: turned_rows(x, theta(x.shape[-1], base)), D="K")
turn.slip(
    "two layouts", _WAVES, "(np.repeat(f(angles), 2, axis=-1) for f in (np.cos, np.sin))", _RESULT, _BY_HALVES
)


@turn.mistake("heads")
def _(x, base=1e4):
    return rotary(x, base) if x.ndim == 2 else rotary(x.swapaxes(-2, -3), base).swapaxes(-2, -3)


turn.slip("no batch", "x.shape[-2:]", "x.shape")
turn.slip(
    "heads", "np.arange(T)", "np.arange(len(x))",
    _WAVES, "(np.tile(f(angles), 2) for f in (np.cos, np.sin))", _RESULT, _BY_HALVES,
)  # fmt: skip
