"""Recall: a mark appears early in a text, and much later the model must say which one it was."""

from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Float, Int64, Integer
from torch import Tensor

from glassformer import nn
from glassformer.experiments.experiment import Experiment, Found
from glassformer.experiments.positions import (
    CONTESTANTS,
    REACH,
    SEEDS,
    T,
    as_large_as_sinusoids,
    copy_with,
    recipe_of,
    ways_to_reach,
)
from glassformer.experiments.training import drawn, read_in_windows, trained
from glassformer.tasks import NO_TARGET, Batch, NextToken
from glassformer.text import corpus, inputs_and_targets

STEPS = 600
MARKS = 10  # tokens that no text contains; every window gets one of them
FIRST_PLACES = T // 2  # the mark is at one of this many positions at the window's start
ASKED = 1 / 16  # fraction of the later positions that ask for it
BIN = 16  # neighbouring distances that are counted together


class Recall(NextToken):
    """`NextToken` with a mark near the beginning of each window and, after it, questions about which mark it was.

    The ids of the marks follow those of the text, and the question is the last id. A mark or question
    replaces a character; it is not a target, because nothing predicts it.
    """

    def __init__(self, ids: Integer[np.ndarray, " N"], length: int, batch_size: int, seed: int) -> None:
        super().__init__(ids, length, batch_size, seed)
        self.first_mark = self.vocab_size
        self.question = self.first_mark + MARKS
        self.vocab_size = self.question + 1

    def batch(self, step: int, rank: int = 0, world: int = 1) -> Batch:
        """Returns the inputs and targets (B, T) of a step."""
        rows = self._share(step, rank, world)
        inputs, targets, _ = self.planted(self._windows(step), (self.seed, step))
        return {"ids": inputs[rows]}, targets[rows]

    def validation(self) -> Iterator[Batch]:
        """Yields one window, for the `Trainer`; the result that counts is that of `recalled`."""
        inputs, targets, _ = self.planted(self.held_out[None, : self.length + 1], (self.seed,))
        yield {"ids": inputs}, targets

    def planted(
        self, windows: Integer[np.ndarray, "B _"], seed: tuple[int, ...]
    ) -> tuple[Int64[np.ndarray, "B T"], Int64[np.ndarray, "B T"], Int64[np.ndarray, "B T"]]:
        """Returns inputs, targets, and the distance of each question to its mark (0 elsewhere)."""
        generator = np.random.default_rng(seed)
        inputs, targets = (part.astype(np.int64) for part in inputs_and_targets(windows))
        B, n = inputs.shape
        marks = self.first_mark + generator.integers(MARKS, size=(B, 1))
        back = np.arange(n) - generator.integers(FIRST_PLACES, size=(B, 1))  # from each place to the mark's
        asked = (generator.random((B, n)) < ASKED) & (back > 0)
        targets[:, :-1][(asked | (back == 0))[:, 1:]] = NO_TARGET
        inputs = np.where(asked, self.question, np.where(back == 0, marks, inputs))
        return inputs, np.where(asked, marks, targets), np.where(asked, back, 0)


def measure(
    positions: str,
    length: int,
    seed: int,
    t5_max_distance: int | None = None,
    steps: int = STEPS,
    every: int = 1,
    changes: tuple[str, ...] = (),
) -> Found:
    """Trains on windows of `length` with marks and questions, then asks in windows of 4T.

    Returns lists with the fraction of right answers by distance to the mark, one entry per bin of distances:
    1 to 16, 17 to 32, … The answer is the likeliest of the ten marks, so a guess is right one time in ten.
    Most encodings have one list, "as trained"; the other lists use the same weights in other `ways`. With
    `every`, only one in so many windows is used.

    Derived in chapter 04.

    Raises:
        ValueError: there is no such method, or the length does not divide the characters of a step.
    """
    recipe = recipe_of(positions, length, seed, steps, changes, t5_max_distance)
    tokenizer, text, config = recipe.made_for(corpus())
    task = Recall(tokenizer.encode(corpus()), length, text.batch_size, seed)
    config = config.replace(vocab_size=task.vocab_size, context_length=REACH)
    model = as_large_as_sinusoids(drawn(config, seed))
    trained(model, task, recipe.training)
    return {"recalled": {way: recalled(model, task, every) for way, model in ways(model, length).items()}}


def ways(model: nn.Transformer, length: int) -> dict[str, nn.Transformer]:
    """Returns a model as trained and, if its encoding may lose marks, the same weights without the suspected cause.

    RoPE meets angles that are new to it, so its rotations are slowed (see `ways_to_reach`). ALiBi subtracts
    more than in training, so with "penalty capped" it subtracts no more at longer distances than at the
    longest one in training.
    """
    if length == T and model.config.positions == "rope":
        return ways_to_reach(model)
    if model.config.positions == "alibi":
        capped = copy_with(model)
        capped.decoder.positions = CappedAlibi(model.config.n_heads)
        return {"as trained": model, "penalty capped": capped}
    return {"as trained": model}


class CappedAlibi(nn.AlibiPositions):
    """ALiBi whose penalty does not grow beyond a distance of T − 1."""

    def score_bias(
        self, query_positions: Int64[Tensor, "..."], key_positions: Int64[Tensor, "..."]
    ) -> Float[Tensor, "..."]:
        """Returns ALiBi's bias, limited to its value at the longest distance in training."""
        bias = super().score_bias(query_positions, key_positions)
        furthest = super().score_bias(
            query_positions.new_tensor([0]), query_positions.new_tensor([T - 1])
        )  # (H, 1, 1)
        return bias.maximum(furthest)


@torch.no_grad()
def recalled(model: nn.Transformer, task: Recall, every: int = 1) -> list[float]:
    """Returns the fraction of right answers in windows of 4T of the validation text, by distance."""
    model.eval()
    right, asked = np.zeros(REACH // BIN), np.zeros(REACH // BIN)
    for number, windows in enumerate(read_in_windows(task.held_out, REACH, T, every, at_a_time=12)):
        inputs, targets, back = task.planted(windows, (0, number))  # the same questions for every model
        logits = model(torch.from_numpy(inputs))[..., task.first_mark : task.question].numpy()
        hits = logits.argmax(axis=-1) + task.first_mark == targets
        bins = (back - 1) // BIN
        right += np.bincount(bins[back > 0], weights=hits[back > 0], minlength=len(right))
        asked += np.bincount(bins[back > 0], minlength=len(asked))
    return (right / asked).tolist()


EXPERIMENT = Experiment(
    name="recall",
    question="Asked for a mark that stands far back, farther than in training, which models still find it?",
    measure=measure,
    runs=tuple({**contestant, "seed": seed} for seed in SEEDS for contestant in CONTESTANTS),
    short={
        "steps": 120,
        "every": 40,
        "changes": ("model.n_layers=2", "model.d_model=32", "model.n_heads=2", "model.d_ff=64"),
    },
)
