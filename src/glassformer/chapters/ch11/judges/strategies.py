"""Checks of what a strategy leaves, compared as the distribution that is drawn from, for chapter 11.

Logits with −inf are compared as probabilities.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from glassformer.exercises.exercise import Exercise
from glassformer.exercises.expect import Wrong, as_numbers, expect, expect_shape
from glassformer.scratch.attention import softmax

NO = -math.inf


def left_case(one: Exercise, title: str, *args: Any, want: Any, said: str) -> None:
    """The next check: softmax of what comes back is `want`. Without a title, one more call in the check before."""

    def step(learner: Callable[..., Any]) -> None:
        logits, right = as_numbers(learner(*args), said).astype(np.float64), np.asarray(want)
        if logits.shape != right.shape:
            expect_shape(logits, right.shape, said)
        if np.isnan(logits).any() or (logits == math.inf).any() or (logits.max(axis=-1) == NO).any():
            raise Wrong(f"{said} leaves nothing to draw from: {logits.tolist()}.", what=said, got=0)
        expect(softmax(logits), right, f"softmax of {said}")

    one.check(title)(step) if title else one.checks[-1].steps.append(step)


def logits_of(*p: float) -> np.ndarray:
    """Logits whose softmax is p."""
    return np.log(np.array(p))


FIVE = logits_of(0.1, 0.4, 0.05, 0.3, 0.15)
