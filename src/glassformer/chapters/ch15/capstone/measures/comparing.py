"""Compares what a design returns with what it should, and with what it returns for other ids."""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from glassformer.exercises.expect import Wrong

from ..adapter import GPT, Told

# Single precision after a few blocks; a mistake is off by a hundred times as much.
CLOSE = 1e-4
ROUNDED = 3e-6  # relative; a sum of some hundred numbers in another order is off by a tenth of this

AXES = {"H": "head", "T": "position", "K": "feature", "V": "id"}


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


def largest(got: np.ndarray, want: np.ndarray, axes: str) -> str:
    """Describes where two arrays are farthest apart: "position 2, id 5 should be 0.1; yours is 0.3"."""
    with np.errstate(all="ignore"):
        apart = np.where(np.isnan(got), np.inf, np.abs(got - want))
    at = np.unravel_index(int(apart.argmax()), want.shape)
    place = ", ".join(f"{AXES[letter]} {i}" for letter, i in zip(axes.split(), at, strict=True))
    return f"the number at {place} should be {want[at]:.5g}; yours is {got[at]:.5g}."


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
        raise Told(message, "leak-all" if changed[-1] > at else "mask-transposed")
    raise Told(message, "leak")


def changed_by(gpt: GPT, ids: np.ndarray, at: int) -> np.ndarray:
    """Replaces the id at a position, and returns the rows of the logits that have changed.

    Raises:
        Told: an earlier one is among them.
    """
    other = ids.copy()
    other[at] = (ids[at] + 1) % gpt.vocab_size
    changed = differs(gpt.logits(other), gpt.logits(ids))
    leaks(changed, at, "id")
    return changed


@contextlib.contextmanager
def masked_sometimes(T: int, right: int) -> Iterator[None]:
    """Tells that T positions see what follows, where `right` positions did not."""
    try:
        yield
    except Told as told:
        seen = str(told).split(". ")[0]
        message = f"with {right} positions none sees a later one; but with {T}, {seen}."
        raise Told(message, "mask-at-times") from told


def ends_alike(gpt: GPT, ids: np.ndarray) -> None:
    """Raises `Told` if the first rows of the logits change when the text ends after them."""
    whole = gpt.logits(ids)
    for n in (1, 5):
        if not close(gpt.logits(ids[:n]), whole[:n]):
            raise cut_short(n)


def cut_short(n: int) -> Told:
    """Returns the failure of a design whose first rows depend on whether anything follows them."""
    rows = f"the first {n} rows change" if n > 1 else "the first row changes"
    return Told(f"{rows} if all later ones are removed.", "over-positions")


def steady(gpt: GPT, ids: np.ndarray) -> None:
    """Raises `Told` if the same ids have different logits the second time."""
    if not close(gpt.logits(ids), gpt.logits(ids)):
        raise Told("the same ids gave two different results.", "dropout-in-evaluation")


def alone_and_together(gpt: GPT, ids: np.ndarray, other: np.ndarray) -> None:
    """Raises `Told` if a text has other logits in a batch than alone; nothing is seen without `batched`."""
    if not gpt.batched:
        return
    both = together(gpt, np.stack([ids, other]))
    for i, one in enumerate((ids, other)):
        if not close(both[i], gpt.logits(one)):
            raise Told(f"text {i} of two has different logits from those it has alone.", "across-texts")


def together(gpt: GPT, ids: np.ndarray) -> np.ndarray:
    """Returns the logits of several texts at once, (B, T, V)."""
    with gpt.several_texts():
        found = gpt.array("logits", ids, axes="B T V", what=f"`logits` of {len(ids)} texts")
    want = (*ids.shape, gpt.vocab_size)
    if found.shape != want:
        message = f"`logits` of ids (B, T) = {ids.shape} should have shape (B, T, V) = {want}; yours has {found.shape}."
        if found.shape[:2] == (1, ids.size):
            raise Told(f"{message} So the texts have become one.", "across-texts")
        raise Told(message, "axes-swapped") if sorted(found.shape) == sorted(want) else Wrong(message)
    return found
