"""Judges "The loss of some positions" (chapter 12): the average loss over the positions that have a target.

Axes: B batch, T positions, V vocabulary.
"""

import math

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.shapes import Float, Integer
from glassformer.tasks import NO_TARGET


def loss(logits: Float[np.ndarray, "*B T V"], targets: Integer[np.ndarray, "*B T"]) -> float:
    """Returns the average −ln p of the targets that are not −100."""
    asked = targets != -100
    rows, wanted = logits[asked], targets[asked]  # (N, V), (N,)
    top = rows.max(axis=-1, keepdims=True)
    log_total = top[:, 0] + np.log(np.exp(rows - top).sum(axis=-1))
    return float((log_total - rows[np.arange(len(wanted)), wanted]).mean())


mean = exercise("families.loss", loss)


def _by_hand(logits: np.ndarray, targets: np.ndarray) -> float:
    """Returns the average −ln p of all targets, one after another."""
    surprises = []
    for row, target in zip(logits.reshape(-1, logits.shape[-1]), targets.flat, strict=True):
        if target != NO_TARGET:
            top = max(row)
            surprises.append(top - row[target] + math.log(math.fsum(math.exp(one - top) for one in row)))
    return math.fsum(surprises) / len(surprises)


_title = "two of three positions have a target, each with a probability of one half"
mean.case(_title, np.zeros((3, 2)), np.array([1, -100, 0]), want=math.log(2))
_title = "a position without a target does not count, whatever its logits are"
_z = [[0.25, 0.75], [1e-30, 1.0], [0.5, 0.5]]
mean.case(_title, np.log(np.array(_z)), np.array([0, -100, 1]), want=math.log(8) / 2)
_z, _t = numbers(2, 6, 5), np.array([[4, 1, 0, 2, 3, 3], [2, 0, -100, -100, -100, -100]])
mean.case("two texts, one of them mostly padding: every target counts the same", _z, _t, want=_by_hand)
mean.case("all positions have a target", _z[0], _t[0], want=_by_hand)
_z, _t = numbers(4, 3, seed=3), np.array([-100, 0, 2, -100])
mean.case("logits so large that exp would overflow", 4000 + _z, _t, want=_by_hand)
_title = "logits so far apart that p would become 0, although its logarithm is finite"
mean.case(_title, 4000 * _z, _t, want=_by_hand)
