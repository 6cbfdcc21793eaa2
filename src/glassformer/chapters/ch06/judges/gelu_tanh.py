"""Judges "GELU as in GPT-2" (chapter 06): GELU's approximation with tanh."""

import math
from functools import partial

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import expect
from glassformer.exercises.material import numbers
from glassformer.scratch.feedforward import gelu, gelu_tanh, silu

from .by_hand import gelu_tanh_by_hand, of_each


def _short(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


near = exercise("feedforward.gelu_tanh", gelu_tanh, short=_short, axes="")

near.case(
    "by hand: at 1, you need the tanh of 0.8336",
    np.array([1.0, 0.0]), want=[gelu_tanh_by_hand(1.0), 0.0], being="0.8412 and 0",
)  # fmt: skip
_by_hand = partial(of_each, gelu_tanh_by_hand)
near.case("the form that GPT-2 uses", np.array([-3.0, -2.7, -1.5, -0.3, 0.6, 2.2]), want=_by_hand)
near.case("each number of a table by itself", 2 * numbers(2, 3, 4), want=_by_hand)


@near.check("float32 in, float32 out")
def _(gelu_tanh):
    got = np.asarray(gelu_tanh(np.array([-1.0, 0.5, 2.0], dtype=np.float32)))
    fits = np.array_equal(got, got.astype(np.float32))  # a list of numbers has no dtype
    expect("float32" if fits else str(got.dtype), "float32", "the dtype of gelu_tanh for a float32 array")


_INNER = "x + 0.044715 * x**3"
near.mistake("exact", lambda x: gelu(x).astype(x.dtype))
near.slip("no cube", _INNER, "x")
near.slip("square", "x**3", "x**2")
near.slip("no root", "math.sqrt(2 / math.pi)", "2 / math.pi")
near.slip("root of the half", "2 / math.pi", "math.pi / 2")
near.slip("all times the constant", _INNER, "0.044715 * (x + x**3)")
near.slip("no half", "0.5 * ", "")
near.mistake("sigmoid", lambda x: silu(1.702 * x) / 1.702)
near.slip("bracket", f"({_INNER})", _INNER)
near.slip("no one", "(1 + np.tanh", "(np.tanh")
near.slip("root of two", "math.sqrt(2 / math.pi)", "math.sqrt(2) / math.pi")
near.slip("constant slipped", "0.044715", "0.44715")
near.slip("constant cubed", "0.044715 * x**3", "(0.044715 * x) ** 3")
near.slip("widened", "math.sqrt(2 / math.pi)", "np.sqrt(2 / np.pi)")
