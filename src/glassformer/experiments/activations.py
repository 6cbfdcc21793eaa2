"""Compares activations in feed-forward networks of equal size, and no network at all."""

from typing import Any, cast

import torch

from glassformer import _checks as checks
from glassformer import nn
from glassformer.experiments.experiment import Experiment, Found
from glassformer.experiments.training import curve, new_model, plan, text_task, trained
from glassformer.tasks import NextToken

N_LAYERS = 2
LENGTH, BATCH_SIZE = 64, 12
WIDTHS = {"linear": 256, "relu": 256, "gelu": 256, "swiglu": 171}
"""The activations, each with its d_ff: three matrices with 171 are as large as two with 256, within 0.2 %."""

KINDS = ("no network", *WIDTHS)

STEPS = 2000
RATE = 3e-3
SEEDS = (0, 1, 2)


def measure(
    feedforward: str,
    seed: int,
    learning_rate: float = RATE,
    steps: int = STEPS,
    characters: int | None = None,
) -> Found:
    """Trains a small decoder with this feed-forward network, without biases in it.

    "linear" omits the activation, so that W_up and W_down form one linear map. "no network" writes nothing
    at all. Returns "feed-forward", the parameters of one such network; the final "loss" on the whole validation
    text; and "course", the curve of the training loss.

    Derived in chapter 06.

    Raises:
        ValueError: `feedforward` is not one of the planned choices.
    """
    checks.one_of("feedforward", feedforward, KINDS)
    task = text_task(seed, characters, LENGTH, BATCH_SIZE)
    model = new_decoder(feedforward, task, seed)
    records = trained(model, task, plan(task, steps=steps, learning_rate=learning_rate, seed=seed))
    return {
        "feed-forward": sum(weight.numel() for weight in blocks_of(model)[0].feedforward.parameters()),
        "loss": records[-1]["validation_loss"],
        "course": curve(records),
    }


def new_decoder(feedforward: str, task: NextToken, seed: int) -> nn.Transformer:
    """Makes a decoder with such feed-forward networks and its initial weights."""
    kind = "relu" if feedforward in ("linear", "no network") else feedforward
    changes = {"feedforward": kind, "d_ff": WIDTHS[kind], "feedforward_bias": False}
    model = new_model("pre", N_LAYERS, task, seed, **changes)
    for block in blocks_of(model):
        if feedforward == "linear":
            block.feedforward = torch.nn.Sequential(block.feedforward.W_up, block.feedforward.W_down)
        if feedforward == "no network":
            block.feedforward = _Silent()
    return model


class _Silent(torch.nn.Module):
    """Takes the place of a feed-forward network and writes nothing."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(x)


def blocks_of(model: nn.Transformer) -> Any:
    """Returns the blocks of its decoder."""
    return cast(Any, model.decoder).blocks


EXPERIMENT = Experiment(
    name="activations",
    question="What does the nonlinearity in the feed-forward network buy, and which one buys most at equal size?",
    measure=measure,
    runs=tuple({"feedforward": kind, "seed": seed} for seed in SEEDS for kind in KINDS),
    short={"steps": 60, "characters": 60_000},
)
