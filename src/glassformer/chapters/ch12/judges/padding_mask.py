"""Judges "Hide the padding" (chapter 12): the mask that hides padding from every head and query.

Axes: B batch, T positions, S positions of a source, H heads.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import as_numbers, expect
from glassformer.exercises.material import numbers
from glassformer.scratch.attention import softmax
from glassformer.shapes import Bool, Integer


def padding_mask(lengths: Integer[np.ndarray, " B"], S: int) -> Bool[np.ndarray, "B 1 1 S"]:
    """Returns True at real keys, for scores (B, H, T, S): the same for every head and query."""
    return (np.arange(S) < np.asarray(lengths)[:, None])[:, None, None, :]


padding = exercise("families.padding_mask", padding_mask, axes="B 1 1 S")

_title = "one row for each text; broadcasting adds heads and queries"
padding.shape(_title, np.array([3, 1, 4]), 5, want=(3, 1, 1, 5))
_want = [[[[True, True, True, False, False]]]]
padding.case("the first three of five are real", np.array([3]), 5, want=_want)
padding.case(
    "each text has its own length", np.array([1, 4, 2]), 4,
    want=np.array([[1, 0, 0, 0], [1, 1, 1, 1], [1, 1, 0, 0]], bool)[:, None, None],
)  # fmt: skip


@padding.check("no query gives weight to padding, and each weight row still sums to 1")
def _(learner):
    lengths, scores = np.array([2, 5, 3]), numbers(3, 2, 6, 5)
    mask = as_numbers(learner(lengths, 5), "padding_mask([2, 5, 3], 5)")
    shares = softmax(np.where(mask, scores, -1e9))
    want = np.zeros_like(shares)
    for b, n in enumerate(lengths):
        want[b, ..., :n] = softmax(scores[b, ..., :n])
    expect(shares, want, "softmax of masked scores (B, H, T, S)", axes="B H T S")
