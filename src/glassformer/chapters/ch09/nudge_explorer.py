"""One weight of a small GPT to nudge: the loss, the slope there, and what a finite difference measures."""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from traitlets import Dict, Enum, List, TraitError, default, observe, validate

from glassformer.config import ModelConfig
from glassformer.scratch.loss import cross_entropy, cross_entropy_backward
from glassformer.scratch.model import Transformer
from glassformer.widgets.kit.view import Number, View

WORDS = ["a", "horse", "!", "a", "horse", "!", "my", "kingdom", "for", "a", "horse", "!"]
VOCABULARY = list(dict.fromkeys(WORDS))
IDS = np.array([VOCABULARY.index(word) for word in WORDS])
CONFIG = ModelConfig(
    vocab_size=len(VOCABULARY),
    context_length=len(WORDS),
    d_model=4,
    n_layers=2,
    n_heads=2,
    attention_bias="none",
)
SEED = 5
SPREAD = 0.5  # of the weights, which are random: large enough that no loss is flat
FURTHEST = 2.0  # that a weight may be moved
STEPS = tuple(float(f"1e-{i}") for i in range(13))
SIDES = ("one", "both")
RATES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


def tiny_gpt() -> Transformer:
    """The model: untrained, in double precision, weights of two decimals."""
    model = Transformer(CONFIG, generator=None, dtype=np.float64)
    generator = np.random.default_rng(SEED)
    for weight in model.named_parameters().values():
        if weight.ndim == 2:  # norms and biases begin as ever
            weight[...] = generator.normal(0, SPREAD, weight.shape).round(2)
    return model


def _loss(model: Transformer) -> float:
    return float(cross_entropy(model(IDS[:-1]), IDS[1:]))


@cache
def _gradients() -> dict[str, np.ndarray]:
    model = tiny_gpt()
    saved: list[tuple] = []
    logits = model.forward(IDS[:-1], saved=saved)
    model.backward(cross_entropy_backward(logits, IDS[1:]), saved)
    return model.gradients()


class Nudged(NamedTuple):
    """The numbers that the view shows for the chosen weight, and for a step of all weights."""

    loss: float  # where nothing is moved
    slope: float  # of the loss along the chosen weight, by the backward pass
    moved: float  # the loss where the weight is now
    measured: float  # the slope by finite difference
    promised: float  # η‖g‖²: how much a step against the gradient of all weights lowers the loss, if the slope stays
    dropped: float  # how much it does


class NudgeExplorer(View, module="nudge_explorer"):
    """Move one of a GPT's 536 weights: see the loss, the tangent from the backward pass and a finite difference.

    The model is so small that the page computes its whole forward pass for every point of a curve. The
    gradient comes from `glassformer.scratch`. The view also shows one step of all weights against the
    gradient, and whether the loss falls by the predicted amount.

    Derived in chapter 09.

    Traits:
        name: which array of weights, one of `tiny_gpt().named_parameters()`.
        at: which number in it: row and column, or for a vector its place alone. Another array begins at its first.
        by: how far that weight is moved, −2 to 2.
        h: the finite difference's step, a power of ten from 1 to 1e-12.
        sides: "one", (L(w + h) − L(w)) / h; "both", (L(w + h) − L(w − h)) / 2h.
        rate: the step's learning rate η, one of `RATES`.

    Raises:
        TraitError: no such weight, a number out of range, or none of the choices.
    """

    name = Enum(tuple(tiny_gpt().named_parameters()), "decoder.blocks.0.attention.W_o.weight").tag(sync=True)
    at = List([1, 1]).tag(sync=True)
    by = Number(0.0, min=-FURTHEST, max=FURTHEST).tag(sync=True)
    h = Enum(STEPS, 1.0).tag(sync=True)
    sides = Enum(SIDES, "one").tag(sync=True)
    rate = Enum(RATES, 0.3).tag(sync=True)
    _data = Dict().tag(sync=True)

    def computed(self) -> Nudged:
        """Computes what the view shows, with `glassformer.scratch`."""
        model = tiny_gpt()
        gradients = _gradients()
        weight, place = model.named_parameters()[self.name], tuple(self.at)
        begun, loss = weight[place], _loss(model)

        def moved(by: float) -> float:
            weight[place] = begun + by
            lost = _loss(model)
            weight[place] = begun
            return lost

        low = moved(-self.h) if self.sides == "both" else loss
        measured = (moved(self.h) - low) / (self.h * (2 if self.sides == "both" else 1))
        here = moved(self.by)
        promised = self.rate * sum((g**2).sum() for g in gradients.values())
        for name, each in model.named_parameters().items():
            each -= self.rate * gradients[name]
        slope = gradients[self.name][place]
        return Nudged(loss, float(slope), here, measured, float(promised), loss - _loss(model))

    @default("_data")
    def _default_data(self) -> dict[str, Any]:
        model = tiny_gpt()
        return {
            "words": VOCABULARY,
            "ids": IDS.tolist(),
            "n_heads": CONFIG.n_heads,
            "weights": {name: weight.tolist() for name, weight in model.named_parameters().items()},
            "gradients": {name: gradient.tolist() for name, gradient in _gradients().items()},
        }

    def _shape(self) -> tuple[int, ...]:
        return np.shape(self._data["weights"][self.name])

    @observe("name")
    def _begin_at_the_first(self, _: dict) -> None:
        if not self._fits(self.at):
            self.at = [0] * len(self._shape())

    def _fits(self, at: list) -> bool:
        shape = self._shape()
        return len(at) == len(shape) and all(i in range(n) for i, n in zip(at, shape, strict=True))

    @validate("at")
    def _validate_at(self, proposal: dict) -> list[int]:
        if not self._fits(proposal["value"]):
            raise TraitError(
                f"at={proposal['value']!r} is not an index into {self.name}, of shape {self._shape()}"
            )
        return proposal["value"]
