"""What experiments share: a small GPT and its text, how models are made and trained, and curves of what they learn."""

from collections.abc import Iterator
from contextlib import nullcontext, suppress
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64, Integer
from torch.nn import functional

from glassformer import nn
from glassformer.config import ModelConfig
from glassformer.experiments.experiment import POINTS, thinned
from glassformer.tasks import NextToken
from glassformer.text import CharTokenizer, corpus, inputs_and_targets
from glassformer.train import Trainer, TrainingConfig, initialize
from glassformer.train.log import Record
from glassformer.train.recipe import Recipe

D_MODEL, N_HEADS, LENGTH, BATCH_SIZE = 64, 4, 32, 8

# Changes that make the modern recipe's model small.
SMALL_MODERN = (
    "model.d_model=64",
    "model.n_layers=3",
    "model.d_ff=172",
    "model.attention_scale=0.6",  # 2.4 / √d_head, as there
)


def text_task(
    seed: int, characters: int | None = None, length: int = LENGTH, batch_size: int = BATCH_SIZE
) -> NextToken:
    """Returns the task of predicting Shakespeare's next character, on the first `characters` of the text if given.

    A batch has `batch_size` windows of `length` characters.
    """
    text = corpus()
    ids = np.asarray(CharTokenizer.from_text(text).encode(text[:characters]))
    return NextToken(ids, length, batch_size, seed)


def unigram_loss(task: NextToken) -> float:
    """Returns the validation loss of predicting each character with its frequency in the training part."""
    seen = np.bincount(task.ids, minlength=task.vocab_size) + 1  # plus 1: nothing is impossible
    return float(-np.log(seen / seen.sum())[task.held_out[1:]].mean())


def drawn(config: ModelConfig, seed: int) -> nn.Transformer:
    """Makes a model with the package's usual initial weights."""
    return nn.Transformer(config, generator=torch.Generator().manual_seed(seed))


def new_model(placement: str, n_layers: int, task: NextToken, seed: int, **changes: object) -> nn.Transformer:
    """Makes a small GPT of that depth for a text in characters, with changes to its configuration."""
    config = ModelConfig(
        vocab_size=65,
        context_length=task.length,
        d_model=D_MODEL,
        n_layers=n_layers,
        n_heads=N_HEADS,
        norm_placement=placement,
    )
    return drawn(config.replace(**changes), seed)


def plan(task: Any, **settings: Any) -> TrainingConfig:
    """Returns the settings of a training on the CPU that is evaluated at its end alone."""
    return TrainingConfig(batch_size=task.batch_size, evaluate_every=0, device="cpu", **settings)


def trained(
    model: nn.Transformer, task: Any, config: TrainingConfig, *, may_diverge: bool = False
) -> list[Record]:
    """Trains a new model and returns the record of each step.

    If it `may_diverge`, a loss or gradient that is not finite ends the records; otherwise it raises an error.
    """
    initialize(model, config)
    trainer = Trainer(model, task, config, progress=False)
    with suppress(FloatingPointError) if may_diverge else nullcontext():
        trainer.run()
    return trainer.log.records


def trainer_of(recipe: Recipe, text: str | None = None, **changes: object) -> Trainer:
    """Returns a trainer for a new model on a text, by default Shakespeare, as the recipe says.

    `changes` are made in the configuration of the model.
    """
    _, task, config = recipe.made_for(corpus() if text is None else text)
    model = drawn(config.replace(**changes), recipe.training.seed)
    initialize(model, recipe.training)
    return Trainer(model, task, recipe.training, progress=False)


def curve(records: list[Record], name: str = "loss", points: int = POINTS) -> list[float]:
    """Returns a number of each record as a curve to be stored."""
    return thinned([record[name] for record in records], points)


def validations(records: list[Record]) -> list[list[float]]:
    """Returns the steps after which a model was evaluated, each with the validation loss."""
    return [[record["step"], record["validation_loss"]] for record in records if "validation_loss" in record]


def read_in_windows(
    ids: Integer[np.ndarray, " N"], length: int, apart: int, every: int, at_a_time: int
) -> Iterator[Int64[np.ndarray, "B _"]]:
    """Yields windows of `length` ids and the one that follows, some at a time; they begin so far apart.

    With `every`, only one in so many windows is used.
    """
    starts = np.arange(0, len(ids) - length, apart)[::every]
    for some in np.array_split(starts, max(1, len(starts) // at_a_time)):
        yield ids[some[:, None] + np.arange(length + 1)].astype(np.int64)


@torch.no_grad()
def losses_in(
    model: nn.Transformer, windows: Int64[np.ndarray, "B _"]
) -> tuple[Float[torch.Tensor, "B T"], Int64[np.ndarray, "B T"]]:
    """Returns the loss of each target in such windows, in nats, and the targets."""
    model.eval()
    inputs, targets = inputs_and_targets(windows)
    logits = model(torch.from_numpy(inputs)).transpose(1, 2)  # (B, V, T)
    return functional.cross_entropy(logits, torch.from_numpy(targets), reduction="none"), targets
