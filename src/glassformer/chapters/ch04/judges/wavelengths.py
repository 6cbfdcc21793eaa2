"""Judges "Fast clocks and slow clocks" (chapter 04).

How many positions each pair of the table needs for a full turn.

Axis: D d_model.
"""

import math

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import expect, expect_shape
from glassformer.scratch.positions import sinusoidal
from glassformer.shapes import Float

from .rotations import WRONG_FREQUENCIES


def wavelengths(d_model: int, base: float = 10_000.0) -> Float[np.ndarray, " {d_model}//2"]:
    """Returns how many positions each pair of the sinusoidal table needs for one full turn."""
    return 2 * np.pi * base ** (np.arange(0, d_model, 2) / d_model)


clocks = exercise("positions.wavelengths", wavelengths, axes="D/2")

clocks.shape("one wavelength for each pair of dimensions", 8, want=(4,))
clocks.case(
    "the first pair, which turns by 1 radian at every position", 8, row=0, want=2 * math.pi, being="2π"
)
clocks.case("each pair is slower than the one before", 8, want=2 * math.pi * 10.0 ** np.arange(4))


@clocks.check("after one wavelength, each pair of the table is back where it was")
def _(wavelengths):
    turns = wavelengths(8, base=81.0)
    expect_shape(turns, (4,), "wavelengths(8, base=81)", axes="D/2")
    for pair, turn in enumerate(np.asarray(turns, dtype=np.float64)):
        here, there = sinusoidal(np.array([3.0, 3.0 + turn]), 8, base=81.0)[:, 2 * pair : 2 * pair + 2]
        expect(there, here, f"pair {pair}, one wavelength further on, with base 81,")


clocks.mistake("rounded", lambda d_model, base=1e4: np.round(wavelengths(d_model, base), 2))
for _name in ("one rate", "no two", "twice", "own base", "fencepost"):
    _wrong = WRONG_FREQUENCIES[_name]
    clocks.mistake(_name, lambda d_model, base=1e4, wrong=_wrong: 2 * math.pi / wrong(d_model, base), D="D")
