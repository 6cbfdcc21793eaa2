"""Every comparison with code that nobody here wrote, noted: the parity ledger is made of these notes.

`tools/ledger.py` runs the tests that compare, and makes of the notes the data and the page of the book.
"""

import json
import os
from importlib.metadata import version
from itertools import zip_longest
from pathlib import Path

import numpy as np

FOLDER = "GLASSFORMER_LEDGER"  # the variable that names where to write the notes; nowhere unless it is set
TORCH = f"torch {version('torch').split('+')[0]}"
TRANSFORMERS = f"transformers {version('transformers')}"
TINY = float(np.finfo(np.float64).tiny)  # 0 / TINY is 0, where 0 / 0 would be NaN


def largest_difference(ours, theirs):
    """Max |Δ|; NaN and shapes that differ are faults, and never pass for a small difference."""
    return float(np.abs(np.subtract(*_checked(ours, theirs))).max())


def largest_relative_difference(ours, theirs, floor=TINY):
    """Max |Δ| / (|theirs| + floor): where theirs is smaller than the floor, the floor is what |Δ| is held to."""
    ours, theirs = _checked(ours, theirs)
    return float((np.abs(ours - theirs) / (np.abs(theirs) + floor)).max())


def _checked(ours, theirs):
    ours, theirs = (np.asarray(x, np.float64) for x in (ours, theirs))
    assert ours.shape == theirs.shape
    assert np.isfinite(ours).all()
    assert np.isfinite(theirs).all()
    return ours, theirs


def different_ids(ours, theirs):
    """How many ids of two texts are not the same; those that only the longer text has are not."""
    return sum(one != other for one, other in zip_longest(ours, theirs))


def record(component, reference, dtype, room, difference, bound, *, section):
    """Asserts that `component` of `room` differs from `reference` by `bound` at most, in `dtype`, and notes it.

    `reference` names what has the other implementation, with its version: `TORCH` or `TRANSFORMERS`, and in
    brackets what else there is to know. `section` is where the page lists it: one of `SECTIONS` in
    `tools/ledger.py`. The same component, reference and dtype always have the same bound.
    """
    assert difference <= bound, (
        f"{component} in {room}, {dtype}: {difference:.2e} from {reference}, more than {bound:.0e}"
    )
    folder = os.environ.get(FOLDER)
    if folder:
        note = {
            "section": section,
            "component": component,
            "reference": reference,
            "dtype": dtype,
            "room": room,
            "difference": float(difference),
            "bound": float(bound),
        }
        with (Path(folder) / f"{os.getpid()}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(note) + "\n")
