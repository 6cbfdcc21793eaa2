"""The slope of each number by itself, which is right in chapter 09, and checks that compare gradients with it.

The forward passes are written for complex numbers, and an imaginary nudge that is far too small to change anything else
comes out as nudge times slope, exact to the last digits: there is no difference of two nearly equal numbers. Source:
Squire and Trapp 1998, "Using complex variables to estimate derivatives of real functions".
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from glassformer.exercises.exercise import Exercise
from glassformer.exercises.expect import Wrong, describe, expect, expect_parts
from glassformer.exercises.material import Weights, numbers


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


def gradients_case(of: Exercise, title: str, *given: Any, want: Callable) -> None:
    """Adds a check of two parts: an array or number, and a gradient for each weight. `want` computes both."""
    wanted = cache(lambda: want(*given))

    @of.check(title)
    def _(learner):
        (first, grads), (right, rights) = expect_parts(learner(*given), of.parts), wanted()
        call = f"{of.reference.__name__}(…)"
        expect(first, right, f"{of.parts[0]} of {call}", axes=of.axes[0] if of.axes else "")
        _expect_gradients(grads, rights, f"{of.parts[1]} of {call}")


def _expect_gradients(got: Any, want: Weights, what: str) -> None:
    """A gradient for each weight, under its name."""
    if not isinstance(got, Mapping):
        raise Wrong(
            f"{what} should be a dictionary, with a gradient for each weight; yours is {describe(got)}."
        )
    for name in want:
        if name not in got:
            raise Wrong(f"{what}: there is no gradient under {name!r}.", what=f"{what}, {name}", got=len(got))
    for name in want:
        expect(got[name], want[name], f"{what} under {name!r}")
    odd = [name for name in got if name not in want]
    if odd:
        raise Wrong(f"{what}: {odd[0]!r} is no weight's name.", what=f"{what}, more", got=len(odd))
