"""Judges "Which placement is it?" (chapter 05): a test that finds out where a step has its norm."""

from collections.abc import Callable

import numpy as np

from glassformer.exercises.catalogue import exercise

from .norms import Norm


def which_placement(step: Callable[[np.ndarray, Norm, Norm], np.ndarray]) -> str:
    """Returns where a step has its norm: asks it with a sublayer that writes nothing and a norm that can be seen."""
    x = np.array([[1.0, 2.0, 3.0]])
    silent = step(x, lambda read: 0 * read, lambda read: 5 * read)
    if np.allclose(silent, x):
        return "pre"
    return "post" if np.allclose(silent, 5 * x) else "none"


def norm_before(x, f, norm):
    """A pre-norm step: the sublayer reads the norm of the stream."""
    return x + f(norm(np.array(x)))  # a copy, for norms that work in place


def norm_behind(x, f, norm):
    """A post-norm step: the norm comes after the sum."""
    return norm(x + f(np.array(x)))


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
    lambda x, f, norm: norm(f(np.array(x)) + x), want="post", what="`which_placement` for norm(sublayer(x) + x)",
)  # fmt: skip
