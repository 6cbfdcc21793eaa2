"""Judges "SiLU" (chapter 06): SiLU, x times its sigmoid, without overflow."""

import math
from functools import partial

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.scratch.feedforward import gelu, silu

from .by_hand import of_each, silu_by_hand


def _short(x):
    return x / (1 + np.exp(-x))


swish = exercise("feedforward.silu", silu, short=_short, axes="")

swish.case(
    "at 0 it is 0; at ln 3 the sigmoid is 3/4",
    np.array([0.0, math.log(3), -math.log(3)]), want=[0, 0.75 * math.log(3), -0.25 * math.log(3)],
)  # fmt: skip
swish.case("each number of a table by itself", 2 * numbers(2, 3, 4), want=partial(of_each, silu_by_hand))
swish.case("large numbers do not overflow", np.array([1000.0, -1000.0]), want=[1000.0, 0.0])

swish.mistake("gelu", gelu)
