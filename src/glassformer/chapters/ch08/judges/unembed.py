"""Judges "A logit for every entry" (chapter 08): a state's dot product with every token vector.

Axes: T positions, D d_model, V vocabulary.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers, product_by_hand
from glassformer.scratch.attention import softmax
from glassformer.shapes import Float


def unembed(x: Float[np.ndarray, "*B D"], embedding: Float[np.ndarray, "V D"]) -> Float[np.ndarray, "*B V"]:
    """Returns a logit for each entry of the vocabulary: the dot product of the state with the entry's own vector."""
    return x @ embedding.T


head = exercise("gpt.unembed", unembed, axes="T V")


def _dots(x: np.ndarray, embedding: np.ndarray) -> np.ndarray:
    return product_by_hand(x, embedding.T)


head.shape("a logit for each entry of the vocabulary", numbers(5, 4), numbers(7, 4, seed=1), want=(5, 7))
head.case(
    "the logit of an entry is the dot product with its row",
    np.array([[1.0, 2.0, 0.0]]), np.array([[1.0, 0, 0], [0, 1, 0], [1, 1, 5], [0, -3, 1]]),
    want=[[1.0, 2.0, 3.0, -6.0]],
)  # fmt: skip
head.case("random states", numbers(3, 4), numbers(6, 4, seed=1), want=_dots)
head.case(
    "as many entries as features: transposed or not, the shape is right",
    numbers(3, 4, seed=2), numbers(4, 4, seed=3), want=_dots,
)  # fmt: skip
_x, _e = numbers(2, 3, 4, seed=4), numbers(5, 4, seed=5)
head.case("any axes in front", _x, _e, want=_dots, axes="B T V")
head.also(_x[0, 0], _e, want=_dots, axes="V")

head.mistake("softmax", lambda x, E: softmax(x @ E.T))
