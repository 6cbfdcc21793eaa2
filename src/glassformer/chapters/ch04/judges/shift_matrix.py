"""Judges "A step of n is a matrix" (chapter 04): one matrix moves every sinusoidal position n steps on.

Axes: T positions asking, D d_model.
"""

import math
from typing import Any

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import expect, expect_shape
from glassformer.scratch.positions import sinusoidal
from glassformer.shapes import Float

from .rotations import add_wrong_frequencies


def shift_matrix(
    n: float | int, d_model: int, base: float = 10_000.0
) -> Float[np.ndarray, "{d_model} {d_model}"]:
    """The matrix R with ``R @ PE(p) = PE(p + n)`` for every position p: a rotation for each pair."""
    R = np.zeros((d_model, d_model))
    for i, angle in enumerate(base ** (-np.arange(0, d_model, 2) / d_model) * n):
        pair = slice(2 * i, 2 * i + 2)
        R[pair, pair] = [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]
    return R


def _shift(n: float | int, frequencies: Any) -> np.ndarray:
    """The rotation by n steps, one frequency a pair: the parts of e^(inθ), laid out by hand."""
    D = 2 * len(frequencies)
    matrix = np.zeros((D, D))
    turns = np.exp(1j * n * np.asarray(frequencies))
    even, odd = np.arange(0, D, 2), np.arange(1, D, 2)
    matrix[even, even] = matrix[odd, odd] = turns.real
    matrix[even, odd], matrix[odd, even] = turns.imag, -turns.imag
    return matrix


shift = exercise("positions.shift_matrix", shift_matrix, axes="D D")

shift.case(
    "the matrix is (D, D), and a step of 0 changes nothing", 0, 6, want=np.eye(6), being="the identity"
)
_s, _c = math.sin(1), math.cos(1)
shift.case("a step forward from position 0, with one pair", 1, 2, want=[[_c, _s], [-_s, _c]])
shift.case(
    "every pair turns at its own frequency", 3, 6, want=_shift(3, 10_000.0 ** np.array([0, -1 / 3, -2 / 3]))
)


@shift.check("R(n) · PE(p) = PE(p + n), for steps back and for half steps too")
def _(shift_matrix):
    positions = np.arange(20)
    for n in (7, -4, 0.5):
        R = shift_matrix(n, 8)
        expect_shape(R, (8, 8), f"shift_matrix({n}, 8)", axes="D D")
        there, here = sinusoidal(positions + n, 8), sinusoidal(positions, 8)
        expect(here @ np.asarray(R).T, there, f"R({n}) · PE(p) for p = 0 … 19", axes="T D")


shift.case("another base", 2, 4, base=100.0, want=_shift(2, [1, 0.1]))
shift.also(3, 6, base=1000.0, want=_shift(3, [1, 0.1, 0.01]))

add_wrong_frequencies(shift, lambda theta, n, d_model, base=1e4: _shift(n, theta(d_model, base)))
