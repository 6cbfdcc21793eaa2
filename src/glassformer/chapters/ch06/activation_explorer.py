"""Activation functions to explore: their values, their slopes, and how a gate combines two numbers."""

from typing import NamedTuple

import numpy as np
from traitlets import Enum

from glassformer.scratch.feedforward import SLOPES, relu, relu2, silu
from glassformer.widgets.kit.view import Number, View

VIEWS = ("curves", "gate")
CURVES = {one.__name__: one for one in SLOPES if one is not relu2}  # which only other models have
FURTHEST = 4.0  # of the curves' number, from zero
WIDEST = 3.0  # of a gated neuron's two numbers
MAGNIFIED = (1, 10, 100, 1000)


class Activated(NamedTuple):
    """One number after each activation, with the slope there."""

    values: dict[str, float]
    slopes: dict[str, float]


class Gated(NamedTuple):
    """A gated neuron, how it follows each of its two numbers, and what ReLU makes of one."""

    product: float  # silu(gate) · up
    by_gate: float  # its slope along the gate
    by_up: float  # its slope along the other
    relu: float  # of `up`


class ActivationExplorer(View, module="activation_explorer"):
    """ReLU, both GELUs and SiLU with their slopes; or a gated neuron as the product of two numbers.

    Pointing into a drawing moves the point there; so do the sliders.

    Source: Hendrycks and Gimpel 2016, "Gaussian Error Linear Units"; Shazeer 2020, "GLU Variants Improve
    Transformer". Derived in chapter 06.

    Traits:
        show: "curves", activations of one number; "gate", SwiGLU's combination of two.
        curve: which one is selected: "relu", "gelu" (exact), "gelu_tanh" or "silu".
        x: the number that the activation is applied to, −4 to 4.
        magnified: how many times larger the difference of the two GELUs is drawn: 1, 10, 100 or 1,000.
        gate, up: the two numbers of a gated neuron, −3 to 3.

    Raises:
        TraitError: a value outside its range, or none of the choices.
    """

    show = Enum(VIEWS, "curves").tag(sync=True)
    curve = Enum(tuple(CURVES), "gelu").tag(sync=True)
    x = Number(-0.75, min=-FURTHEST, max=FURTHEST).tag(sync=True)
    magnified = Enum(MAGNIFIED, 1).tag(sync=True)
    gate = Number(1.5, min=-WIDEST, max=WIDEST).tag(sync=True)
    up = Number(-2.0, min=-WIDEST, max=WIDEST).tag(sync=True)

    def activated(self) -> Activated:
        """Computes what the curves show at `x`, with `glassformer.scratch`."""
        x = np.array([self.x])
        values = {name: float(curve(x)[0]) for name, curve in CURVES.items()}
        slopes = {name: float(SLOPES[curve](x)[0]) for name, curve in CURVES.items()}
        return Activated(values, slopes)

    def gated(self) -> Gated:
        """Computes what the gate shows at `gate` and `up`, with `glassformer.scratch`."""
        gate, up = np.array([self.gate]), np.array([self.up])
        opened = float(silu(gate)[0])
        return Gated(opened * self.up, float(SLOPES[silu](gate)[0]) * self.up, opened, float(relu(up)[0]))
