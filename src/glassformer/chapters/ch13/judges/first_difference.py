"""Judges "The first array that differs" (chapter 13): the name of the first array in which two lists differ."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from glassformer.exercises.catalogue import exercise


def first_difference(
    one: Sequence[tuple[str, np.ndarray]], other: Sequence[tuple[str, np.ndarray]], tolerance: float
) -> str:
    """Returns the name of the first array that is not the same in both, or "" if all are."""
    for (name, a), (_, b) in zip(one, other, strict=False):
        if a.shape != b.shape or not np.allclose(a, b, rtol=0, atol=tolerance):
            return name
    return ""


first = exercise("real.first_difference", first_difference)


def _run(**arrays: Any) -> list[tuple[str, np.ndarray]]:
    return [(name, np.array(array, dtype=float)) for name, array in arrays.items()]


_RIGHT = {"q": [[1.0, 2.0]], "k": [[0.5, 3.0]], "scores": [[-1.0, 4.0]], "stream": [[7.0, 8.0]]}


def _case(
    title: str, what: str, want: str, one: Any = _RIGHT, tolerance: float = 1e-6, **changed: Any
) -> None:
    """The next check: `changed` arrays of the second run. Without a title, one more call in the check before."""
    first.case(title, _run(**one), _run(**one | changed), tolerance, want=want, what=what)


_what = "where k is off by 0.01 and everything after it by more"
_case("the first, not the largest", _what, "k", k=[[0.5, 3.01]], scores=[[-1.0, 8.5]], stream=[[9.0, 8.0]])
_case("two equal lists: an empty string", "of two equal runs", "")
_title, _what = "a number that is too small also counts as a difference", "where a score is too small"
_case(_title, _what, "scores", scores=[[-1.2, 4.0]], stream=[[0.0, 8.0]])
_title = "rounding does not count as a difference"
_case(_title, "where q is off by 1e-9", "stream", q=[[1.0, 2.0 + 1e-9]], stream=[[7.0, 8.2]])
_what = "where q is off by exactly the tolerance, 0.5"
_case("", "with a tolerance of 0.5", "scores", tolerance=0.5, q=[[1.0, 2.3]], scores=[[-1.0, 4.9]])
_case("", _what, "scores", tolerance=0.5, q=[[1.0, 2.5]], scores=[[-1.0, 4.9]])
_title = "an absolute difference, however large the numbers are"
_what = "where 1000 is off by 0.005, with a tolerance of 0.001"
_case(_title, _what, "q", {"q": [1000.0, 1.0], "k": [2.0]}, 1e-3, q=[1000.005, 1.0], k=[2.5])
_many, _what = {"q": np.zeros(2000), "k": np.zeros(9)}, "where one of 2,000 numbers is off by 0.01"
_case("one number among many", _what, "q", _many, 1e-3, q=np.eye(1, 2000)[0] / 100, k=np.ones(9))
_lost = {"k": [[0.5, np.nan]], "scores": [[np.nan, np.nan]], "stream": [[np.nan, np.nan]]}
_case("NaN counts as a difference", "where k has a NaN", "k", **_lost)
_LOST = {"q": [1.0, 2.0], "k": [np.nan, 3.0], "scores": [4.0]}
_case("", "where k has a NaN in both", "k", _LOST, scores=[4.5])
_case("", "where k has a NaN against 0", "k", _LOST, k=[0.0, 3.0], scores=[4.5])
_MASKED = {"q": [1.0, 2.0], "scores": [[0.5, -np.inf], [1.0, 2.0]], "stream": [3.0, 4.0]}
_title = "−∞ under the mask in both runs is not a difference"
_case(_title, "where both have a score of −∞", "stream", _MASKED, stream=[3.0, 4.1])
_case("", "where the other has no −∞", "scores", _MASKED, scores=[[0.5, 0.0], [1.0, 2.0]])
_what = "where q has the shapes (2, 3) and (1, 3)"
_case(
    "different shapes count as a difference",
    _what,
    "q",
    {"q": np.ones((2, 3)), "k": [1.0]},
    q=np.ones((1, 3)),
)


@first.mistake("largest")
def _(one, other, tolerance):
    off = [np.nan_to_num(np.where(a == b, 0.0, abs(a - b)), nan=9e9).max() if a.shape == b.shape else 9e9
           for (_, a), (_, b) in zip(one, other, strict=False)]  # fmt: skip
    return one[int(np.argmax(off))][0] if max(off) > tolerance else ""
