"""Judges "A convolution that goes on" (chapter 17): each feature is mixed with its own last values.

Axes: T positions, E features, N = taps − 1 earlier positions.
"""

import math

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import expect, expect_parts
from glassformer.exercises.material import numbers
from glassformer.scratch.short_convolution import ShortConvolution
from glassformer.shapes import Float


def short_convolution(
    x: Float[np.ndarray, "T E"], weight: Float[np.ndarray, "taps E"], past: Float[np.ndarray, "N E"]
) -> tuple[Float[np.ndarray, "T E"], Float[np.ndarray, "N E"]]:
    """Returns weighted sums of each feature's last values, and what the next call needs as past."""
    T = len(x)
    rows = np.concatenate([past, x])
    y = np.zeros(x.shape)
    for i, w in enumerate(weight):
        y += w * rows[i : i + T]
    return y, rows[T:]


goes_on = exercise(
    "state.convolution", short_convolution,
    built_on=(ShortConvolution.forward,), parts=("y", "past"), axes=("T E", "taps−1 E"),
)  # fmt: skip


def _by_hand(x, weight, past):
    """Computes every number as a sum over the taps, from the present position backwards."""
    N = len(weight) - 1
    at = [*past.tolist(), *x.tolist()]
    y = [
        [
            math.fsum(weight[N - back][e] * at[N + t - back][e] for back in range(N + 1))
            for e in range(x.shape[1])
        ]
        for t in range(len(x))
    ]
    return np.array(y), np.array([at[len(x) + i] for i in range(N)])


_weight = np.array([[100.0, 2], [10, 0], [1, 3]])
_x, _past = np.array([[1.0, 1], [2, 0], [3, 0], [4, 5]]), np.array([[8.0, 3], [9, 7]])
goes_on.case(
    "after zeros: the last weight is that of the position itself",
    _x, _weight, np.zeros((2, 2)),
    want=([[1.0, 3], [12, 0], [123, 2], [234, 15]], [[3.0, 0], [4, 5]]), what="four positions after zeros",
)  # fmt: skip
goes_on.case(
    "after earlier values: 8, 9, then 1, 2, …",
    _x, _weight, _past,
    want=([[891.0, 9], [912, 14], [123, 2], [234, 15]], [[3.0, 0], [4, 5]]),
    what="four positions after a past of 8 and 9",
)  # fmt: skip
goes_on.case(
    "a single position: one of the earlier values stays in the past",
    _x[:1], _weight, _past, want=([[891.0, 9]], [[9.0, 7], [1, 1]]), what="one position after 8 and 9",
)  # fmt: skip
for _title, _T, _E, _taps in (
    ("any numbers", 7, 5, 4),
    ("", 3, 2, 4),
    ("two positions and six taps", 2, 3, 6),
    ("two taps", 4, 3, 2),
):
    goes_on.case(
        _title, numbers(_T, _E), numbers(_taps, _E, seed=1), numbers(_taps - 1, _E, seed=2),
        want=_by_hand, what=f"T = {_T}, E = {_E} and {_taps} taps",
    )  # fmt: skip


@goes_on.check("a text in pieces of any length gives what the whole text gives")
def _(short_convolution):
    x, weight, past = numbers(12, 3, seed=3), numbers(5, 3, seed=4), np.zeros((4, 3))
    whole, _ = _by_hand(x, weight, past)
    begin = 0
    for length in (1, 2, 5, 1, 3):
        rows = slice(begin, begin + length)
        y, past = expect_parts(short_convolution(x[rows], weight, past), goes_on.parts)
        expect(y, whole[rows], f"y of {length} positions from position {begin} on", axes="T E")
        begin += length
