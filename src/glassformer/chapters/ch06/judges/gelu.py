"""Judges "GELU, exact" (chapter 06): the exact GELU, x·Φ(x)."""

import math
from functools import partial

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.scratch.feedforward import gelu

from .by_hand import gelu_by_hand, of_each


def _short(x):
    erf = np.vectorize(math.erf, otypes=[float])
    return x * (1 + erf(x / math.sqrt(2))) / 2


smooth = exercise("feedforward.gelu", gelu, short=_short, axes="")

smooth.case("at 0 it is 0", np.array([0.0]), want=[0.0])
smooth.case(
    "at 1 it is Φ(1), and at −1 it is Φ(1) − 1, which is negative",
    np.array([1.0, -1.0]), want=[gelu_by_hand(1.0), gelu_by_hand(1.0) - 1], being="0.8413 and −0.1587",
)  # fmt: skip
smooth.case(
    "the exact form, not the one with tanh",
    np.array([-2.7, -1.9]), want=[gelu_by_hand(-2.7), gelu_by_hand(-1.9)],
    advice="erf is in scipy.special, and in math.",
)  # fmt: skip
smooth.case("each number of a table by itself", 2 * numbers(3, 4), want=partial(of_each, gelu_by_hand))
smooth.also(2 * numbers(2, 3, 4, seed=1), want=partial(of_each, gelu_by_hand))
