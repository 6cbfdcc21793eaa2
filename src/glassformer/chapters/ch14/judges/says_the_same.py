"""Judges "Ask twice" (chapter 14): a test that a model gives the same logits twice.

Axis: T positions.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.shapes import Integer

from .models import TEXT, Model, causal_model
from .ward import Bed, put_to_ward


def says_the_same(model: Model, ids: Integer[np.ndarray, " T"]) -> bool:
    """Returns whether the same text gives the same logits twice."""
    return bool(np.abs(model(ids) - model(ids)).max() < 1e-4)


again = exercise("clinic.says_the_same", says_the_same)

put_to_ward(again, {
    "correct models pass": [
        Bed("a correct model", (causal_model(), TEXT), True),
        Bed("a model without positions, which is a different mistake", (causal_model(places=0.0), TEXT), True),
        Bed("a model that sees ahead, which is a different mistake", (causal_model(ahead=1), TEXT), True),
    ],
    "a model with dropout on fails": [
        Bed("noise of size 50", (causal_model(noise=50.0), TEXT), False),
        Bed("noise of size 0.2", (causal_model(noise=0.2), TEXT), False),
    ],
    "even if the noise is small": [
        Bed("noise of size 0.001, which changes no likeliest character", (causal_model(noise=1e-3), TEXT), False),
    ],
    "in any row": [
        Bed("noise only in row 0", (causal_model(noise=0.2, rows=[0]), TEXT), False),
        Bed("noise only in the last row", (causal_model(noise=0.2, rows=[7]), TEXT), False),
    ],
})  # fmt: skip
