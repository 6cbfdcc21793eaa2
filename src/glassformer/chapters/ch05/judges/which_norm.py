"""Judges "Which LayerNorm is it?" (chapter 05): a test that tells three versions of LayerNorm apart."""

from collections.abc import Callable

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import expect

from .layer_norm import layer, layer_norm
from .norms import Norm


def which_norm(norm: Norm) -> str:
    """Returns which of three norms this is, from its output for a varied row and for a nearly constant one."""
    lively, even = np.array([1.0, 0, 0, 0]), np.array([1.0, 1, 1, 1.001])
    if abs(norm(lively)).max() < 1.6:  # 1.5, where the others give 1.73
        return "unbiased"
    return "inside" if abs(norm(even)).max() < 1 else "outside"


which = exercise("stream.which_norm", which_norm)


def _plain(norm: Callable[..., np.ndarray]) -> Norm:
    """A norm without gain and shift, with ε = 1e-5."""
    return lambda x: norm(np.asarray(x, np.float64), np.ones(len(x)), np.zeros(len(x)))


_NORMS = {
    "inside": _plain(layer_norm),
    "outside": _plain(layer.wrong("eps outside")),
    "unbiased": _plain(layer.wrong("unbiased")),
}
which.case("√(σ² + ε)", _NORMS["inside"], want="inside", what="`which_norm` for √(σ² + ε)")
which.case("σ + ε", _NORMS["outside"], want="outside", what="`which_norm` for σ + ε")
which.case(
    "√(D/(D − 1)·σ² + ε)", _NORMS["unbiased"], want="unbiased", what="`which_norm` for the unbiased version"
)


@which.check("asked again, it gives the same answer")
def _(which_norm):
    for name in ("unbiased", "inside", "outside"):
        expect(which_norm(_NORMS[name]), name, f"`which_norm` for the version called {name}")
