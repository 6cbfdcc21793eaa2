"""The slope of each number by itself, which is right in chapter 09, and checks that compare gradients with it.

The forward passes are written for complex numbers, and an imaginary nudge that is far too small to change anything else
comes out as nudge times slope, exact to the last digits: there is no difference of two nearly equal numbers. Source:
Squire and Trapp 1998, "Using complex variables to estimate derivatives of real functions".
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from glassformer.exercises.exercise import Exercise
from glassformer.exercises.material import numbers


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    """Returns numbers of this chapter's own."""
    return numbers(*shape, seed=(9, seed))


NUDGE = 1e-100


def slopes_of(forward: Callable, inputs: Sequence[Any], grad: Any = None) -> list[np.ndarray]:
    """Returns the gradient of every array among `inputs`; `grad` is the gradient of what `forward` returns."""
    inputs = [x.astype(complex) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x for x in inputs]
    found = []
    for x in (x for x in inputs if isinstance(x, np.ndarray) and x.dtype.kind == "c"):
        slopes = np.empty(x.shape)
        for place in np.ndindex(x.shape):
            x[place] += NUDGE * 1j
            y = forward(*inputs)
            slopes[place] = np.sum(y.imag if grad is None else y.imag * grad) / NUDGE
            x[place] = x[place].real
        found.append(slopes)
    return found


def softmax_rows(scores: Any) -> np.ndarray:
    """Returns the softmax of each row."""
    powers = np.exp(scores - scores.real.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def slopes_case(of: Exercise, title: str, forward: Callable, *inputs: Any, **options: Any) -> None:
    """Adds a check: with some gradient of what `forward` returns, the gradients of these inputs are right."""
    grad = drawn(*forward(*inputs, **options).shape, seed=99)

    def want(grad: np.ndarray, *inputs: Any, **options: Any) -> Any:
        found = slopes_of(partial(forward, **options), inputs, grad)
        return found if of.parts else found[0]

    of.case(title, grad, *inputs, want=want, what=f"{of.reference.__name__}(…)", **options)
