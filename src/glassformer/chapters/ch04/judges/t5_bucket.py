"""Judges "Near is exact, far is vague" (chapter 04): T5's bucket for each distance.

Axes: T positions asking, S positions answering.
"""

import math

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import expect, expect_shape
from glassformer.scratch.relative import t5_bucket


def _short(relative_positions, *, bidirectional, n_buckets=32, max_distance=128):
    n = n_buckets // 2 if bidirectional else n_buckets
    exact, first = n // 2, 0
    distance = np.maximum(-relative_positions, 0)
    if bidirectional:
        first, distance = np.where(relative_positions > 0, n, 0), np.abs(relative_positions)
    far = np.log(np.maximum(distance, exact) / exact) / np.log(max_distance / exact)
    shared = np.minimum(exact + (far * (n - exact)).astype(int), n - 1)
    return first + np.where(distance < exact, distance, shared)


buckets = exercise("positions.t5_bucket", t5_bucket, short=_short, axes="T S")


def _bucket(relative, bidirectional, n_buckets, max_distance):
    """One bucket, in plain Python; None where a distance lies on a bucket's very edge, and rounding decides."""
    first = 0
    if bidirectional:
        n_buckets //= 2
        first, relative = (n_buckets if relative > 0 else 0), -abs(relative)
    distance, exact = max(-relative, 0), n_buckets // 2
    if distance < exact:
        return first + distance
    far = (n_buckets - exact) * math.log(distance / exact, max_distance / exact)
    on_an_edge = exact < distance < max_distance and abs(far - round(far)) < 1e-4
    return None if on_an_edge else first + min(exact + math.floor(far + 1e-9), n_buckets - 1)


def _past(*distances):
    return -np.array(distances)


buckets.case(
    "causal: each short distance into the past has its own bucket",
    _past(*range(8)), bidirectional=False, want=np.arange(8), axes="S",
)  # fmt: skip
buckets.case(
    "causal: every future key is in bucket 0",
    np.array([1, 2, 50]), bidirectional=False, want=[0, 0, 0], axes="S",
)  # fmt: skip
buckets.case(
    "causal: from 16 on, buckets widen logarithmically",
    _past(15, 16, 32, 64, 100), bidirectional=False, want=[15, 16, 21, 26, 30], axes="S",
)  # fmt: skip
buckets.case(
    "causal: everything from max_distance on is in the last bucket",
    _past(127, 128, 1000), bidirectional=False, want=[31, 31, 31], axes="S",
)  # fmt: skip
buckets.case(
    "both directions: past in the lower half of the buckets, future in the upper",
    np.array([-3, -1, 0, 1, 3]), bidirectional=True, want=[3, 1, 0, 17, 19], axes="S",
)  # fmt: skip
buckets.case(
    "both directions: each side has only half of the buckets",
    np.array([-128, -30, -8, 8, 30, 128]),
    bidirectional=True,
    want=[15, 11, 8, 24, 27, 31],
    axes="S",
)  # fmt: skip  8 + 8·ln(30/8)/ln 16 = 11.8


@buckets.check("other sizes, and a whole (T, S) grid")
def _(t5_bucket):
    for both in (False, True):
        for n, far in ((32, 128), (8, 20), (64, 256)):
            sizes = {"bidirectional": both, "n_buckets": n, "max_distance": far}
            named = ", ".join(f"{name}={value}" for name, value in sizes.items())
            clear = [r for r in range(-150, 151) if _bucket(r, **sizes) is not None]
            grid = np.array(clear[:280]).reshape(14, 20)
            want = np.array([_bucket(r, **sizes) for r in clear[:280]])
            got = t5_bucket(grid, **sizes)
            expect_shape(got, (14, 20), f"the buckets of a grid, with {named},", axes="T S")
            got = np.ravel(got)
            first = np.argmax(got != want)  # 0 where none is wrong
            what = f"the bucket of relative position {clear[first]}, with {named},"
            expect(got[first], want[first], what)
