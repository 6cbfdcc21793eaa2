"""Judges "Translate until it stops" (chapter 12): the likeliest token is appended until the stop comes.

Axis: T positions.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import Wrong, as_numbers
from glassformer.shapes import Integer


def translate(
    next_logits: Callable[[np.ndarray], np.ndarray], start_id: int, stop_id: int, n_most: int
) -> Integer[np.ndarray, " _"]:
    """Appends the likeliest id until the stop comes; returns the ids between the start and the stop."""
    ids = [start_id]
    while len(ids) <= n_most:
        new = int(np.argmax(next_logits(np.array(ids))))
        if new == stop_id:
            break
        ids.append(new)
    return np.array(ids[1:], dtype=int)


writing = exercise("families.translate", translate, axes="T")


def _says(*text: int, V: int = 12, start: int = 10, stop: int = 11) -> Callable[[Any], np.ndarray]:
    """Returns a decoder that writes `text` and then the stop, if it reads the start and all that it has written."""

    def next_logits(ids: Any) -> np.ndarray:
        read = [int(one) for one in np.ravel(np.asarray(ids))]
        logits = np.roll(np.linspace(0, 0.5, V), 3)  # id 0 is neither the likeliest nor the unlikeliest
        wanted = [start, *text, stop]
        on_track = read == wanted[: len(read)] and 0 < len(read) < len(wanted)
        logits[wanted[len(read)] if on_track else (sum(read) + len(read)) % start] += 3
        return logits

    return next_logits


writing.case(
    "one id: the likeliest one after the start", _says(4, 2, 7), 10, 11, 1, want=[4], what="translate with n_most = 1",
    advice="`next_logits` returns (V,), a single row, so it needs no `[-1]`.",
)  # fmt: skip
for _title, _text, _most in (
    ("three ids, and then the stop", [4, 2, 7], 8),
    ("an id may occur more than once", [5, 5, 0, 5], 8),
    ("at most `n_most` ids", [1, 2, 3, 4, 5, 6], 4),
    ("just as many as `n_most`", [1, 2, 3], 3),
    ("an id in the middle that equals the start's is kept", [5, 10, 6], 8),
):
    _what = f"translate to {_text} with start 10 and n_most = {_most}"
    writing.case(_title, _says(*_text), 10, 11, _most, want=_text[:_most], what=_what)
writing.case(
    "start and stop have different ids", _says(3, 1, V=9, start=6, stop=0), 6, 0, 5,
    want=[3, 1], what="translate to [3, 1] with start 6, stop 0",
)  # fmt: skip


@writing.check("the stop comes first: nothing is written")
def _(learner):
    got = as_numbers(learner(_says(), 10, 11, 5), "translate to nothing")
    if got.size:  # an empty list has no whole numbers in it, and is right
        said = f"if the stop comes first, nothing should be written; yours is {got.tolist()}."
        raise Wrong(said, what="nothing", got=got)
