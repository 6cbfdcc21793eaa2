"""Measures the slopes of a loss along its weights, and compares them with the reader's gradients."""

from dataclasses import dataclass, replace

import numpy as np

from glassformer.exercises.expect import as_numbers

from ..adapter import GPT
from .loud import loud_weights
from .slopes import Slope, slope, ways

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Texts:
    """A text, and the design whose loss it is."""

    gpt: GPT
    ids: np.ndarray
    targets: np.ndarray

    def loss(self) -> float:
        """Computes the loss with the weights as they are."""
        return self.gpt.number("loss", self.ids, self.targets)


def gradients_of(texts: Texts) -> Arrays:
    """Returns the reader's gradients, but those that are None: PyTorch's, of a weight that the loss does not reach."""
    found = texts.gpt.arrays("gradients", texts.ids, texts.targets)
    return {
        name: np.array(as_numbers(one, f"the gradient of `{name}`"), dtype=np.float64)
        for name, one in found.items()
        if one is not None
    }


def of_another_name(weights: Arrays, name: str, found: Arrays) -> bool:
    """Returns whether a weight is tied to another, under whose name its gradient is."""
    others = (other for other in weights if other != name and other in found)
    return any(np.shares_memory(weights[name], weights[other]) for other in others)


def measured(
    texts: Texts, weight: np.ndarray, gradient: np.ndarray | None, where: np.ndarray | None = None
) -> Slope:
    """Returns the slope along the first direction in which a gradient is certainly wrong, twice; else along any."""
    gradient = np.zeros(weight.shape) if gradient is None else gradient
    found = Slope(0.0, 0.0, np.inf, agrees=False)
    for first, second in zip(ways(gradient, where), ways(gradient, where, seed=1), strict=True):
        found = slope(texts.loss, weight, first, gradient)
        if found.wrong and slope(texts.loss, weight, second, gradient).wrong:
            return found
    return found if found.agrees else replace(found, error=np.inf)  # it is not certain


def measured_loudly(texts: Texts, seen: dict[str, Slope], found: Arrays, weights: Arrays) -> None:
    """Measures slopes again at loud weights, and notes those that are wrong there, or can be seen only there.

    Some slopes cannot be seen at the first weights, such as those of queries while scores are tiny. And some mistakes
    cannot, such as a gain that is left out while all gains are 1. A backward pass that is right is so at any weights.
    """
    with loud_weights(texts.gpt, lambda: texts.gpt.logits(texts.ids)) as changed:
        if not changed:
            return
        louder = gradients_of(texts)
        for name, first in seen.items():
            gradient = louder.get(name)
            if gradient is not None and gradient.shape != weights[name].shape:
                continue
            again = measured(texts, weights[name], gradient)
            if again.wrong or (again.agrees and not first.wrong):
                seen[name], found[name] = (
                    again,
                    np.zeros(weights[name].shape) if gradient is None else gradient,
                )
