"""Judges "GELU as in GPT-2" (chapter 06): GELU's approximation with tanh."""

import math

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import expect
from glassformer.exercises.material import numbers
from glassformer.scratch.feedforward import gelu_tanh

from .by_hand import gelu_tanh_by_hand, of_each
from .mistakes import ROOT, cdf, sigmoid, tanh_form


def _short(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


near = exercise("feedforward.gelu_tanh", gelu_tanh, short=_short, axes="")

near.case(
    "by hand: at 1, you need the tanh of 0.8336",
    np.array([1.0, 0.0]), want=[gelu_tanh_by_hand(1.0), 0.0], being="0.8412 and 0",
)  # fmt: skip
_x = np.array([-3.0, -2.7, -1.5, -0.3, 0.6, 2.2])
near.case("the form that GPT-2 uses", _x, want=of_each(gelu_tanh_by_hand, _x))
_x = 2 * numbers(2, 3, 4)
near.case("each number of a table by itself", _x, want=of_each(gelu_tanh_by_hand, _x))


@near.check("float32 in, float32 out")
def _(gelu_tanh):
    got = np.asarray(gelu_tanh(np.array([-1.0, 0.5, 2.0], dtype=np.float32)))
    fits = np.array_equal(got, got.astype(np.float32))  # a list of numbers has no dtype
    expect("float32" if fits else str(got.dtype), "float32", "the dtype of gelu_tanh for a float32 array")


near.mistake("exact", lambda x: (x * cdf(x)).astype(x.dtype))
near.mistake("no cube", lambda x: tanh_form(x, inner=lambda x: x))
near.mistake("square", lambda x: tanh_form(x, inner=lambda x: x + 0.044715 * x**2))
near.mistake("no root", lambda x: tanh_form(x, root=2 / math.pi))
near.mistake("root of the half", lambda x: tanh_form(x, root=math.sqrt(math.pi / 2)))
near.mistake("all times the constant", lambda x: tanh_form(x, inner=lambda x: 0.044715 * (x + x**3)))
near.mistake("no half", lambda x: tanh_form(x, half=1.0))
near.mistake("sigmoid", lambda x: x * sigmoid(1.702 * x))
near.mistake("bracket", lambda x: x * (1 + np.tanh(ROOT * x + 0.044715 * x**3)) / 2)
near.mistake("no one", lambda x: x * np.tanh(ROOT * (x + 0.044715 * x**3)) / 2)
near.mistake("root of two", lambda x: tanh_form(x, root=math.sqrt(2) / math.pi))
near.mistake("constant slipped", lambda x: tanh_form(x, inner=lambda x: x + 0.44715 * x**3))
near.mistake("constant cubed", lambda x: tanh_form(x, inner=lambda x: x + (0.044715 * x) ** 3))
near.mistake("widened", lambda x: tanh_form(x, root=np.sqrt(2 / np.pi)))
