"""Notes every comparison with independent code; the parity ledger is made from these notes.

`tools/ledger.py` runs the tests that compare, and turns their notes into the data and the page of the book.
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
weekly = False  # whether the test that runs is not part of every run
TINY = float(np.finfo(np.float64).tiny)  # 0 / TINY is 0, where 0 / 0 would be NaN


def largest_difference(ours, theirs):
    """Returns max |Δ|; NaN and different shapes are errors, and never count as a small difference."""
    return float(np.abs(np.subtract(*_checked(ours, theirs))).max())


def largest_relative_difference(ours, theirs, floor=TINY):
    """Returns max |Δ| / (|theirs| + floor), so tiny values are compared with the floor instead of with themselves."""
    ours, theirs = _checked(ours, theirs)
    return float((np.abs(ours - theirs) / (np.abs(theirs) + floor)).max())


def _checked(ours, theirs):
    ours, theirs = (np.asarray(x, np.float64) for x in (ours, theirs))
    assert ours.shape == theirs.shape
    assert np.isfinite(ours).all()
    assert np.isfinite(theirs).all()
    return ours, theirs


def different_ids(ours, theirs):
    """Returns how many ids of two texts differ, without counting ids that only the longer text has."""
    return sum(one != other for one, other in zip_longest(ours, theirs))


def record(component, reference, dtype, room, difference, bound, *, section):
    """Asserts that `component` of `room` differs from `reference` by at most `bound`, in `dtype`, and notes it.

    `reference` names the library with the other implementation, and its version: `TORCH` or `TRANSFORMERS`, with any
    details in brackets. `section` is the section of the page that lists it: one of `SECTIONS` in `tools/ledger.py`. The
    same component, reference and dtype always have the same bound.
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
            "weekly": weekly,
        }
        with (Path(folder) / f"{os.getpid()}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(note) + "\n")
