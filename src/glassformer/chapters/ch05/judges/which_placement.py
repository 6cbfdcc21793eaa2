"""Judges "Which placement is it?" (chapter 05): a test that finds out where a step has its norm."""

from collections.abc import Callable

import numpy as np

from glassformer.exercises.catalogue import exercise

from .norms import Norm
from .two_sublayers import norm_before, norm_behind


def which_placement(step: Callable[[np.ndarray, Norm, Norm], np.ndarray]) -> str:
    """Returns where a step has its norm: asks it with a sublayer that writes nothing and a norm that can be seen."""
    x = np.array([[1.0, 2.0, 3.0]])
    silent = step(x, lambda read: 0 * read, lambda read: 5 * read)
    if np.allclose(silent, x):
        return "pre"
    return "post" if np.allclose(silent, 5 * x) else "none"


places = exercise("stream.which_placement", which_placement)

places.case(
    "x + sublayer(norm(x))", norm_before, want="pre", what="`which_placement` for x + sublayer(norm(x))"
)
places.case(
    "norm(x + sublayer(x))", norm_behind, want="post", what="`which_placement` for norm(x + sublayer(x))"
)
places.case(
    "sublayer(norm(x)): there is no sum",
    lambda x, f, norm: f(norm(np.array(x))), want="none", what="`which_placement` for sublayer(norm(x))",
)  # fmt: skip
places.case(
    "norm(sublayer(x)): no sum here either",
    lambda x, f, norm: norm(f(np.array(x))), want="none", what="`which_placement` for norm(sublayer(x))",
)  # fmt: skip
places.case(
    "the order of the terms does not matter",
    lambda x, f, norm: f(norm(np.array(x))) + x, want="pre", what="`which_placement` for sublayer(norm(x)) + x",
)  # fmt: skip
places.also(
    lambda x, f, norm: norm(f(np.array(x)) + x),
    want="post",
    what="`which_placement` for norm(sublayer(x) + x)",
)


def _asking(f, norm, names):
    """A wrong answer: asks with these two, and names what comes back of [1, 2, 3], or says "none"."""

    def wrong(step):
        x = np.array([[1.0, 2.0, 3.0]])
        got = step(x, f, norm)
        return next((name for name, times in names if np.allclose(got, times * x)), "none")

    return wrong


def _times(a):
    return lambda x: a * np.asarray(x)


places.mistake("norm hidden", _asking(_times(0), _times(1), [("pre", 1), ("post", 1)]))
places.mistake("swapped", _asking(_times(0), _times(5), [("post", 1), ("pre", 5)]))
places.mistake("no sum", _asking(_times(0), _times(5), [("pre", 1), ("post", 0), ("post", 5)]))
places.mistake("sublayer shows", _asking(_times(1), _times(5), [("none", 6), ("post", 10), ("none", 5)]))
