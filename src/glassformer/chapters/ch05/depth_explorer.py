"""Depth to explore: a signal and a gradient through many random layers, in three designs at once."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from traitlets import Int

from glassformer.scratch.feedforward import relu, relu_slope
from glassformer.scratch.norm import RMSNorm
from glassformer.widgets.engine.mulberry import uniform
from glassformer.widgets.kit.view import Number, View

WIDTH = 48
DEEPEST = 64
DRAWS = 3
WAYS = ("plain", "residual", "norms")
"""x ← f(x); x ← x + f(x); x ← x + f(norm(x))."""


class Networks(NamedTuple):
    """Random numbers for R networks of L layers; every entry is independent."""

    signals: Float[np.ndarray, "R D"]
    gradients: Float[np.ndarray, "R D"]
    weights: Float[np.ndarray, "R L D D"]


class Sizes(NamedTuple):
    """The root mean square of each draw's vector, for R draws at layers 0 … N."""

    signal: Float[np.ndarray, "R N"]
    gradient: Float[np.ndarray, "R N"]


def networks(seed: int) -> Networks:
    """Three networks of 64 layers, each with a signal to send in and a gradient to send back, both of size 1.

    Each entry of a matrix has mean 0 and variance 2/D, so a ReLU followed by such a matrix preserves the mean
    square on average.

    Source: He et al. 2015, "Delving Deep into Rectifiers", section 2.2.
    """
    drawn = math.sqrt(3) * (2 * uniform(seed, DRAWS * (2 + DEEPEST * WIDTH) * WIDTH) - 1)  # variance 1
    drawn = drawn.reshape(DRAWS, 2 + DEEPEST * WIDTH, WIDTH)
    signals, gradients = (each / _size(each)[:, None] for each in (drawn[:, 0], drawn[:, 1]))
    weights = drawn[:, 2:].reshape(DRAWS, DEEPEST, WIDTH, WIDTH) * math.sqrt(2 / WIDTH)
    return Networks(signals, gradients, weights)


def through(drawn: Networks, way: str, depth: int, gain: float) -> Sizes:
    """Returns the sizes on the way forward through the first `depth` layers, and on the way back by the chain rule."""
    norm = RMSNorm(WIDTH, dtype=np.float64)
    x, reads, saved, signal = drawn.signals, [], [], [_size(drawn.signals)]
    for layer in range(depth):
        reads.append(norm.forward(x, saved) if way == "norms" else x)
        written = gain * np.einsum("ri,rij->rj", relu(reads[-1]), drawn.weights[:, layer])
        x = written if way == "plain" else x + written
        signal.append(_size(x))
    grad, gradient = drawn.gradients, [_size(drawn.gradients)]
    for layer in reversed(range(depth)):
        back = gain * np.einsum("rj,rij->ri", grad, drawn.weights[:, layer]) * relu_slope(reads[layer])
        if way == "norms":
            back = norm.backward(back, saved)
        grad = back if way == "plain" else grad + back
        gradient.append(_size(grad))
    return Sizes(np.stack(signal, axis=1), np.stack(gradient[::-1], axis=1))


def _size(x: Float[np.ndarray, "R D"]) -> Float[np.ndarray, " R"]:
    """The root mean square over the features."""
    return np.sqrt(np.mean(x**2, axis=-1))


class DepthExplorer(View, module="depth_explorer"):
    """Send a signal forward and a gradient back through 2 to 64 layers: plain, residual, residual with norms.

    A layer f is a ReLU and a random matrix, 48 numbers wide. Plain, a layer's output replaces its input; residual,
    it is added; with norms, f reads the input divided by its root mean square (RMSNorm, before the layer). The
    gradient begins at the last layer as a random direction and comes back through the same matrices. Three networks
    are drawn; lines are the median of their sizes, bands reach from the smallest to the largest.

    Source: He et al. 2015, "Delving Deep into Rectifiers", and He et al. 2016, "Identity Mappings in Deep Residual
    Networks". Derived in chapter 05.

    Traits:
        depth: how many layers, 2 to 64.
        gain: what all matrices are multiplied by, 0.5 to 2; at 1 a plain layer keeps the mean square, on average.
        seed: of the random numbers, from 0.

    Raises:
        TraitError: a value outside these ranges.
    """

    depth = Int(64, min=2, max=DEEPEST).tag(sync=True)
    gain = Number(0.8, min=0.5, max=2.0).tag(sync=True)
    seed = Int(1, min=0, max=2**31 - 1).tag(sync=True)

    def computed(self) -> dict[str, Sizes]:
        """Computes what the view draws, with `glassformer.scratch`, for each of the three ways."""
        drawn = networks(self.seed)
        return {way: through(drawn, way, self.depth, self.gain) for way in WAYS}
