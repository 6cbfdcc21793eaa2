"""Judges "The slope of GELU" (chapter 09): the slope of the exact GELU."""

import math

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.shapes import Float


def gelu_slope(x: Float[np.ndarray, "*B"]) -> Float[np.ndarray, "*B"]:
    """The slope of x · Φ(x): Φ(x) + x · φ(x)."""
    below = (1 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2))) / 2
    return below + x * np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)


bend = exercise("back.gelu_slope", gelu_slope)
bend.case("at 0: one half", np.array([0.0]), want=[0.5])
bend.case(
    "at 1: Φ(1) + φ(1)", np.array([1.0]), want=[0.8413447460685429 + 0.24197072451914337], being="Φ(1) + φ(1)"
)
_want = [0.15865525393145707 - 0.24197072451914337, 0.3085375387259869 - 0.5 * 0.3520653267642995]
bend.case("below 0, where the slope becomes negative", np.array([-1.0, -0.5]), want=_want)
bend.case("far from 0, the slope is 0 or 1", np.array([-40.0, 40.0]), want=[0.0, 1.0])
bend.case("any shape", np.array([[[0.0, 1.0, 0.0]]]), want=[[[0.5, 1.0833154705876863, 0.5]]])


def _tanh_slope(x):
    u = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    t = np.tanh(u)
    return (1 + t) / 2 + x / 2 * (1 - t**2) * math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x**2)


bend.mistake("tanh", _tanh_slope)
bend.mistake("step", lambda x: (x > 0) * 1.0)
