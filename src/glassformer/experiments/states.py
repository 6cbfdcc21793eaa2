"""States: what it costs in recall, in copying and in loss to keep the past in a matrix of fixed size."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from glassformer import _checks as checks
from glassformer import inside, nn
from glassformer.config import ModelConfig
from glassformer.experiments import long_texts
from glassformer.experiments.experiment import Experiment, Found, Settings, grid
from glassformer.experiments.long_texts import EVERY, SEEDS, T
from glassformer.experiments.positions import as_large_as_sinusoids
from glassformer.experiments.training import drawn, trained
from glassformer.layers import LinearAttention, Mamba2
from glassformer.tasks import NO_TARGET, Batch
from glassformer.train.config import TrainingConfig

CHARACTERS = 2048  # of a step; the longest text has T
EQUAL_TIME = {"hybrid": 228, "gated delta rule": 205}  # steps of "text" in the time of "full"
STEPS = {"pairs": 400, "copies": 500, "text": long_texts.STEPS}
ANSWERS = 4096  # that are tested for each size

SIZES = {"n_heads": 2, "n_key_heads": 2, "d_key": 32, "d_value": 32}
FORMS = {
    "gated delta rule": LinearAttention(**SIZES),
    "delta rule": LinearAttention(**SIZES, decay="none"),
    "linear attention": LinearAttention(**SIZES, delta=False, decay="none"),
    "with decay": LinearAttention(**SIZES, delta=False),
    "mamba-2": Mamba2(**SIZES),
}
CONTESTANTS = ("full", "hybrid", *FORMS)
"""Softmax attention in all layers, only in the last, or in none: then all have a state of this form."""

PARTS = ("pairs", "copies", "text", "seconds")


class Pairs:
    """Keys, each followed by its value, and then all keys again in another order: what was the value of each?

    It is a task for `Trainer`. Each step has texts of one length, each as many characters.

    Source: Arora et al. 2023, "Zoology: Measuring and Improving Recall in Efficient Language Models".
    """

    family, length = "decoder", T
    n_keys, n_values = 64, 16
    vocab_size = n_keys + n_values
    sizes: tuple[int, ...] = (4, 8, 16, 32, 64)
    guess = 1 / n_values

    def __init__(self, seed: int, characters: int = CHARACTERS) -> None:
        self.seed, self.batch_size = seed, characters // T

    def batch(self, step: int, rank: int = 0, world: int = 1) -> Batch:
        """Returns the inputs and targets of a step, for one process only."""
        size = self.sizes[step % len(self.sizes)]
        return self.drawn(size, self.batch_size * max(self.sizes) // size, (self.seed, step))

    def validation(self) -> Iterator[Batch]:
        """Yields a small batch, for the `Trainer`; the result that counts is that of `right`."""
        yield self.drawn(self.sizes[0], 2, (self.seed, 2**31))

    def drawn(self, n: int, B: int, seed: tuple[int, ...]) -> Batch:
        """Returns B texts with n pairs, and targets at the questions alone."""
        generator = np.random.default_rng(seed)
        keys = generator.permuted(np.tile(np.arange(self.n_keys), (B, 1)), axis=1)[:, :n]
        values = self.n_keys + generator.integers(self.n_values, size=(B, n))
        pairs = np.stack([keys, values], axis=-1)  # (B, n, 2)
        order = generator.permuted(np.tile(np.arange(n), (B, 1)), axis=1)
        again = np.take_along_axis(pairs, order[..., None], axis=1)
        ids = np.concatenate([pairs, again], axis=1).reshape(B, 4 * n)
        targets = np.full_like(ids, NO_TARGET)
        targets[:, 2 * n :: 2] = again[..., 1]
        return {"ids": ids}, targets


class Copies(Pairs):
    """A random string, a separator, and the string again.

    Source: Jelassi et al. 2024, "Repeat After Me: Transformers are Better than State Space Models at Copying".
    """

    n_letters = 32
    vocab_size = n_letters + 1
    sizes = (8, 16, 32, 64, 128)
    guess = 1 / n_letters

    def drawn(self, n: int, B: int, seed: tuple[int, ...]) -> Batch:
        """Returns B strings of n letters with their copies, and targets in the copy alone."""
        letters = np.random.default_rng(seed).integers(self.n_letters, size=(B, n))
        separator = np.full((B, 1), self.n_letters)
        ids = np.concatenate([letters, separator, letters[:, :-1]], axis=1)
        targets = np.concatenate([np.full((B, n), NO_TARGET), letters], axis=1)
        return {"ids": ids}, targets


TASKS: Mapping[str, type[Pairs]] = {"pairs": Pairs, "copies": Copies}


def measure(
    part: str,
    seed: int,
    contestant: str = "full",
    steps: int | None = None,
    characters: int = CHARACTERS,
    every: int = EVERY,
) -> Found:
    """Trains a contestant on texts of up to T characters, each step on as many, and tests it.

    "pairs" and "copies" have two layers. Results are the fractions of "right" answers, one for each size of the task.
    "text" has four layers, and is that of `long_texts`, with the same results: the "loss" of plain held-out text, and
    the fraction "recalled" of its marks. All have the bytes of the "cache" of T positions in float32, and the number
    of "parameters".

    "seconds" measures, for each contestant, the seconds of the processor for a step of training on "text".

    Derived in chapter 17.

    Raises:
        ValueError: there is no such part or contestant.
    """
    checks.one_of("part", part, PARTS)
    checks.one_of("contestant", contestant, CONTESTANTS)
    if part == "seconds":
        runs = {name: made("text", name, seed, steps or 4, characters) for name in CONTESTANTS}
        models = {name: (drawn(config, seed), *rest) for name, (config, *rest) in runs.items()}
        return {"seconds": long_texts.seconds_of(models)}
    config, task, training = made(part, contestant, seed, steps or STEPS[part], characters)
    model = as_large_as_sinusoids(drawn(config, seed))  # as in `long_texts`
    trained(model, task, training)
    if part == "text":
        return long_texts.tested(model, task, every)
    return {
        "right": [right(model, task, n) for n in task.sizes],
        "cache": inside.cache_bytes(config, T),
        "parameters": config.parameter_count().total,
    }


def made(
    part: str, contestant: str, seed: int, steps: int, characters: int = CHARACTERS
) -> tuple[ModelConfig, Any, TrainingConfig]:
    """Returns a contestant's configuration, its task, and how it is trained."""
    batch_size = f"training.batch_size={characters // T}"
    config, task, training = long_texts.made("full", seed, steps, (batch_size,))
    if part != "text":
        task = TASKS[part](seed, characters)
        config = config.replace(vocab_size=task.vocab_size, n_layers=2, d_ff=64)
    return config.replace(**layers_of(contestant, config.n_layers)), task, training


def layers_of(contestant: str, n_layers: int) -> dict[str, Any]:
    """Returns the fields of a model with a contestant's layers."""
    if contestant == "full":
        return {}
    if contestant == "hybrid":
        state = {"form": FORMS["gated delta rule"]}
        return {"kinds": {"state": state, "full": {}}, "order": f"state*{n_layers - 1} full"}
    return {"kinds": {"state": {"form": FORMS[contestant]}}}


@torch.no_grad()
def right(model: nn.Transformer, task: Pairs, n: int) -> float:
    """Returns the fraction of right answers in new texts of that size, the same for every model."""
    model.eval()
    inputs, targets = task.drawn(n, ANSWERS // n, (2**31, n))
    asked = targets != NO_TARGET
    answers = model(torch.from_numpy(inputs["ids"])).argmax(dim=-1).numpy()
    return float((answers == targets)[asked].mean())


def run(**choices: Iterable[Any]) -> tuple[Settings, ...]:
    """Returns the settings of runs with all seeds."""
    return grid(**choices, seed=SEEDS)


EXPERIMENT = Experiment(
    name="states",
    question="What is lost in recall, in copying and in loss if the past has to fit into a matrix?",
    measure=measure,
    runs=(
        {"part": "seconds", "seed": 0},
        *run(
            part=["pairs"],
            contestant=["full", "hybrid", "gated delta rule", "delta rule", "linear attention", "mamba-2"],
        ),
        *run(part=["copies"], contestant=["full", "hybrid", "gated delta rule"]),
        *run(part=["text"], contestant=["hybrid", "gated delta rule"]),
        *(one for name, n in EQUAL_TIME.items() for one in run(part=["text"], contestant=[name], steps=[n])),
    ),
    short={"steps": 160, "characters": 768, "every": 80},
)
