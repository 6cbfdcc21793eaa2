"""Judges "Check the ids" (chapter 08): ids that the model cannot read raise an error that helps.

Axis: T positions.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.shapes import Integer


def check_ids(
    ids: Integer[np.ndarray, "*B T"], vocab_size: int, context_length: int
) -> Integer[np.ndarray, "*B T"]:
    """Returns the ids unchanged, if a model with that vocabulary and that context can read them."""
    T = ids.shape[-1]
    if context_length < T:
        raise ValueError(f"a text of {T} tokens is too long: the context is {context_length}")
    for some in (ids.min(), ids.max()):
        if not 0 <= some < vocab_size:
            raise ValueError(f"id {some} is not in the vocabulary: ids are 0 to {vocab_size - 1}")
    return ids


door = exercise("gpt.check_ids", check_ids, axes="T")

door.case("ids that fit come back as they are", np.array([3, 0, 2]), 5, 8, want=[3, 0, 2])
door.refuses(
    "an id above the vocabulary: ValueError, with the id", np.array([3, 17, 2]), 5, 8,
    what="the id 17 with a vocabulary of 5", names=(17,),
)  # fmt: skip
door.refuses(
    "the id V, since ids count from 0: ValueError", np.array([1, 5, 0]), 5, 8,
    what="the id 5 with a vocabulary of 5", names=(5,),
)  # fmt: skip
door.case("the largest id", np.array([4, 4, 4]), 5, 8, want=[4, 4, 4])
door.refuses(
    "a negative id, which NumPy would count from the end", np.array([0, -3, 1]), 5, 8,
    what="the id -3 with a vocabulary of 5", names=(-3,),
)  # fmt: skip
door.refuses(
    "a text that is too long: ValueError, with its length and the context", np.arange(12) % 5, 5, 8,
    what="12 ids with a context of 8", names=(12, 8),
)  # fmt: skip
door.case("a text exactly as long as the context", np.arange(8) % 5, 5, 8, want=np.arange(8) % 5)
door.case(
    "a batch: the positions are the last axis",
    np.arange(12).reshape(6, 2) % 5, 5, 4, want=np.arange(12).reshape(6, 2) % 5, axes="B T",
)  # fmt: skip
door.also_refuses(np.array([[0, 1], [2, 7]]), 5, 4, what="an id 7 in the second of two texts", names=(7,))
door.also_refuses(np.array([0, 1, 2, 3, 4, 5]), 5, 8, what="the id 5 at the sixth position", names=(5,))
door.also_refuses(
    np.arange(12).reshape(2, 6) % 5, 5, 4, what="two texts of 6 ids with a context of 4", names=(6, 4)
)
