"""A stage of the capstone: its words, its checks in teaching order, and how failures are told apart."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .adapter import Own, Told
from .words import Words, stages

# Single precision after a few blocks; a mistake is off by a hundred times as much.
CLOSE = 1e-4
ROUNDED = 3e-6  # relative; a sum of some hundred numbers in another order is off by a tenth of this

AXES = {"H": "head", "T": "position", "K": "feature", "V": "id"}

Check = Callable[[Own], None]


@dataclass(frozen=True)
class Stage:
    """One stage. A check gets the reader's design, and raises `Wrong` if something is wrong with it."""

    name: str
    checks: list[tuple[str, Check]] = field(default_factory=list)

    @property
    def words(self) -> Words:
        """The words about this stage."""
        return stages()[self.name]

    def check(self, title: str) -> Callable[[Check], Check]:
        """Decorate a function to make it the next check."""

        def add(function: Check) -> Check:
            self.checks.append((title, function))
            return function

        return add


def close(got: Any, want: Any, tolerance: float = CLOSE) -> bool:
    """Returns whether the two agree up to single precision."""
    got, want = np.asarray(got, dtype=np.float64), np.asarray(want, dtype=np.float64)
    if got.shape != want.shape:
        return False
    scale = max(1.0, float(np.abs(want[np.isfinite(want)]).max(initial=0.0)))
    with np.errstate(all="ignore"):
        same = (got == want) | (np.isnan(got) & np.isnan(want)) | (np.abs(got - want) <= tolerance * scale)
    return bool(same.all())


def differs(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Returns the rows in which two arrays differ by more than single precision rounds.

    Fresh weights are small, so what attention contributes is small, too: far below `CLOSE`.
    """
    apart = np.abs(got - want).reshape(len(want), -1).max(axis=1)
    return np.flatnonzero(~(apart <= ROUNDED * float(np.abs(want).max(initial=1e-30))))


def leaks(changed: np.ndarray, at: int, what: str) -> None:
    """Raises `Told` if rows before `at` have changed when only that row of the input did."""
    early = [int(row) for row in changed if row < at]
    if not early:
        return
    listed = ", ".join(map(str, early))
    if len(early) > 7 and len(early) == at - early[0]:
        listed = f"{early[0]} to {at - 1}"
    message = f"{what} {at} was replaced, and {'row' if len(early) == 1 else 'rows'} {listed} of the result changed."
    if early == [0]:
        raise Told(
            f"{message} Only the first position sees everything, as it does if all its scores are hidden.",
            "mask-of-self",
        )
    if early == [at - 1]:
        raise Told(message, "mask-one-ahead")
    if len(early) == at:
        later = [int(row) for row in changed if row > at]
        raise Told(message, "leak-all" if later else "mask-transposed")
    raise Told(message, "leak")


def changed_by(own: Own, ids: np.ndarray, at: int) -> np.ndarray:
    """Replaces the id at a position, and returns the rows of the logits that have changed.

    Raises:
        Told: an earlier one is among them.
    """
    other = ids.copy()
    other[at] = (ids[at] + 1) % own.vocab_size
    changed = differs(own.logits(other), own.logits(ids))
    leaks(changed, at, "id")
    return changed


@contextlib.contextmanager
def masked_sometimes(T: int, right: int) -> Iterator[None]:
    """Tells that T positions see what follows, where `right` positions did not."""
    try:
        yield
    except Told as told:
        seen = str(told).split(". ")[0]
        raise Told(
            f"with {right} positions none sees a later one; but with {T}, {seen}.", "mask-at-times"
        ) from told


def ends_alike(own: Own, ids: np.ndarray) -> None:
    """Raises `Told` if the first rows of the logits change when the text ends after them."""
    whole = own.logits(ids)
    for n in (1, 5):
        if not close(own.logits(ids[:n]), whole[:n]):
            raise cut_short(n)


def cut_short(n: int) -> Told:
    """Returns the failure of a design whose first rows depend on whether anything follows them."""
    changed = "the first row changes if all later ones are removed."
    if n > 1:
        changed = f"the first {n} rows change if all later ones are removed."
    return Told(changed, "over-positions")


def steady(own: Own, ids: np.ndarray) -> None:
    """Raises `Told` if the same ids have different logits the second time."""
    if not close(own.logits(ids), own.logits(ids)):
        raise Told("the same ids gave two different results.", "dropout-in-evaluation")


def name_it(got: Any, message: str, candidates: Iterable[tuple[str, Any]], tolerance: float = CLOSE) -> None:
    """Raises `Told` with the first mistake whose result is the reader's; returns if there is none."""
    with np.errstate(all="ignore"):
        for mistake, value in candidates:
            if close(got, value() if callable(value) else value, tolerance):
                raise Told(message, mistake)


def largest(got: np.ndarray, want: np.ndarray, axes: str) -> str:
    """Describes where two arrays are farthest apart: "position 2, id 5 should be 0.1; yours is 0.3"."""
    with np.errstate(all="ignore"):
        apart = np.where(np.isnan(got), np.inf, np.abs(got - want))
    at = np.unravel_index(int(apart.argmax()), want.shape)
    place = ", ".join(f"{AXES[letter]} {i}" for letter, i in zip(axes.split(), at, strict=True))
    return f"the number at {place} should be {want[at]:.5g}; yours is {got[at]:.5g}."
