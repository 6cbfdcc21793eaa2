"""Judges "Only the distance is left" (chapter 04).

The score of a rotated query and key depends on their distance alone.

Axis: K d_head.
"""

import math

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import expect
from glassformer.exercises.material import numbers
from glassformer.shapes import Float

from .rotations import (
    EAST,
    NORTH,
    SECOND_PAIR,
    add_wrong_frequencies,
    in_halves,
    pair_frequencies,
    turned_rows,
)


def rope_score(
    q: Float[np.ndarray, " K"], k: Float[np.ndarray, " K"], distance: float | int, base: float = 10_000.0
) -> float:
    """The dot product of q rotated to position m and k rotated to n, from m − n alone. Layout half."""
    half = len(q) // 2
    angles = base ** (-np.arange(0, len(q), 2) / len(q)) * distance
    along = q[:half] * k[:half] + q[half:] * k[half:]
    across = q[:half] * k[half:] - q[half:] * k[:half]
    return float(along @ np.cos(angles) + across @ np.sin(angles))


def _score(q, k, distance, theta):
    return turned_rows(q[None], theta, [distance])[0] @ k


rope = exercise("positions.rope_score", rope_score)

_q, _k = numbers(6), numbers(6, seed=1)
rope.case("at distance 0 it is the plain dot product", _q, _k, 0, want=sum(_q * _k))
rope.case(
    "two equal vectors, rotated apart by d radians, score cos d",
    EAST, EAST, 2, want=math.cos(2), being="cos 2",
)  # fmt: skip
rope.case("the sign: distance is m − n, query minus key", EAST, NORTH, 1, want=math.sin(1), being="sin 1")
rope.also(NORTH, EAST, 1, want=-math.sin(1), being="−sin 1")


@rope.check("it equals rotating both vectors, wherever they are")
def _(rope_score):
    for m, n in ((9, 4), (2, 11), (105, 100)):
        turned_q, turned_k = turned_rows(np.stack([_q, _k]), pair_frequencies(6), [m, n])
        expect(rope_score(_q, _k, m - n), turned_q @ turned_k, f"the score of q at {m} and k at {n}")


rope.case("another base", SECOND_PAIR, SECOND_PAIR, 5, base=100.0, want=math.cos(0.5), being="cos(5/10)")
rope.also(_q, _k, 5, base=1000.0, want=_score(_q, _k, 5, np.array([1, 0.1, 0.01])))


rope.mistake(
    "neighbours", lambda q, k, *others, **base: rope_score(in_halves(q), in_halves(k), *others, **base)
)
add_wrong_frequencies(rope, lambda theta, q, k, m, base=1e4: _score(q, k, m, theta(len(q), base)), D="K")
