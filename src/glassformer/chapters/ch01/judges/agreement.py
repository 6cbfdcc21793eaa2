"""Judges "When has it made up its mind?" (chapter 01).

How often each stage already predicts what the last stage predicts.

Axes: T tokens, V vocabulary, L blocks.
"""

from collections.abc import Sequence

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.shapes import Float


def agreement(views: Float[np.ndarray, "L T V"]) -> Float[np.ndarray, " L"]:
    """Returns, for each stage, the fraction of positions where its likeliest token is that of the last stage."""
    likeliest = np.argmax(views, axis=-1)
    return (likeliest == likeliest[-1]).mean(axis=-1)


agree = exercise("machine.agreement", agreement, axes="L")


def _views(*likeliest: Sequence[int], V: int = 5) -> np.ndarray:
    """Logits whose largest is where it is asked for, and whose smallest is the next one."""
    at = np.array(likeliest)
    views = np.random.default_rng(at.size).normal(size=(*at.shape, V))
    np.put_along_axis(views, at[..., None], 6.0, axis=-1)
    np.put_along_axis(views, (at[..., None] + 1 + np.arange(len(at))[:, None, None]) % V, -6.0, axis=-1)
    return views


agree.case(
    "by hand: at four places, two stages agree with the last at one and at three",
    _views([4, 4, 4, 3], [0, 1, 4, 3], [0, 1, 2, 3]), want=[0.25, 0.75, 1.0], what="agreement of three stages",
)  # fmt: skip
agree.case(
    "what counts is the last stage, not the one before",
    _views([2, 2, 0, 1, 3], [2, 2, 0, 1, 3], [1, 2, 0, 4, 4]), want=[0.4, 0.4, 1.0],
    what="agreement where the last changes much",
)  # fmt: skip
agree.case(
    "it is the likeliest token that is compared, whatever its logit",
    _views([1, 1], [1, 1]) * np.array([1.0, 30.0])[:, None, None], want=[1.0, 1.0],
    what="agreement where one stage is surer",
)  # fmt: skip
agree.case(
    "an early stage may agree although a later one does not",
    _views([0, 1, 2, 3], [0, 4, 4, 3], [0, 1, 4, 3], [0, 1, 2, 3]), want=[1.0, 0.5, 0.75, 1.0],
    what="agreement where places leave and return",
)  # fmt: skip
agree.case(
    "the last stage agrees with itself, everywhere", _views([0, 1, 2, 3]), want=[1.0],
    what="agreement of one stage alone",
)  # fmt: skip
