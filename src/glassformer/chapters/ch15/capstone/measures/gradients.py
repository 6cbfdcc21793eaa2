"""Compares gradients with finite differences that estimate their own error.

A central difference with the step h is wrong in three ways. Rounding adds about ε |loss| / h, which grows as h shrinks;
the loss's curvature and the kinks of functions such as ReLU add something that grows with h; and if a kink is nearer
than h, the slopes on the two sides differ, and their average is neither. Which step is good thus depends on the
precision, the size of the weights and the model. So several steps are taken: a gradient that agrees with one of them,
where rounding is small, is right, and it is wrong only if it is much farther from the slope than neighbouring steps,
and the two sides, are from each other.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from glassformer.exercises.expect import as_numbers

from ..adapter import GPT
from .loud import loud_weights

DOUBLE = (1e-5, 1e-6, 1e-4, 1e-3, 1e-2, 1e-1)  # steps relative to the size of the weights, the best one first
SINGLE = (1e-2, 3e-2, 3e-3, 1e-1, 1e-3)
AGREES = 2e-3  # relative; a mistake in a gradient is off by a hundred times as much
ROUNDINGS = 8.0  # of the last digit, in a difference of two losses
VISIBLE = 0.1  # rounding above this share of the slope leaves nothing to see
SURE = 5.0  # a gradient is wrong if it is off by so many times the estimated error
UNIT = 1e-2  # the size of weights that are all 0

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Slope:
    """The slope of a loss along one direction, and the one that a gradient predicts.

    Attributes:
        measured: by finite differences, with the most trustworthy step.
        predicted: by the gradient.
        error: the estimated error of `measured`.
        agrees: whether they agree with one step at least.
    """

    measured: float
    predicted: float
    error: float
    agrees: bool = False

    @property
    def wrong(self) -> bool:
        """Returns whether the gradient is wrong for certain. Between this and `agrees`, nothing can be said."""
        gap, size = abs(self.measured - self.predicted), max(abs(self.measured), abs(self.predicted))
        return not self.agrees and gap > AGREES * size + SURE * self.error


def gradients_of(gpt: GPT, ids: np.ndarray, targets: np.ndarray) -> Arrays:
    """Returns the reader's gradients, but those that are None: PyTorch's, of a weight that the loss does not reach."""
    return {
        name: np.array(as_numbers(one, f"the gradient of `{name}`"), dtype=np.float64)
        for name, one in gpt.arrays("gradients", ids, targets).items()
        if one is not None
    }


def slopes_of(gpt: GPT, ids: np.ndarray, targets: np.ndarray, weights: Arrays) -> dict[str, Slope]:
    """Measures the loss's slope along each of these weights, and compares it with the gradient, or 0 if it has none.

    Some mistakes cannot be seen at the first weights, such as a gain that is left out while all gains are 1. A backward
    pass that is right is so at any weights, so they are made loud if that is possible.
    """
    loss = partial(gpt.number, "loss", ids, targets)

    def slopes() -> dict[str, Slope]:
        gradients, measured = gradients_of(gpt, ids, targets), {}
        for name, weight in weights.items():
            gradient = gradients.get(name, np.zeros(weight.shape))
            measured[name] = _slope(loss, weight, gradient, seed=0)
            if measured[name].wrong:  # it is certain if it is wrong along another direction, too
                again = _slope(loss, weight, gradient, seed=1)
                measured[name] = measured[name] if again.wrong else again
        return measured

    with loud_weights(gpt, lambda: gpt.logits(ids)):
        return slopes()


def _slope(loss: Callable[[], float], weight: np.ndarray, gradient: np.ndarray, seed: int) -> Slope:
    """Measures the slope along half of a weight's entries, each the way its gradient points, where it shows best."""
    rng = np.random.default_rng(seed)
    uphill = np.where(gradient == 0, rng.choice([-1.0, 1.0], size=gradient.shape), np.sign(gradient))
    way = uphill * (rng.random(gradient.shape) < 0.5)
    kept = weight.copy()
    scale = float(np.sqrt(np.mean(np.square(kept, dtype=np.float64)))) or UNIT
    length = float(np.linalg.norm(gradient * (way != 0)))
    single = weight.dtype.itemsize < 8
    at: dict[float, Slope] = {}
    here = loss()
    try:
        for relative in SINGLE if single else DOUBLE:
            ends, losses = [], []
            for sign in (1, -1):
                weight[...] = kept + (sign * relative * scale * way).astype(weight.dtype)
                ends.append(weight.astype(np.float64))  # rounded: the step that was really taken
                losses.append(loss())
            double = 2 * relative * scale
            measured = (losses[0] - losses[1]) / double
            predicted = float((gradient * (ends[0] - ends[1])).sum()) / double
            in_single = single or all(float(np.float32(one)) == one for one in losses)
            precision = float(np.finfo(np.float32 if in_single else np.float64).eps)
            rounding = ROUNDINGS * precision * max(1.0, *map(abs, losses)) / double
            size = max(length, abs(measured), abs(predicted))
            if abs(measured - predicted) <= AGREES * size and rounding <= VISIBLE * size:
                return Slope(measured, predicted, rounding, agrees=True)
            # Across a kink that is nearer than any step, the slopes on the two sides differ however small the step.
            kink = abs(losses[0] + losses[1] - 2 * here) / double
            at[relative] = Slope(measured, predicted, rounding + kink)
    finally:
        weight[...] = kept
    return min((_with_neighbours(at, i) for i in range(len(at))), key=lambda one: one.error)


def _with_neighbours(at: dict[float, Slope], i: int) -> Slope:
    """Returns what the i-th step measured; how far the neighbouring steps are from it adds to its error."""
    slopes = [at[relative] for relative in sorted(at)]
    apart = max(abs(slopes[i].measured - one.measured) for one in slopes[max(i - 1, 0) : i + 2])
    return Slope(slopes[i].measured, slopes[i].predicted, slopes[i].error + apart)
