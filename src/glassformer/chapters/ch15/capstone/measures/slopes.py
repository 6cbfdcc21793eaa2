"""Compares gradients with finite differences that estimate their own error.

A central difference with the step h is wrong in three ways. Rounding adds about ε |loss| / h, which grows as h shrinks;
the loss's curvature and the kinks of functions such as ReLU add something that grows with h; and if a kink is nearer
than h, the slopes on the two sides differ, and their average is neither. Which step is good thus
depends on the precision, the size of the weights and the model. So several steps are taken: a gradient that agrees
with one of them, where rounding is small, is right, and it is wrong only if it is much farther from the slope than
neighbouring steps, and the two sides, are from each other.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

DOUBLE = (1e-5, 1e-6, 1e-4, 1e-3, 1e-2, 1e-1)  # steps relative to the size of the weights, the best one first
SINGLE = (1e-2, 3e-2, 3e-3, 1e-1, 1e-3)
AGREES = 2e-3  # relative; a mistake in a gradient is off by a hundred times as much
ROUNDINGS = 8.0  # of the last digit, in a difference of two losses
VISIBLE = 0.1  # rounding above this share of the slope leaves nothing to see
SURE = 5.0  # a gradient is wrong if it is off by so many times the estimated error
UNIT = 1e-2  # the size of weights that are all 0


@dataclass(frozen=True)
class Slope:
    """The slope of a loss along one direction, and the one that a gradient predicts.

    Attributes:
        found: by finite differences, with the most trustworthy step.
        predicted: by the gradient.
        error: the estimated error of `found`.
        agrees: whether they agree with one step at least.
    """

    found: float
    predicted: float
    error: float
    agrees: bool

    @property
    def wrong(self) -> bool:
        """Returns whether the gradient is wrong for certain. Between this and `agrees`, nothing can be said."""
        gap, size = abs(self.notes - self.predicted), max(abs(self.notes), abs(self.predicted))
        return not self.agrees and gap > AGREES * size + SURE * self.error

    @property
    def flat(self) -> bool:
        """Returns whether the loss does not change visibly along this direction."""
        return abs(self.notes) <= SURE * self.error


def slope(loss: Callable[[], float], weight: np.ndarray, way: np.ndarray, gradient: np.ndarray) -> Slope:
    """Measures a slope, and compares it with the gradient's.

    Args:
        loss: computes the loss with the numbers that are in `weight` now.
        weight: is changed in place, and changed back.
        way: the direction, with entries of about 1.
        gradient: the reader's, in the shape of `weight`.
    """
    kept = weight.copy()
    scale = float(np.sqrt(np.mean(np.square(kept, dtype=np.float64)))) or UNIT
    length = float(np.linalg.norm(gradient * (way != 0)))
    single = weight.dtype.itemsize < 8
    at: dict[float, tuple[float, float, float]] = {}
    here = loss()
    try:
        for relative in SINGLE if single else DOUBLE:
            ends, losses = [], []
            for sign in (1, -1):
                weight[...] = kept + (sign * relative * scale * way).astype(weight.dtype)
                ends.append(weight.astype(np.float64))  # rounded: the step that was really taken
                losses.append(loss())
            double = 2 * relative * scale
            found, predicted = (
                (losses[0] - losses[1]) / double,
                float((gradient * (ends[0] - ends[1])).sum()) / double,
            )
            in_single = single or all(float(np.float32(one)) == one for one in losses)
            precision = float(np.finfo(np.float32 if in_single else np.float64).eps)
            rounding = ROUNDINGS * precision * max(1.0, *map(abs, losses)) / double
            size = max(length, abs(found), abs(predicted))
            if abs(found - predicted) <= AGREES * size and rounding <= VISIBLE * size:
                return Slope(found, predicted, rounding, agrees=True)
            # Across a kink that is nearer than any step, the slopes on the two sides differ however small the step.
            kink = abs(losses[0] + losses[1] - 2 * here) / double
            at[relative] = (found, predicted, rounding + kink)
    finally:
        weight[...] = kept
    return min(_with_errors(at), key=lambda one: one.error)


def _with_errors(at: dict[float, tuple[float, float, float]]) -> Iterator[Slope]:
    """Yields what each step found, with its own error and its distance from the neighbouring steps as its error."""
    steps = sorted(at)
    for i, step in enumerate(steps):
        found, predicted, error = at[step]
        apart = [abs(found - at[other][0]) for other in steps[max(i - 1, 0) : i + 2]]
        yield Slope(found, predicted, error + max(apart), agrees=False)


def ways(gradient: np.ndarray, where: np.ndarray | None = None, seed: int = 0) -> Iterator[np.ndarray]:
    """Yields two directions: half of the entries the way the gradient points, where a slope shows best, then any.

    Args:
        gradient: the reader's.
        where: the entries that may differ from 0; all of them if None.
        seed: other seeds give other directions.
    """
    rng = np.random.default_rng(seed)
    allowed = np.ones(gradient.shape, bool) if where is None else where
    any_way = rng.choice([-1.0, 1.0], size=gradient.shape)
    uphill = np.where(gradient == 0, any_way, np.sign(gradient))
    yield uphill * (rng.random(gradient.shape) < 0.5) * allowed
    yield rng.choice([-1.0, 1.0], size=gradient.shape) * allowed
