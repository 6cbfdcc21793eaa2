"""Judges "A text in several parts" (chapter 16): from what queries read in each part, what they read in all.

Axes: n parts, T positions asking, S positions answering, U features of a value.
"""

import math

import numpy as np

from glassformer.chapters.ch03.judges.by_hand import attended
from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import as_numbers, expect, expect_parts
from glassformer.exercises.material import numbers
from glassformer.scratch.pieces import merge
from glassformer.shapes import Float


def merge_parts(
    mixed: Float[np.ndarray, "n T U"], lse: Float[np.ndarray, "n T"]
) -> tuple[Float[np.ndarray, "T U"], Float[np.ndarray, " T"]]:
    """Returns what queries read in the whole text, of which each part has been read separately, and log Σ exp."""
    whole = np.logaddexp.reduce(lse)
    finite = np.maximum(whole, np.finfo(float).min)  # −∞ where no part has a key that the query sees
    shares = np.exp(lse - finite)
    return (shares[..., None] * mixed).sum(axis=0), whole


merging = exercise("long.merge", merge_parts, built_on=(merge,), parts=("mixed", "lse"), axes=("T U", "T"))

_NO = -math.inf


def _case(title, mixed, lse, want, whole, what):
    arrays = (np.array(one, dtype=float) for one in (mixed, lse))
    merging.case(title, *arrays, want=(np.array(want, dtype=float), np.array(whole, dtype=float)), what=what)


_two, _three, _four, _six, _twelve = (math.log(one) for one in (2, 3, 4, 6, 12))
_title = "the part with three times the sum gets three quarters"
_case(_title, [[[6, 1]], [[2, 9]]], [[_four], [_twelve]], [[3, 7]], [math.log(16)], "sums of 4 and 12")
_title, _sums = "three parts: an eighth, three eighths and a half", [[_two], [_six], [3 * _two]]
_case(_title, [[[8, 0]], [[0, 8]], [[2, 4]]], _sums, [[2, 5]], [math.log(16)], "sums of 2, 6 and 8")
_title = "each query has its own shares"
_case(
    _title, [[[6, 1], [6, 1], [8, 4]], [[2, 9], [2, 9], [4, 2]]], [[_four, _twelve, 0], [_twelve, _four, 0]],
    [[3, 7], [5, 3], [6, 3]], [math.log(16), math.log(16), _two], "three queries",
)  # fmt: skip
_case("", [[[6, 1], [2, 9]]], [[_four, _twelve]], [[6, 1], [2, 9]], [_four, _twelve], "a single part")


def _read(q, k, v):
    """Returns what queries read in these keys, and log Σ exp(score)."""
    scores = [[sum(a * b for a, b in zip(row, key, strict=True)) / len(row) ** 0.5 for key in k] for row in q]
    return attended(q, k, v)[0], np.array([math.log(math.fsum(map(math.exp, row))) for row in scores])


_q, _k, _v = numbers(4, 3), numbers(12, 3, seed=1), numbers(12, 2, seed=2)
_cut = [_read(_q, _k[rows], _v[rows]) for rows in (slice(0, 6), slice(6, 7), slice(7, 10), slice(10, 12))]
merging.case(
    "the parts give what the whole text gives", *map(np.array, zip(*_cut, strict=True)),
    want=_read(_q, _k, _v), what="parts of 6, 1, 3 and 2 keys",
)  # fmt: skip
_case(
    "large and small sums, side by side", [[[6, 1]] * 3, [[2, 9]] * 3],
    [[1000, -1000, 800], [1000 + _three, _three - 1000, -800]], [[3, 7], [3, 7], [6, 1]],
    [1000 + _four, _four - 1000, 800], "sums near exp(1000) and exp(−1000)",
)  # fmt: skip
_case(
    "a part in which a query saw nothing counts for nothing",
    [[[6, 1], [0, 0]], [[0, 0], [0, 0]], [[0, 0], [2, 9]]], [[_four, _NO], [_NO, _NO], [_NO, _twelve]],
    [[6, 1], [2, 9]], [_four, _twelve], "two queries, each of which saw something in one part alone",
)  # fmt: skip


@merging.check("where no part has a key that a query sees: zeros, and −∞")
def _(merge_parts):
    mixed, lse = expect_parts(
        merge_parts(np.array([[[0.0] * 3] * 2, [[0.0] * 3, [2.0] * 3]]), np.array([[_NO, _NO], [_NO, 1]])),
        merging.parts,
    )
    saw = "of two queries, the first of which saw no key"
    expect(mixed, [[0.0] * 3, [2.0] * 3], f"mixed {saw},", axes="T U")
    expect(np.isneginf(as_numbers(lse, "lse")), [True, False], f"lse == −∞ {saw},")


@merging.mistake("largest of all")
def _(mixed, lse):
    sums = np.exp(lse - lse.max())
    total = sums.sum(axis=0)
    return (sums[..., None] * mixed).sum(axis=0) / total[:, None], lse.max() + np.log(total)
