"""Judges "Clipping" (chapter 10): all gradients are scaled by one factor if together they are too long."""

import math
from collections.abc import Mapping

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import Weights


def clip(gradients: Weights, max_norm: float) -> tuple[dict[str, np.ndarray], float]:
    """All gradients, scaled by one factor if together they are longer than max_norm; and how long they were."""
    norm = math.sqrt(sum(float((g * g).sum()) for g in gradients.values()))
    factor = min(1.0, max_norm / (norm + 1e-6))
    return {name: g * factor for name, g in gradients.items()}, norm


clipped = exercise("training.clip", clip, parts=("gradients", "length before"))


def _clip_case(title: str, gradients: Weights, max_norm: float, want: Mapping, norm: float) -> None:
    what = f"clip(gradients of length {norm:g}, {max_norm:g})"
    clipped.case(title, gradients, max_norm, want=(want, norm), what=what)


_SHORT = {"a": np.array([0.3]), "b": np.array([[0.0, 0.4]])}
_LONG = {"a": np.array([1e4, 2e4]), "b": np.array([[0.0, -2e4]])}  # what PyTorch adds, 1e-6, is nothing here
_clip_case("a short gradient stays as it is", _SHORT, 1.0, _SHORT, 0.5)
_clip_case("a long one becomes half as long", _LONG, 1.5e4, {"a": [5e3, 1e4], "b": [[0.0, -1e4]]}, 3e4)
_clip_case("or a quarter", _LONG, 7.5e3, {"a": [2.5e3, 5e3], "b": [[0.0, -5e3]]}, 3e4)
_clip_case(
    "each array is short, but together they are too long",
    {name: np.array([8e4, -8e4, 8e4, 8e4]) for name in "abcd"}, 1.6e5,
    {name: [4e4, -4e4, 4e4, 4e4] for name in "abcd"}, 3.2e5,
)  # fmt: skip
_clip_case("a gradient of zeros", {"a": np.zeros(3)}, 1.0, {"a": np.zeros(3)}, 0.0)
