"""Judges "A stack" (chapter 01): every sublayer reads the stream and adds to it.

Axes: T tokens, D d_model.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.shapes import Float


def run(
    x: Float[np.ndarray, "T D"], sublayers: Sequence[Callable[[np.ndarray], np.ndarray]]
) -> Float[np.ndarray, "T D"]:
    """The stream after all sublayers: each reads it and adds to it."""
    for sublayer in sublayers:
        x = x + sublayer(x)
    return x


stack = exercise("machine.stack", run, axes="T D")


_double, _square, _one = partial(np.multiply, 2), np.square, np.ones_like
_x = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
stack.case(
    "one sublayer adds what it makes of the stream", _x, [_square], want=_x + _x**2, what="one that squares"
)
stack.case(
    "the second reads what the first has added",
    np.array([[1.0, 2.0]]), [_double, _square], want=[[12.0, 42.0]], what="one that doubles, then one that squares",
)  # fmt: skip
stack.case(
    "the order is that of the list, and none is left out",
    np.array([[1.0, 2.0]]), [_square, _one, _double], want=[[9.0, 21.0]],
    what="one that squares, one that gives 1, one that doubles",
)  # fmt: skip
stack.case("without sublayers the stream comes out as it went in", _x, [], want=_x, what="run(x, [])")
