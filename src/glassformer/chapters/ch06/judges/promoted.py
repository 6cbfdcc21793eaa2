"""Judges "What does a neuron promote?" (chapter 06): the tokens that a neuron makes likelier.

Axes: D d_model, V vocabulary.
"""

import math

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.shapes import Float, Int


def promoted(
    row: Float[np.ndarray, " D"],
    gain: Float[np.ndarray, " D"],
    head: Float[np.ndarray, "D V"],
    n: int,
    sign: int = 1,
) -> Int[np.ndarray, " n"]:
    """The n ids that a neuron with this row of W_down makes likelier, the strongest first."""
    return np.argsort(-sign * ((row * gain) @ head))[:n]


likelier = exercise("feedforward.promoted", promoted, axes="n")

_head = np.array([[1.0, 0, -1.25, 3, 2], [0, 2, 1, -1.5, 0.25]])
likelier.case(
    "a row that points along the first feature: the head's first row, sorted",
    np.array([1.0, 0]), np.ones(2), _head, 3, want=[3, 4, 0],
)  # fmt: skip
likelier.case(
    "the gain of the last norm comes in between and can change the order",
    np.array([1.0, 1.0]), np.array([0.1, 2.0]), _head, 2, want=[1, 2],
)  # fmt: skip
likelier.case(
    "a negative neuron favours what its row suppresses",
    np.array([1.0, 0]), np.ones(2), _head, 2, sign=-1, want=[2, 1],
)  # fmt: skip


def _sorted_by_hand(row, gain, head, n):
    logits = [math.fsum(a * b * c for a, b, c in zip(row, gain, column, strict=True)) for column in head.T]
    return sorted(range(len(logits)), key=lambda i: -logits[i])[:n]


_r, _g, _h = numbers(4, seed=1), np.array([0.5, -1.5, 2.0, 1.0]), numbers(4, 40, seed=3)
likelier.case("random vectors; a gain may be negative", _r, _g, _h, 12, want=_sorted_by_hand)
likelier.also(_r, _g, _h, 40, want=_sorted_by_hand)
likelier.case(
    "as many tokens as features: the head is (D, V)",
    numbers(3, seed=5), np.ones(3), numbers(3, 3, seed=6), 3, want=_sorted_by_hand,
)  # fmt: skip
