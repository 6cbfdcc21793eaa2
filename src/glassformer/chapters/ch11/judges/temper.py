"""Judges "Warmer, colder" (chapter 11): logits are divided by a temperature, and 0 leaves only the likeliest.

Axis: V vocabulary.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.scratch.attention import softmax
from glassformer.shapes import Float

from .strategies import left_case, logits_of


def temper(logits: Float[np.ndarray, "*B V"], temperature: float | int) -> Float[np.ndarray, "*B V"]:
    """Returns the logits divided by the temperature; at 0, only the likeliest, and of several equal ones the first."""
    if temperature > 0:
        return logits / temperature
    first = logits.argmax(axis=-1, keepdims=True) == np.arange(logits.shape[-1])
    return np.where(first, 0.0, -np.inf)


warm = exercise("generating.temper", temper)

_p, _four = logits_of(0.75, 0.25), logits_of(16.0, 4.0, 1.0, 1.0) + 3.0
_rows, _tie = np.stack([logits_of(0.2, 0.8), logits_of(0.5, 0.5)]), np.array([1.0, 3.0, 3.0])
for _title, _z, _T, _want, _said in (
    ("at temperature 1 nothing changes", _p, 1.0, [0.75, 0.25], "temper(logits, 1)"),
    ("at 1/2, a ratio of 3 to 1 becomes its square, 9 to 1", _p, 0.5, [0.9, 0.1], "temper(logits, 0.5)"),
    ("at 2, ratios become their roots, whatever is added to all logits", _four, 2.0,
     [0.5, 0.25, 0.125, 0.125], "temper(logits, 2)"),
    ("a batch: each row on its own", _rows, 0.5, [[1 / 17, 16 / 17], [0.5, 0.5]], "temper of two rows at 0.5"),
    ("at 0, the likeliest id gets all the probability; in a tie, the first one does", _tie, 0,
     [0.0, 1.0, 0.0], "temper([1, 3, 3], 0)"),
    ("", np.array([[-4.0, -2.0], [5.0, 1.0]]), 0, [[0.0, 1.0], [1.0, 0.0]], "temper of two rows at 0"),
):  # fmt: skip
    left_case(warm, _title, _z, _T, want=_want, said=_said)


_DIVIDED = "logits / temperature"
warm.slip("on probabilities", _DIVIDED, "softmax(logits) / temperature", softmax=softmax)
warm.slip("softmax twice", _DIVIDED, "softmax(logits / temperature)", softmax=softmax)
