"""The optimizer: from gradients to steps."""

import math
from collections.abc import Collection

import numpy as np

from glassformer import _checks as checks
from glassformer.scratch.layer import Layer


class AdamW:
    """Adam with decoupled weight decay, over all weights of a layer, which it changes in place.

    Every weight has two running means, of its gradient (m) and of the gradient's square (v), both made up for
    starting at 0. A step is learning_rate · m / (√v + eps): about as long for a weight with small gradients as
    for one with large ones. Before it, every weight shrinks by learning_rate · weight_decay of itself, except
    those whose names are in `no_decay`.

    Source: Loshchilov and Hutter 2019, "Decoupled Weight Decay Regularization", algorithm 2. Derived in
    chapter 10.

    Raises:
        ValueError: a number is out of its range, or a name in `no_decay` is not a weight of the layer.
    """

    def __init__(
        self,
        layer: Layer,
        *,
        learning_rate: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        no_decay: Collection[str] = (),
    ) -> None:
        checks.positive("learning_rate", learning_rate)
        for i, beta in enumerate(betas):
            checks.rate(f"betas[{i}]", beta)
        checks.positive("eps", eps)
        checks.not_negative("weight_decay", weight_decay)
        for name in no_decay:
            checks.one_of("no_decay", name, layer.named_parameters())
        self.layer, self.learning_rate, self.betas, self.eps = (
            layer,
            learning_rate,
            betas,
            eps,
        )
        self.weight_decay, self.no_decay = weight_decay, frozenset(no_decay)
        self.n_steps = 0
        self.means: dict[str, tuple[np.ndarray, np.ndarray]] = {}

    def step(self) -> None:
        """Moves every weight that has a gradient."""
        self.n_steps += 1
        beta_m, beta_v = self.betas
        correct_m, correct_v = 1 - beta_m**self.n_steps, 1 - beta_v**self.n_steps
        weights = self.layer.named_parameters()
        for name, gradient in self.layer.gradients().items():
            weight = weights[name]
            if name not in self.means:
                self.means[name] = np.zeros_like(weight), np.zeros_like(weight)
            m, v = self.means[name]
            m += (1 - beta_m) * (gradient - m)
            v *= beta_v
            v += (1 - beta_v) * (gradient * gradient)
            if name not in self.no_decay:
                weight *= 1 - self.learning_rate * self.weight_decay
            weight -= (
                self.learning_rate
                / correct_m
                * m
                / (np.sqrt(v) / math.sqrt(correct_v) + self.eps)
            )


def clip_gradients(layer: Layer, max_norm: float) -> float:
    """Scales all gradients together so that their length is at most `max_norm`; gives the length they had.

    Source: Pascanu et al. 2013, "On the difficulty of training recurrent neural networks", algorithm 1.
    Derived in chapter 10.

    Raises:
        ValueError: `max_norm` is not positive.
    """
    checks.positive("max_norm", max_norm)
    gradients = layer.gradients().values()
    length = math.sqrt(sum(float(np.vdot(g, g)) for g in gradients))
    factor = min(
        1.0, max_norm / (length + 1e-6)
    )  # as torch has it: no division by 0, and never longer
    for gradient in gradients:
        gradient *= factor
    return length
