"""Judges "The nucleus" (chapter 11): only the likeliest tokens that together reach the probability p are kept.

Axis: V vocabulary.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import as_numbers, expect
from glassformer.scratch.attention import softmax
from glassformer.shapes import Float

from .strategies import FIVE, left_case, logits_of


def top_p(logits: Float[np.ndarray, "*B V"], p: float | int) -> Float[np.ndarray, "*B V"]:
    """Keeps the fewest of the likeliest ids that together reach the probability p; returns −inf for all others."""
    order = np.argsort(-logits, axis=-1, kind="stable")
    shares = np.take_along_axis(softmax(logits), order, axis=-1)
    before = np.cumsum(shares, axis=-1) - shares  # what those likelier than it have together
    out = np.empty(logits.shape, dtype=bool)
    np.put_along_axis(out, order, before >= p, axis=-1)
    return np.where(out, -np.inf, logits)


nucleus = exercise("generating.top_p", top_p)

_rows, _two = np.stack([logits_of(0.9, 0.04, 0.03, 0.02, 0.01), FIVE]), [0, 4 / 7, 0, 3 / 7, 0]
_want = [[1, 0, 0, 0, 0], np.array([0.1, 0.4, 0, 0.3, 0.15]) / 0.95]
for _title, _z, _p, _left, _said in (
    ("the id that crosses p stays: 0.4 and 0.3 are less than 0.8", FIVE, 0.8,
     np.array([0, 0.4, 0, 0.3, 0.15]) / 0.85, "top_p(logits, 0.8)"),
    ("the likeliest always stays", FIVE, 0.01, [0.0, 1, 0, 0, 0], "top_p(logits, 0.01)"),
    ("a certain distribution keeps one id, an uncertain one many", _rows, 0.87, _want, "top_p of two rows, p = 0.87"),
    ("logits far from 0 mean the same", FIVE - 7, 0.6, _two, "top_p(negative logits, 0.6)"),
    ("at 1 everything stays", FIVE, 1.0, softmax(FIVE), "top_p(logits, 1)"),
):  # fmt: skip
    left_case(nucleus, _title, _z, _p, want=_left, said=_said)


@nucleus.check("no more than needed: two of four equally likely ids already add up to one half")
def _(learner):
    logits = as_numbers(learner(np.zeros(4), 0.5), "top_p([0, 0, 0, 0], 0.5)")
    kept = np.array(int((softmax(logits) > 0).sum()))
    expect(kept, np.array(2), "how many top_p([0, 0, 0, 0], 0.5) keeps")
