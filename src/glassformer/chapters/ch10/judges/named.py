"""Weights and gradients under their names, as the judges of chapter 10 hand them over and expect them."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from glassformer.exercises.expect import Wrong

Weights = dict[str, np.ndarray]


def expect_names(value: Any, names: Iterable[str], what: str) -> Mapping[str, Any]:
    """A dictionary with these names, or `Wrong`."""
    if not isinstance(value, Mapping):
        raise Wrong(f"{what} should be a dictionary with an array for each name.")
    if set(value) != set(names):
        theirs = sorted(map(str, value))
        said = f"{what} should have the names {', '.join(names)}; yours has {', '.join(theirs)}."
        raise Wrong(said, what=f"{what}: its names", got=(" ".join(theirs),))
    return value
