"""Compares activations in feed-forward networks of equal size, no network at all, and initializations of W_down."""

from typing import Any, cast

import torch

from glassformer import _checks as checks
from glassformer import nn
from glassformer.experiments.experiment import Experiment, Found, thinned
from glassformer.experiments.norm_placement import D_MODEL, new_model, text_task
from glassformer.tasks import NextToken
from glassformer.train import Trainer, TrainingConfig

N_LAYERS = 2
WIDTHS = {"none": 256, "relu": 256, "gelu": 256, "swiglu": 171}
"""The activations, each with its d_ff: three matrices with 171 are as large as two with 256, within 0.2 %."""

KINDS = ("no network", *WIDTHS)

DOWN = (
    "d_ff",
    "d_model",
)  # scale of W_down's entries: 1/√d_ff keeps the variance, 1/√d_model does not
STEPS = 400
RATE = 3e-3
SEEDS = (0, 1, 2)


def measure(
    feedforward: str,
    seed: int,
    down: str = "d_ff",
    learning_rate: float = RATE,
    steps: int = STEPS,
    characters: int | None = None,
) -> Found:
    """Trains a small decoder with this feed-forward network, without biases in it.

    "none" omits the activation, so that W_up and W_down form one linear map. "no network" writes nothing at
    all. `down` says which root scales the entries of W_down. Returns "feed-forward", the parameters of one
    such network; the final "loss" on the whole validation text; and "course", the curve of the training loss.

    Derived in chapter 06.

    Raises:
        ValueError: `feedforward` or `down` is not one of the planned choices.
    """
    checks.one_of("feedforward", feedforward, KINDS)
    checks.one_of("down", down, DOWN)
    task = text_task(seed, characters)
    model = new_decoder(feedforward, down, task, seed)
    config = TrainingConfig(
        steps=steps,
        batch_size=task.batch_size,
        learning_rate=learning_rate,
        seed=seed,
        evaluate_every=0,
        device="cpu",
    )
    trainer = Trainer(model, task, config, progress=False)
    trainer.run()
    records = trainer.log.records
    return {
        "feed-forward": sum(weight.numel() for weight in blocks_of(model)[0].feedforward.parameters()),
        "loss": records[-1]["validation_loss"],
        "course": thinned([record["loss"] for record in records]),
    }


def new_decoder(feedforward: str, down: str, task: NextToken, seed: int) -> nn.Transformer:
    """Makes a decoder with such feed-forward networks and its initial weights."""
    kind = "relu" if feedforward in ("none", "no network") else feedforward
    d_ff = WIDTHS[kind]
    changes = {"feedforward": kind, "d_ff": d_ff, "feedforward_bias": False}
    model = new_model("pre", N_LAYERS, task, seed, **changes)
    for block in blocks_of(model):
        if down == "d_model":
            with torch.no_grad():
                block.feedforward.W_down.weight.mul_((d_ff / D_MODEL) ** 0.5)  # drawn with 1/√d_ff
        if feedforward == "none":
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
    question="What does the bend in the feed-forward network buy, and which bend buys most at equal size?",
    measure=measure,
    runs=(
        *({"feedforward": kind, "seed": seed} for seed in SEEDS for kind in KINDS),
        *({"feedforward": "gelu", "seed": seed, "down": "d_model"} for seed in SEEDS),
    ),
    short={"steps": 60, "characters": 60_000},
)
