"""Judges "The surprise" (chapter 02): the mean surprise at the targets, from logits of any size.

Axes: T tokens, V vocabulary.
"""

import math

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import expect
from glassformer.exercises.material import numbers
from glassformer.scratch.loss import cross_entropy
from glassformer.shapes import Float, Integer


def surprise(logits: Float[np.ndarray, "T V"], targets: Integer[np.ndarray, " T"]) -> float:
    """Returns the mean of −ln p(target), in nats, with p = softmax(logits)."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    totals = np.log(np.exp(shifted).sum(axis=1))
    return (totals - shifted[np.arange(len(targets)), targets]).mean()


loss = exercise("tokens.surprise", surprise, built_on=(cross_entropy,))

_zeros, _targets = np.zeros((3, 65)), np.array([0, 64, 7])
loss.case(
    "65 equal logits give ln 65, whatever the target", _zeros, _targets, want=math.log(65), being="ln 65"
)
_odds = np.log([[3.0, 1.0], [1.0, 1.0]])
loss.case(
    "three to one gives −ln 3/4, and even gives −ln 1/2",
    _odds[:1], np.array([0]), want=math.log(4 / 3), being="ln 4/3",
)  # fmt: skip
loss.also(_odds[:1], np.array([1]), want=math.log(4), being="ln 4")
loss.also(_odds, np.array([0, 1]), want=(math.log(4 / 3) + math.log(2)) / 2, being="(ln 4/3 + ln 2) / 2")


@loss.check("adding a number to a whole row changes nothing")
def _(surprise):
    logits, targets = numbers(4, 6), np.array([5, 0, 3, 3])
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    want = -np.log(np.prod([p[0, 5], p[1, 0], p[2, 3], p[3, 3]])) / 4
    expect(surprise(logits, targets), want, "surprise(logits, targets)")
    expect(surprise(logits + 5, targets), want, "surprise(logits + 5, targets)")


loss.case(
    "large logits: 1000 against 999 means odds of e to 1", np.array([[1000.0, 999.0]]), np.array([0]),
    want=math.log(1 + math.exp(-1)), what="the surprise of logits 1000 and 999, target 0,",
)  # fmt: skip
loss.also(
    np.array([[1000.0, 0.0]]), np.array([1]), want=1000.0,
    what="the surprise for the logits 1000 and 0 and the target 1,",
)  # fmt: skip
loss.case(
    "each row on its own, however far apart the rows are", np.array([[1000.0, 999.0], [0.0, 0.0]]),
    np.array([0, 1]), want=(math.log(1 + math.exp(-1)) + math.log(2)) / 2,
    what="the surprise of logits [[1000, 999], [0, 0]], targets [0, 1],",
)  # fmt: skip
