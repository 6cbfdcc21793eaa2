"""Compares what a design returns with what it should, and with what it returns for other ids."""

from typing import Any

import numpy as np

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


def steady(gpt: GPT, ids: np.ndarray) -> None:
    """Raises `Told` if the same ids have different logits the second time."""
    if not close(gpt.logits(ids), gpt.logits(ids)):
        raise Told("the same ids gave two different results.", "dropout-in-evaluation")


def alone_and_together(gpt: GPT, ids: np.ndarray, other: np.ndarray) -> None:
    """Raises `Told` if a text has other logits in a batch than alone; nothing is seen without `batched`."""
    if not gpt.batched:
        return
    both = np.stack([ids, other])
    shape, what = (*both.shape, gpt.vocab_size), f"`logits` of ids (B, T) = {both.shape}"
    logits = gpt.array("logits", both, axes="B T V", what=what, shape=shape, texts=True)
    for i, one in enumerate((ids, other)):
        if not close(logits[i], gpt.logits(one)):
            raise Told(f"text {i} of two has different logits from those it has alone.", "across-texts")
