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


turn.case(
    "dimension i is paired with i + K/2, each pair with its own frequency",
    _x,
    want=turned_rows(_x, pair_frequencies(6)),
)
_x = numbers(3, 5, 4)
turn.case(
    "heads and batches in front; positions run along the second axis from the end",
    _x, want=turned_rows(_x, pair_frequencies(4)), axes="H T K",
)  # fmt: skip
_x = numbers(2, 3, 5, 10)
turn.also(_x, want=turned_rows(_x, pair_frequencies(10)), axes="B H T K")
turn.also(_x[:1], want=turned_rows(_x[:1], pair_frequencies(10)), axes="B H T K")
_x, _wide = numbers(1100, 2), numbers(6, 20)
turn.case(
    "a long text, a wide head",
    _x,
    want=turned_rows(_x, pair_frequencies(2)),
    what="1,100 positions, rotated,",
)
turn.also(_wide, want=turned_rows(_wide, pair_frequencies(20)), what="a head of 20 dimensions, rotated,")
turn.case(
    "another base",
    np.array([SECOND_PAIR] * 2),
    base=100.0,
    row=1,
    want=[0.0, math.cos(0.1), 0.0, math.sin(0.1)],
)
_x = numbers(3, 5, 4)
turn.also(_x, base=100.0, want=turned_rows(_x, [1, 0.1]), axes="H T K")


def _rope_angles(x, base):
    return np.arange(x.shape[-2])[:, None] * pair_frequencies(x.shape[-1], base)


def _by_halves(x, cos, sin, signs=(-1, 1)):
    """x·cos + rotate_half(x)·sin, as converters of checkpoints write it."""
    half = x.shape[-1] // 2
    return x * cos + np.concatenate([signs[0] * x[..., half:], signs[1] * x[..., :half]], axis=-1) * sin


def _with_signs(*signs):
    def rotary(x, base=1e4):
        angles = np.tile(_rope_angles(x, base), 2)
        return _by_halves(x, np.cos(angles), np.sin(angles), signs)

    return rotary


turn.mistake(
    "from 1", lambda x, base=1e4: rotate(x, _rope_angles(x, base) + pair_frequencies(x.shape[-1], base))
)
turn.mistake("other way", lambda x, base=1e4: rotate(x, -_rope_angles(x, base)))
turn.mistake("no minus", _with_signs(1, 1))
turn.mistake("two minuses", _with_signs(-1, -1))
turn.mistake("neighbours", lambda x, base=1e4: rotate(x, _rope_angles(x, base), layout="interleaved"))
turn.mistake("cosines alone", lambda x, base=1e4: _by_halves(x, np.cos(np.tile(_rope_angles(x, base), 2)), 0))
add_wrong_frequencies(turn, lambda theta, x, base=1e4: turned_rows(x, theta(x.shape[-1], base)), D="K")


@turn.mistake("two layouts")
def _(x, base=1e4):
    angles = np.repeat(_rope_angles(x, base), 2, axis=-1)
    return _by_halves(x, np.cos(angles), np.sin(angles))


@turn.mistake("already turned")
def _(x, base=1e4):
    (a, b), angles = np.split(x, 2, axis=-1), _rope_angles(x, base)
    a = a * np.cos(angles) - b * np.sin(angles)
    return np.concatenate([a, a * np.sin(angles) + b * np.cos(angles)], axis=-1)


@turn.mistake("heads")
def _(x, base=1e4):
    rows = x.swapaxes(-2, -3) if x.ndim > 2 else x
    turned = turned_rows(rows, pair_frequencies(x.shape[-1], base))
    return turned.swapaxes(-2, -3) if x.ndim > 2 else turned


@turn.mistake("no batch")
def _(x, base=1e4):
    T, K = x.shape
    return turned_rows(x, pair_frequencies(K, base), np.arange(T))


@turn.mistake("heads")
def _(x, base=1e4):
    angles = np.tile(np.arange(len(x))[:, None] * pair_frequencies(x.shape[-1], base), 2)
    return _by_halves(x, np.cos(angles), np.sin(angles))


turn.mistake(
    "heads", lambda x, base=1e4: turned_rows(x, pair_frequencies(x.shape[-1], base), np.arange(len(x)))
)
