"""Judges "SiLU" (chapter 06): SiLU, x times its sigmoid, without overflow."""

import math

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.scratch.feedforward import silu

from .by_hand import of_each, silu_by_hand
from .mistakes import cdf, sigmoid


def _short(x):
    return x / (1 + np.exp(-x))


swish = exercise("feedforward.silu", silu, short=_short, axes="")

swish.case(
    "at 0 it is 0; at ln 3 the sigmoid is 3/4",
    np.array([0.0, math.log(3), -math.log(3)]), want=[0, 0.75 * math.log(3), -0.25 * math.log(3)],
)  # fmt: skip
_x = 2 * numbers(2, 3, 4)
swish.case("each number of a table by itself", _x, want=of_each(silu_by_hand, _x))
swish.case("large numbers do not overflow", np.array([1000.0, -1000.0]), want=[1000.0, 0.0])

swish.mistake("sigmoid alone", sigmoid)
swish.mistake("upside down", lambda x: x * sigmoid(-x))
swish.mistake("times 1.702", lambda x: x * sigmoid(1.702 * x))
swish.mistake("gelu", lambda x: x * cdf(x))
swish.mistake("tanh", lambda x: x * np.tanh(x))
swish.mistake("relu", lambda x: np.maximum(x, 0))


@swish.mistake("overflow")
def _(x):
    with np.errstate(all="ignore"):
        return x * np.exp(x) / (1 + np.exp(x))
