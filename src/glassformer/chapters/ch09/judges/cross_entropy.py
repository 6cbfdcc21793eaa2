"""Judges "The loss" (chapter 09): the mean surprise at the targets, from logits of any size.

Axes: T positions, V vocabulary.
"""

import math
from typing import Any

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.shapes import Float, Integer

from .slopes import drawn


def cross_entropy(logits: Float[np.ndarray, "T V"], targets: Integer[np.ndarray, " T"]) -> np.floating:
    """Mean surprise at the targets, in nats, from logits of any size."""
    top = logits.max(axis=-1, keepdims=True)
    total = top[:, 0] + np.log(np.exp(logits - top).sum(axis=-1))
    return (total - logits[np.arange(len(targets)), targets]).mean()


surprise = exercise("back.cross_entropy", cross_entropy)


def _surprise(logits: Any, targets: Any) -> float:
    """From the definition; no logit may be large."""
    return math.fsum(
        math.log(math.fsum(math.exp(z) for z in row)) - row[target]
        for row, target in zip(logits, targets, strict=True)
    ) / len(targets)


_z = np.array([[0.0, 0.0]])
surprise.case("two equal logits: the logarithm of 2", _z, np.array([1]), want=math.log(2), being="ln 2")
_z = np.array([[math.log(3), 0.0]])
surprise.case("a target with a probability of 3/4", _z, np.array([0]), want=math.log(4 / 3), being="−ln ¾")
surprise.case("the mean of four positions", drawn(4, 7), np.array([6, 0, 3, 3]), want=_surprise)
_t = np.array([2, 0, 1, 1, 0, 2, 2, 0, 1])
surprise.case("more positions than entries", drawn(9, 3, seed=1), _t, want=_surprise)
surprise.case(
    "a logit of 800: exp would be infinite", np.array([[0.0, 800.0], [3.0, 3.0]]), np.array([0, 1]),
    want=(800 + math.log(2)) / 2,
)  # fmt: skip
surprise.also(np.array([[-900.0, -900.0]]), np.array([0]), want=math.log(2))
surprise.also(np.array([[0.0, 800.0], [0.0, 0.0]]), np.array([1, 0]), want=math.log(2) / 2)

surprise.mistake("shifted again", lambda z, t: cross_entropy(z[:-1], t[1:]) if len(t) > 1 else np.float64(0))
