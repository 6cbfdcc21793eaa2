"""Judges "The loss of some positions" (chapter 12): the average loss over the positions that have a target.

Axes: B batch, T positions, V vocabulary.
"""

import math

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.scratch.attention import softmax
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


mean.case(
    "two of three positions have a target, each with a probability of one half",
    np.zeros((3, 2)), np.array([1, -100, 0]),
    want=math.log(2),
)  # fmt: skip
mean.case(
    "a position without a target does not count, whatever its logits are",
    np.log(np.array([[0.25, 0.75], [1e-30, 1.0], [0.5, 0.5]])), np.array([0, -100, 1]),
    want=math.log(8) / 2,
)  # fmt: skip
_z, _t = numbers(2, 6, 5), np.array([[4, 1, 0, 2, 3, 3], [2, 0, -100, -100, -100, -100]])
mean.case(
    "two texts, one of them mostly padding: every target counts the same", _z, _t, want=_by_hand(_z, _t)
)
mean.case("all positions have a target", _z[0], _t[0], want=_by_hand(_z[0], _t[0]))
_z, _t = 4000 + numbers(4, 3, seed=3), np.array([-100, 0, 2, -100])
mean.case("logits so large that exp would overflow", _z, _t, want=_by_hand(_z, _t))
_z = 4000 * numbers(4, 3, seed=3)
mean.case(
    "logits so far apart that p would become 0, although its logarithm is finite",
    _z,
    _t,
    want=_by_hand(_z, _t),
)


def _each(logits, targets):
    """Returns −ln p of every target, and 0 where there is none."""
    p = logits - logits.max(axis=-1, keepdims=True)
    p = p - np.log(np.exp(p).sum(axis=-1, keepdims=True))
    found = -np.take_along_axis(p, np.maximum(targets, 0)[..., None], axis=-1)[..., 0]
    return np.where(targets == NO_TARGET, 0, found)


@mean.mistake("padding asked")
def _(logits, targets):
    return float(_each(logits, np.where(targets == NO_TARGET, 0, targets)).mean())


@mean.mistake("counted from the end")
def _(logits, targets):
    return float(_each(logits, targets % logits.shape[-1]).mean())


@mean.mistake("text by text")
def _(logits, targets):
    asked = (targets != NO_TARGET).sum(axis=-1)
    return float((_each(logits, targets).sum(axis=-1) / asked).mean())


@mean.mistake("no maximum")
def _(logits, targets):
    with np.errstate(all="ignore"):
        p = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
        asked = targets != NO_TARGET
        return float(-np.log(p[asked][np.arange(asked.sum()), targets[asked]]).mean())


@mean.mistake("log of nothing")
def _(logits, targets):
    asked = targets != NO_TARGET
    with np.errstate(all="ignore"):
        return float(-np.log(softmax(logits[asked])[np.arange(asked.sum()), targets[asked]]).mean())


@mean.mistake("no log")
def _(logits, targets):
    return -float(np.exp(-_each(logits, targets))[targets != NO_TARGET].mean())


@mean.mistake("every target of every row")
def _(logits, targets):
    rows, wanted = logits[targets != NO_TARGET], targets[targets != NO_TARGET]
    return float(np.mean([_each(rows, np.full(len(rows), one)).mean() for one in wanted]))


mean.mistake("id 0 not asked", lambda logits, targets: float(_each(logits, targets)[targets > 0].mean()))
mean.mistake("over all", lambda logits, targets: float(_each(logits, targets).mean()))
mean.mistake("sum", lambda logits, targets: float(_each(logits, targets).sum()))
mean.mistake(
    "sign", lambda logits, targets: -float(_each(logits, targets).sum() / (targets != NO_TARGET).sum())
)
mean.mistake("bits", lambda x, t: float(_each(x, t).sum() / (t != NO_TARGET).sum() / math.log(2)))
