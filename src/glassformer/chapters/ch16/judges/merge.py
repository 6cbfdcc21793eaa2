"""Judges "Two halves of a text" (chapter 16): from what queries read in both, what they read in all.

Axes: T positions asking, S positions answering, U features of a value.
"""

import math

import numpy as np

from glassformer.chapters.ch03.judges.by_hand import attended
from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import as_numbers, expect, expect_parts
from glassformer.exercises.material import numbers
from glassformer.scratch.pieces import merge


def _short(mixed_a, lse_a, mixed_b, lse_b):
    lse = np.logaddexp(lse_a, lse_b)
    finite = np.maximum(lse, np.finfo(float).min)  # −∞ where neither saw a key
    share_a, share_b = np.exp(lse_a - finite), np.exp(lse_b - finite)
    return share_a[:, None] * mixed_a + share_b[:, None] * mixed_b, lse


both = exercise("long.merge", merge, short=_short, parts=("mixed", "lse"), axes=("T U", "T"))

_NO = -math.inf


def _case(title, a, lse_a, b, lse_b, want, lse, what=""):
    arrays = (np.array(one, dtype=float) for one in (a, lse_a, b, lse_b))
    both.case(title, *arrays, want=(np.array(want, dtype=float), np.array(lse, dtype=float)), what=what)


_three, _four, _twelve = math.log(3), math.log(4), math.log(12)
_title = "the half with three times the sum gets three quarters"
_case(_title, [[6, 1]], [_four], [[2, 9]], [_twelve], [[3, 7]], [math.log(16)], "sums of 4 and 12")
_title = "each query has its own shares"
_case(
    _title, [[6, 1], [6, 1], [8, 4]], [_four, _twelve, 0], [[2, 9], [2, 9], [4, 2]], [_twelve, _four, 0],
    [[3, 7], [5, 3], [6, 3]], [math.log(16), math.log(16), math.log(2)], "three queries",
)  # fmt: skip


def _read(q, k, v):
    """Returns what queries read in these keys, and log Σ exp(score)."""
    scores = [[sum(a * b for a, b in zip(row, key, strict=True)) / len(row) ** 0.5 for key in k] for row in q]
    return attended(q, k, v)[0], np.array([math.log(math.fsum(map(math.exp, row))) for row in scores])


_q, _k, _v = numbers(4, 3), numbers(9, 3, seed=1), numbers(9, 2, seed=2)
both.case(
    "the two halves give what the whole text gives",
    *_read(_q, _k[:6], _v[:6]), *_read(_q, _k[6:], _v[6:]),
    want=_read(_q, _k, _v), what="six keys and three more",
)  # fmt: skip
_title = "large and small sums, side by side"
_case(
    _title, [[6, 1], [6, 1], [6, 1]], [1000, -1000, 800], [[2, 9], [2, 9], [2, 9]],
    [1000 + _three, _three - 1000, -800], [[3, 7], [3, 7], [6, 1]], [1000 + _four, _four - 1000, 800],
    "sums near exp(1000) and exp(−1000)",
)  # fmt: skip
_title = "a half in which a query saw nothing counts for nothing"
_case(
    _title, [[6, 1], [0, 0]], [_four, _NO], [[0, 0], [2, 9]], [_NO, _twelve],
    [[6, 1], [2, 9]], [_four, _twelve], "two queries, each of which saw nothing in one half",
)  # fmt: skip


@both.check("where neither half saw a key: zeros, and −∞")
def _(merge):
    nothing = np.zeros((2, 3)), np.array([_NO, _NO])
    mixed, lse = expect_parts(
        merge(*nothing, np.array([[0.0] * 3, [2.0] * 3]), np.array([_NO, 1])), both.parts
    )
    saw = "of two queries, the first of which saw no key"
    expect(mixed, [[0.0] * 3, [2.0] * 3], f"mixed {saw},", axes="T U")
    expect(np.isneginf(as_numbers(lse, "lse")), [True, False], f"lse == −∞ {saw},")


@both.mistake("largest of all")
def _(mixed_a, lse_a, mixed_b, lse_b):
    largest = max(lse_a.max(), lse_b.max())
    sum_a, sum_b = np.exp(lse_a - largest)[:, None], np.exp(lse_b - largest)[:, None]
    total = sum_a + sum_b
    return (sum_a * mixed_a + sum_b * mixed_b) / total, largest + np.log(total)[:, 0]
