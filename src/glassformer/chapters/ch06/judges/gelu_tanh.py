"""Judges "GELU as in GPT-2" (chapter 06): GELU's approximation with tanh."""

import math
from functools import partial

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import expect
from glassformer.exercises.material import numbers
from glassformer.scratch.feedforward import gelu, gelu_tanh

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


near.mistake("exact", lambda x: gelu(x).astype(x.dtype))
