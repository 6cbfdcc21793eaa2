"""Induction: two blocks suddenly learn to find what came next the last time; one block cannot."""

from collections.abc import Iterator

import numpy as np

from glassformer import inside, nn, scratch
from glassformer.config import ModelConfig
from glassformer.experiments.experiment import Experiment, Found
from glassformer.experiments.training import drawn
from glassformer.tasks import Batch
from glassformer.train import Trainer, initialize
from glassformer.train.config import TrainingConfig
from glassformer.train.recipe import Recipe

STEPS = 600
EVERY = 20  # steps between two measurements
SEEDS = (0, 1, 2)

VOCAB_SIZE = 32
T = 64  # length of a text
PERIODS = (8, 32)  # periods, one drawn for each text, so that counting back does not help
TEST_PERIOD = 24
N_TESTS = 32  # texts to measure on


class Repeats:
    """Texts of random tokens that repeat again and again, each with its own period.

    There is only one thing to learn: what followed this token before will follow again. It is a task for
    `Trainer`, like those of `glassformer.tasks`.
    """

    family, length, vocab_size, batch_size = "decoder", T, VOCAB_SIZE, 16

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def batch(self, step: int, rank: int = 0, world: int = 1) -> Batch:
        """Returns the inputs and targets (B, T) of a step, for one process only: each would draw the whole batch."""
        return self._drawn(step)

    def validation(self) -> Iterator[Batch]:
        """Yields one batch that no step uses."""
        yield self._drawn(2**31)

    def _drawn(self, number: int) -> Batch:
        generator = np.random.default_rng((self.seed, number))
        lowest, highest = PERIODS
        periods = generator.integers(lowest, highest + 1, (self.batch_size, 1))
        tokens = generator.integers(VOCAB_SIZE, size=(self.batch_size, highest))
        texts = np.take_along_axis(tokens, np.arange(T + 1) % periods, axis=1)
        return {"ids": texts[:, :-1]}, texts[:, 1:]


def measure(n_layers: int, seed: int, steps: int = STEPS, every: int = EVERY) -> Found:
    """Trains a small decoder on `Repeats`, and measures it along the way.

    Returns the curves "step", "first" and "again" (the loss on random texts and on their repetition), and for
    each block the scores of its best heads, "previous" and "induction". For the trained model, it also
    returns the scores of all heads, and "again without": that loss when each part writes its mean instead.

    Derived in chapter 07.
    """
    text = np.random.default_rng(0).integers(VOCAB_SIZE, size=(N_TESTS, TEST_PERIOD))
    curves = {"step": [], "first": [], "again": [], "previous": [], "induction": []}

    def note(record: dict) -> None:
        if record["step"] % every and record["step"] != 1:
            return
        now = scratch.in_numpy(model).eval()
        repetition = inside.repetition(now, text)
        seen = {
            "step": record["step"],
            "first": repetition.first,
            "again": repetition.again,
            "previous": best_of_each_block(inside.previous_token_scores(now, text)),
            "induction": best_of_each_block(inside.induction_scores(now, text)),
        }
        for name, value in seen.items():
            curves[name].append(value)

    model, settings = new_model(n_layers, seed), training(steps, seed)
    initialize(model, settings)
    Trainer(model, Repeats(seed), settings, progress=False, callback=note).run()
    trained = scratch.in_numpy(model).eval()
    return {
        "curves": curves,
        "previous": inside.previous_token_scores(trained, text).tolist(),
        "induction": inside.induction_scores(trained, text).tolist(),
        "again without": again_without(trained, text),
    }


def new_model(n_layers: int, seed: int) -> nn.Transformer:
    """Returns a decoder with two heads per block; with two blocks it has 60,000 parameters."""
    config = ModelConfig(
        vocab_size=VOCAB_SIZE,
        context_length=T,
        d_model=64,
        n_layers=n_layers,
        n_heads=2,
        d_ff=64,
        positions="rope",
        norm="rmsnorm",
        feedforward="swiglu",
        attention_bias="none",
        feedforward_bias=False,
        qk_norm=True,
        embedding_norm=True,
        head="untied",
    )
    return drawn(config, seed)


def training(steps: int, seed: int) -> TrainingConfig:
    """Returns the training settings of the modern recipe, with rates that stay constant to the end."""
    changes = {"decay": "none", "evaluate_every": 0, "device": "cpu"}
    modern = Recipe.of_the_book("modern").training
    return modern.replace(steps=steps, batch_size=Repeats.batch_size, seed=seed, **changes)


def best_of_each_block(scores: np.ndarray) -> list[float]:
    """Returns the highest score in each block."""
    return scores.max(axis=1).tolist()


def again_without(model: scratch.Transformer, text: np.ndarray) -> dict[str, float]:
    """Returns the loss on repetitions without "nothing", each head and each feed-forward network."""
    twice = np.hstack([text, text])
    losses = {"nothing": inside.repetition(model, text).again}
    for i in range(model.config.n_layers):
        for name in (*(f"head {h}" for h in range(model.config.n_heads)), "feed-forward"):
            part = f"block {i}: {name}"
            with inside.without(model, [part], mean_over=twice):
                losses[part] = inside.repetition(model, text).again
    return losses


EXPERIMENT = Experiment(
    name="induction",
    question="When does a model learn to go on as the last time, and how many blocks does that take?",
    measure=measure,
    runs=tuple({"n_layers": n_layers, "seed": seed} for n_layers in (1, 2) for seed in SEEDS),
    short={"steps": 200, "every": 200},
)
