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

_p = logits_of(0.75, 0.25)
left_case(warm, "at temperature 1 nothing changes", _p, 1.0, want=[0.75, 0.25], said="temper(logits, 1)")
left_case(
    warm, "at 1/2, a ratio of 3 to 1 becomes its square, 9 to 1", _p, 0.5,
    want=[0.9, 0.1], said="temper(logits, 0.5)",
)  # fmt: skip
_p = logits_of(16.0, 4.0, 1.0, 1.0) + 3.0
left_case(
    warm, "at 2, ratios become their roots, whatever is added to all logits", _p, 2.0,
    want=np.array([4.0, 2, 1, 1]) / 8, said="temper(logits, 2)",
)  # fmt: skip
_p = np.stack([logits_of(0.2, 0.8), logits_of(0.5, 0.5)])
left_case(
    warm, "a batch: each row on its own", _p, 0.5,
    want=[[1 / 17, 16 / 17], [0.5, 0.5]], said="temper of two rows at 0.5",
)  # fmt: skip
left_case(
    warm, "at 0, the likeliest id gets all the probability; in a tie, the first one does", np.array([1.0, 3.0, 3.0]), 0,
    want=[0.0, 1.0, 0.0], said="temper([1, 3, 3], 0)",
)  # fmt: skip
left_case(
    warm, "", np.array([[-4.0, -2.0], [5.0, 1.0]]), 0,
    want=[[0.0, 1.0], [1.0, 0.0]], said="temper of two rows at 0", also=True,
)  # fmt: skip


_DIVIDED = "logits / temperature"
warm.slip("multiplied", _DIVIDED, "logits * temperature")
warm.slip("on probabilities", _DIVIDED, "softmax(logits) / temperature", softmax=softmax)
warm.slip("softmax twice", _DIVIDED, "softmax(logits / temperature)", softmax=softmax)
warm.slip("ignored", _DIVIDED, "logits")
warm.slip("power of the logits", _DIVIDED, "np.sign(logits) * abs(logits) ** (1 / temperature)")
warm.slip(
    "all of the largest", "logits.argmax(axis=-1, keepdims=True) == np.arange(logits.shape[-1])",
    "logits == logits.max(axis=-1, keepdims=True)",
)  # fmt: skip
warm.slip("zero as one", "np.where(first, 0.0, -np.inf)", "logits")
warm.slip(
    "largest of the batch", "logits.argmax(axis=-1, keepdims=True)",
    "np.full((*logits.shape[:-1], 1), logits.argmax() % logits.shape[-1])",
)  # fmt: skip
