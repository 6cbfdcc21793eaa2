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


_RIGHT = _run(q=[[1.0, 2.0]], k=[[0.5, 3.0]], scores=[[-1.0, 4.0]], stream=[[7.0, 8.0]])
first.case(
    "the first, not the largest", _RIGHT,
    _run(q=[[1.0, 2.0]], k=[[0.5, 3.01]], scores=[[-1.0, 8.5]], stream=[[9.0, 8.0]]), 1e-6,
    want="k", what="where k is off by 0.01 and everything after it by more",
)  # fmt: skip
first.case("two equal lists: an empty string", _RIGHT, _RIGHT, 1e-6, want="", what="of two equal runs")
first.case(
    "a number that is too small also counts as a difference", _RIGHT,
    _run(q=[[1.0, 2.0]], k=[[0.5, 3.0]], scores=[[-1.2, 4.0]], stream=[[0.0, 8.0]]), 1e-6,
    want="scores", what="where a score is too small",
)  # fmt: skip
first.case(
    "rounding does not count as a difference", _RIGHT,
    _run(q=[[1.0, 2.0 + 1e-9]], k=[[0.5, 3.0]], scores=[[-1.0, 4.0]], stream=[[7.0, 8.2]]), 1e-6,
    want="stream", what="where q is off by 1e-9",
)  # fmt: skip
first.also(
    _RIGHT, _run(q=[[1.0, 2.3]], k=[[0.5, 3.0]], scores=[[-1.0, 4.9]], stream=[[7.0, 8.0]]), 0.5,
    want="scores", what="with a tolerance of 0.5",
)  # fmt: skip
first.also(
    _RIGHT, _run(q=[[1.0, 2.5]], k=[[0.5, 3.0]], scores=[[-1.0, 4.9]], stream=[[7.0, 8.0]]), 0.5,
    want="scores", what="where q is off by exactly the tolerance, 0.5",
)  # fmt: skip
first.case(
    "an absolute difference, however large the numbers are",
    _run(q=[1000.0, 1.0], k=[2.0]), _run(q=[1000.005, 1.0], k=[2.5]), 1e-3,
    want="q", what="where 1000 is off by 0.005, with a tolerance of 0.001",
)  # fmt: skip
first.case(
    "one number among many", _run(q=np.zeros(2000), k=np.zeros(9)), _run(q=np.eye(1, 2000)[0] / 100, k=np.ones(9)),
    1e-3, want="q", what="where one of 2,000 numbers is off by 0.01",
)  # fmt: skip
first.case(
    "NaN counts as a difference", _RIGHT,
    _run(q=[[1.0, 2.0]], k=[[0.5, np.nan]], scores=[[np.nan, np.nan]], stream=[[np.nan, np.nan]]), 1e-6,
    want="k", what="where k has a NaN",
)  # fmt: skip
_LOST = _run(q=[1.0, 2.0], k=[np.nan, 3.0], scores=[4.0])
first.also(
    _LOST, _run(q=[1.0, 2.0], k=[np.nan, 3.0], scores=[4.5]), 1e-6, want="k", what="where k has a NaN in both"
)
first.also(
    _LOST, _run(q=[1.0, 2.0], k=[0.0, 3.0], scores=[4.5]), 1e-6, want="k", what="where k has a NaN against 0"
)
_MASKED = _run(q=[1.0, 2.0], scores=[[0.5, -np.inf], [1.0, 2.0]], stream=[3.0, 4.0])
first.case(
    "−∞ under the mask in both runs is not a difference", _MASKED,
    _run(q=[1.0, 2.0], scores=[[0.5, -np.inf], [1.0, 2.0]], stream=[3.0, 4.1]), 1e-6,
    want="stream", what="where both have a score of −∞",
)  # fmt: skip
first.also(
    _MASKED, _run(q=[1.0, 2.0], scores=[[0.5, 0.0], [1.0, 2.0]], stream=[3.0, 4.0]), 1e-6,
    want="scores", what="where the other has no −∞",
)  # fmt: skip
first.case(
    "different shapes count as a difference",
    _run(q=np.ones((2, 3)), k=np.ones(3)), _run(q=np.ones((1, 3)), k=np.ones(3)), 1e-6,
    want="q", what="where q has the shapes (2, 3) and (1, 3)",
)  # fmt: skip


_SAME = "np.allclose(a, b, rtol=0, atol=tolerance)"
_OFF = "np.where(a == b, 0.0, abs(a - b))"  # −∞ on both sides is no difference


@first.mistake("largest")
def _(one, other, tolerance):
    off = [np.nan_to_num(np.where(a == b, 0.0, abs(a - b)), nan=9e9).max() if a.shape == b.shape else 9e9
           for (_, a), (_, b) in zip(one, other, strict=False)]  # fmt: skip
    return one[int(np.argmax(off))][0] if max(off) > tolerance else ""


first.slip(
    "last", "    for", '    found = ""\n    for', "return name", "found = name", 'return ""', "return found"
)
first.slip("signed", _SAME, "(np.where(a == b, 0.0, b - a) <= tolerance).all()")
first.slip("signed", _SAME, "(np.where(a == b, 0.0, a - b) <= tolerance).all()")
first.slip(
    "infinity passed over", _SAME, "(np.where(np.isinf(a) | np.isinf(b), 0.0, abs(a - b)) <= tolerance).all()"
)
first.slip("nan passes", f"not {_SAME}", f"({_OFF} > tolerance).any()")
first.slip("masked", _SAME, "(abs(a - b) <= tolerance).all()")
first.slip("relative too", "rtol=0, ", "")
first.slip("relative", "rtol=0, atol=tolerance", "rtol=tolerance, atol=0")
first.slip("nan equal", "rtol=0", "equal_nan=True, rtol=0")
first.slip("nan to a number", "allclose(a, b", "allclose(np.nan_to_num(a), np.nan_to_num(b)")
first.slip("at the tolerance", _SAME, f"({_OFF} < tolerance).all()")
first.slip("mean", _SAME, f"{_OFF}.mean() <= tolerance")
first.slip("exactly", _SAME, "np.array_equal(a, b)")
first.slip("tolerance of its own", "atol=tolerance", "atol=1e-6")
first.slip("shapes stretched", f"a.shape != b.shape or not {_SAME}", f"not ({_OFF} <= tolerance).all()")
