"""Judges "Before the first step" (chapter 14): a test for the loss of a model that knows nothing yet.

Axes: T positions, V vocabulary.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.shapes import Float, Integer

from .ward import Bed, put_to_ward


def knows_nothing(logits: Float[np.ndarray, "B T V"], targets: Integer[np.ndarray, "B T"]) -> bool:
    """Returns whether the loss is within a tenth of ln V, padding left out."""
    counted = targets != -100
    z = logits[counted]
    z = z - z.max(axis=-1, keepdims=True)
    log_p = z - np.log(np.exp(z).sum(axis=-1, keepdims=True))
    loss = -log_p[np.arange(len(z)), targets[counted]].mean()
    return bool(abs(loss - np.log(logits.shape[-1])) < 0.1)


start = exercise("clinic.knows_nothing", knows_nothing)


def _first(V, lift=0.0, other=0.0, padding=False, high=0.0, near=0.0, at_padding=0.0):
    rng = np.random.default_rng(V)
    targets = rng.integers(0, V, (2, 6))
    logits = near * rng.normal(size=(2, 6, V)) + high
    logits += lift * np.eye(V)[targets] + other * np.eye(V)[(targets + 1) % V]
    if padding:
        targets[:, 3:] = -100
        logits[:, 3:, 0] += at_padding
    return logits, targets


put_to_ward(start, {
    "untrained models pass: 65 characters, 8, or 2": [
        Bed("65 characters, all logits 0", _first(65), True),
        Bed("8 characters, all logits 0", _first(8), True),
        Bed("2 characters, small random logits", _first(2, near=0.05), True),
        Bed("all logits 3, which gives the same probabilities as 0", _first(8, high=3.0), True),
    ],
    "a model that knows the answers fails, even if it knows them only a little": [
        Bed("each answer's logit is 4 higher", _first(65, lift=4.0), False),
        Bed("each answer's logit is 0.3 higher", _first(65, lift=0.3), False),
        Bed("each answer's logit is 2.524 higher", _first(65, lift=2.524), False),
        Bed("8 characters, each answer's logit is 3.611 higher", _first(8, lift=3.611), False),
    ],
    "a model that is confident and wrong fails, too": [
        Bed("another logit is 8 higher", _first(65, other=8.0), False),
        Bed("another logit is 3 higher", _first(65, other=3.0), False),
        Bed("8 characters, another logit is 2.572 higher", _first(8, other=2.572), False),
    ],
    "padding does not count": [
        Bed("untrained; half the targets are padding", _first(65, padding=True), True),
        Bed("one that knows the answers; half the targets are padding", _first(65, lift=4.0, padding=True), False),
        Bed("untrained, but confident of character 0 at padding", _first(65, padding=True, at_padding=20.0), True),
    ],
})  # fmt: skip
