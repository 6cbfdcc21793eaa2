"""Judges "Which LayerNorm is it?" (chapter 05): a test that tells three versions of LayerNorm apart."""

import math
from typing import Any

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import expect

from .norms import Norm, changed_layer_norm


def which_norm(norm: Norm) -> str:
    """Returns which of three norms this is, from its output for a varied row and for a nearly constant one."""
    lively, even = np.array([1.0, 0, 0, 0]), np.array([1.0, 1, 1, 1.001])
    if abs(norm(lively)).max() < 1.6:  # 1.5, where the others give 1.73
        return "unbiased"
    return "inside" if abs(norm(even)).max() < 1 else "outside"


which = exercise("stream.which_norm", which_norm)


def _plain(**changed: Any) -> Norm:
    """A norm without gain and shift, with ε = 1e-5."""
    return lambda x: changed_layer_norm(np.asarray(x, dtype=np.float64), **changed)


which.case("√(σ² + ε)", _plain(), want="inside", what="`which_norm` for √(σ² + ε)")
which.case("σ + ε", _plain(inside=False), want="outside", what="`which_norm` for σ + ε")
which.case(
    "√(D/(D − 1)·σ² + ε)", _plain(ddof=1), want="unbiased", what="`which_norm` for the unbiased version"
)


@which.check("asked again, it gives the same answer")
def _(which_norm):
    for changed, name in (({"ddof": 1}, "unbiased"), ({}, "inside"), ({"inside": False}, "outside")):
        expect(which_norm(_plain(**changed)), name, f"`which_norm` for the version called {name}")


def _by(ask, names):
    """A wrong answer: the first name whose bound the largest number for the row is below."""

    def wrong(norm):
        largest = abs(norm(np.array(ask))).max()
        return next(name for name, bound in names if largest < bound)

    return wrong


which.mistake("lively only", _by([1.0, 0, 0, 0], [("unbiased", 1.6), ("inside", math.inf)]))
which.mistake("even only", _by([1.0, 1, 1, 1.001], [("inside", 1), ("outside", math.inf)]))
which.mistake(
    "swapped", lambda norm: {"inside": "outside", "outside": "inside"}.get(which_norm(norm), "unbiased")
)
which.mistake("smaller", _by([1.0, 0, 0, 0], [("inside", 1.6), ("unbiased", math.inf)]))
which.mistake("row", lambda norm: norm(np.array([1.0, 0, 0, 0])))
