"""Judges "Sinusoids from a blank cell" (chapter 04): the sinusoidal table of positions.

Axes: T positions asking, D d_model.
"""

import math

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import expect, expect_shape
from glassformer.scratch.positions import sinusoidal

from .rotations import add_wrong_frequencies, pair_frequencies


def _waves(positions, theta):
    angles = np.asarray(positions)[:, None] * np.asarray(theta)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(len(positions), -1)


def _short(positions, d_model, base=10_000.0):
    if d_model % 2:
        raise ValueError(f"d_model={d_model} is odd")
    angles = positions[:, None] * base ** (-np.arange(0, d_model, 2) / d_model)
    table = np.empty((len(positions), d_model))
    table[:, 0::2], table[:, 1::2] = np.sin(angles), np.cos(angles)
    return table


sinusoids = exercise("positions.sinusoidal", sinusoidal, short=_short, axes="T D")

sinusoids.shape("one row for each position, one column for each dimension", np.arange(5), 8, want=(5, 8))
sinusoids.case(
    "position 0: sin 0 = 0 and cos 0 = 1, alternating", np.arange(5), 8, row=0, want=[0.0, 1.0] * 4
)


@sinusoids.check("the two dimensions of a pair share a frequency")
def _(sinusoidal):
    got = sinusoidal(np.arange(5), 8)
    expect_shape(got, (5, 8), "sinusoidal(positions, 8)", axes="T D")
    squares = np.asarray(got) ** 2
    expect(squares[:, 0::2] + squares[:, 1::2], np.ones((5, 4)), "sin² + cos² of each pair", axes="T pair")


sinusoids.case(
    "with two dimensions, position p is (sin p, cos p)",
    np.arange(4), 2, want=[[math.sin(p), math.cos(p)] for p in range(4)],
)  # fmt: skip
sinusoids.case(
    "starting at 1, the frequencies fall by the same factor from pair to pair",
    np.arange(2), 8, row=1, want=_waves([1], [1, 0.1, 0.01, 0.001])[0],
    being="the sines and cosines of 1, 0.1, 0.01 and 0.001",
)  # fmt: skip
sinusoids.case("another base", np.arange(2), 4, base=100.0, row=1, want=_waves([1], [1, 0.1])[0])
sinusoids.also(np.arange(2), 8, base=16.0, row=1, want=_waves([1], [1, 1 / 2, 1 / 4, 1 / 8])[0])
sinusoids.case(
    "the positions are the ones you were given",
    np.array([7, 3, 1000, 0]), 2, want=[[math.sin(p), math.cos(p)] for p in (7, 3, 1000, 0)],
)  # fmt: skip
sinusoids.also(
    np.array([-2.5, 0.5, 12.0]), 10, want=_waves([-2.5, 0.5, 12.0], 10.0 ** (-4 * np.arange(5) / 5)),
    what="sinusoidal([-2.5, 0.5, 12], 10)",
)  # fmt: skip
sinusoids.refuses(
    "an odd d_model leaves one sine without its cosine: ValueError", np.arange(3), 5, what="d_model=5"
)
sinusoids.also_refuses(np.arange(3), 1, what="d_model=1")


def _every_second(d_model, base):
    return base ** (-np.arange(0, d_model, 2) / d_model)


def _padded(positions, d_model, base=1e4):
    return np.pad(_waves(positions, pair_frequencies(d_model, base)), ((0, 0), (0, d_model % 2)))


_FILL = "table[:, 0::2], table[:, 1::2] = np.sin(angles), np.cos(angles)"
_PICK = "table[:, 0::2], table[:, 1::2] = np.sin(angles)[:, 0::2], np.cos(angles)[:, 1::2]"
sinusoids.mistake("any width", lambda p, D, base=1e4: _waves(p, pair_frequencies(D, base)))
sinusoids.mistake("any width", lambda p, D, base=1e4: _waves(p, _every_second(D, base)))
sinusoids.mistake("any width", _padded)
sinusoids.mistake("any width", lambda p, D, base=1e4: _waves(p, _every_second(D, base))[:, :D])
sinusoids.slip("in turn", _FILL, f"angles = np.tile(angles, 2)\n    {_PICK}")
add_wrong_frequencies(sinusoids, lambda theta, p, d_model, base=1e4: _waves(p, theta(d_model, base)))
