"""Judges "A bag of characters" (chapter 14): a test that a model uses the order of its tokens.

Axis: T positions.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.shapes import Integer

from .models import BEFORE, TEXT, Model, V, causal_model
from .ward import Bed, put_to_ward


def order_matters(model: Model, ids: Integer[np.ndarray, " T"]) -> bool:
    """Returns whether the last row changes when the tokens before the last are put in another order."""
    other = ids.copy()
    other[:-1] = np.roll(ids[:-1], 1)
    return bool(np.abs(model(ids)[-1] - model(other)[-1]).max() > 1e-4)


order = exercise("clinic.order_matters", order_matters)

PALINDROME = np.array([1, 2, 3, 2, 1, 4])
TWINS = np.array([3, 3, 1, 0, 2])  # the first two are equal
IN_ORDER = np.array([0, 1, 2, 3, 4])
_PAIRS = np.array([1, 2, 1, 2, 4])


def _mean_alone(ids):
    """An encoder that knows nothing but which characters occur."""
    return np.broadcast_to(BEFORE[np.asarray(ids)].mean(axis=0), (len(ids), V))


put_to_ward(order, {
    "models that use the order pass": [
        Bed("a correct model", (causal_model(), TEXT), True),
        Bed("a correct model for which positions matter little", (causal_model(places=0.01), TEXT), True),
        Bed("a correct model for which positions matter most", (causal_model(places=9.0, own=0.0), TEXT), True),
    ],
    "for every text": [
        Bed("a correct model and a past that reads the same backwards", (causal_model(), PALINDROME), True),
        Bed("a correct model and a text that begins with two equal characters", (causal_model(), TWINS), True),
        Bed("a correct model and a past that is in order: 0 1 2 3", (causal_model(), IN_ORDER), True),
        Bed("a correct model and a past that repeats after two: 1 2 1 2", (causal_model(), _PAIRS), True),
        Bed("a correct model whose likeliest character changes", (causal_model(places=9.0, own=0.0), PALINDROME), True),
        # Asked so often, a shuffle by chance leaves the two as they are once
        *[Bed("a correct model and a text of three characters", (causal_model(), np.array([1, 2, 4])), True)] * 8,
    ],
    "a decoder for which the past is a bag fails": [
        Bed("the past is a bag", (causal_model(places=0.0), TEXT), False),
        Bed(
            "a model to which the past is a bag, and which ignores the last character",
            (causal_model(places=0.0, own=0.0), TEXT), False,
        ),
    ],
    "and so does an encoder": [
        Bed("the whole text is a bag", (_mean_alone, TEXT), False),
        Bed("an encoder: the own character and a bag", (causal_model(places=0.0, ahead=50), TEXT), False),
    ],
})  # fmt: skip
