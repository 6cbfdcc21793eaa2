"""Judges "GELU, exact" (chapter 06): the exact GELU, x·Φ(x)."""

import math

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.scratch.feedforward import gelu

from .by_hand import gelu_by_hand, of_each
from .mistakes import cdf, sigmoid, tanh_form


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
_x = 2 * numbers(3, 4)
smooth.case("each number of a table by itself", _x, want=of_each(gelu_by_hand, _x))
_x = 2 * numbers(2, 3, 4, seed=1)
smooth.also(_x, want=of_each(gelu_by_hand, _x))

smooth.mistake("share alone", cdf)
smooth.mistake("no root of two", lambda x: x * (1 + of_each(math.erf, x)) / 2)
smooth.mistake("no half", lambda x: x * (1 + of_each(math.erf, x / math.sqrt(2))))
smooth.mistake("no one", lambda x: x * of_each(math.erf, x / math.sqrt(2)) / 2)
smooth.mistake("times root", lambda x: x * (1 + of_each(math.erf, x * math.sqrt(2))) / 2)
smooth.mistake("tanh form", tanh_form)
smooth.mistake("sigmoid", lambda x: x * sigmoid(1.702 * x))
smooth.mistake("silu", lambda x: x * sigmoid(x))
smooth.mistake("density", lambda x: x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi))
smooth.mistake("relu", lambda x: np.maximum(x, 0))
