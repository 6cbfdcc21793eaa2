"""Right and faulty patients on which the judges of chapter 14 try the learner's test."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from glassformer import _checks as checks
from glassformer.exercises.exercise import Exercise
from glassformer.exercises.expect import Wrong, as_numbers, expect


class Bed(NamedTuple):
    """One patient: its description in words, what the test is handed, and what it should return."""

    who: str
    args: tuple[Any, ...]
    want: Any


def put_to_ward(one: Exercise, beds: dict[str, list[Bed]]) -> None:
    """Adds a check for each part of the ward. A mistake is recognised by its answers on all parts."""

    def check(title: str) -> None:
        @one.check(title)
        def _(learner):
            for bed in beds[title]:
                said = _verdict(learner, bed)
                if said != bed.want:
                    shown = checks.shown(repr(said))
                    raise Wrong(
                        f"{bed.who}: your function should return {bed.want!r}, but it returns {shown}.",
                        what=one.name,
                        got=" ".join(_said(learner, each) for part in beds.values() for each in part),
                    )

    for title in beds:
        check(title)


def _said(learner: Callable[..., Any], bed: Bed) -> str:
    """Returns the verdict as a word, or "–" if the learner's test raises an error."""
    try:
        return str(_verdict(learner, bed))
    except Exception:
        return "–"


def _verdict(learner: Callable[..., Any], bed: Bed) -> Any:
    """Returns the learner's verdict as a Python value: True or False, a whole number, or a word."""
    got = learner(*bed.args)
    what = f"{bed.who}: your result"
    if isinstance(bed.want, str):
        if isinstance(got, np.ndarray) and got.dtype.kind == "U" and got.ndim == 0:
            got = got.item()
        if not isinstance(got, str):
            expect(got, bed.want, what)
        return str(got)
    number = as_numbers(got, what, like=np.asarray(bed.want))
    if number.ndim or number.dtype.kind not in ("b" if isinstance(bed.want, bool) else "biu"):
        expect(got, np.asarray(bed.want), what)
    return number.item()
