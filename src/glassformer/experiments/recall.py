"""Recall: a mark stands early in a text, and much later the model is asked which one it was."""

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
    copy_with,
    new_model,
    recipe_of,
    ways_to_reach,
)
from glassformer.tasks import NO_TARGET, Batch, NextToken
from glassformer.text import corpus, inputs_and_targets
from glassformer.train import Trainer

STEPS = 600
MARKS = 10  # tokens that no text has; one of them is in every window
FIRST_PLACES = T // 2  # the mark is in one of so many places at the window's beginning
ASKED = 1 / 16  # of the places after it
BIN = 16  # neighbouring distances whose answers are counted together


class Recall(NextToken):
    """`NextToken`, where each window has a mark near its beginning, and after it questions which one it was.

    The ids of the marks come after the text's, and the question is the last id. A mark or a question stands in a
    character's stead; it is no target itself, since nothing foretells it.
    """

    def __init__(self, ids: Integer[np.ndarray, " N"], length: int, batch_size: int, seed: int) -> None:
        super().__init__(ids, length, batch_size, seed)
        self.first_mark = self.vocab_size
        self.question = self.first_mark + MARKS
        self.vocab_size = self.question + 1

    def batch(self, step: int, rank: int = 0, world: int = 1) -> Batch:
        """The inputs and targets (B, T) of a step."""
        rows = self._share(step, rank, world)
        inputs, targets, _ = self.planted(self._windows(step), (self.seed, step))
        return {"ids": inputs[rows]}, targets[rows]

    def validation(self) -> Iterator[Batch]:
        """One window, for the `Trainer`; what counts is what `recalled` finds."""
        inputs, targets, _ = self.planted(self.held_out[None, : self.length + 1], (self.seed,))
        yield {"ids": inputs}, targets

    def planted(
        self, windows: Integer[np.ndarray, "B _"], seed: tuple[int, ...]
    ) -> tuple[Int64[np.ndarray, "B T"], Int64[np.ndarray, "B T"], Int64[np.ndarray, "B T"]]:
        """Inputs and targets of windows with marks and questions, and how far back each question's mark is, else 0."""
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
    """Train on windows of `length` with marks and questions, then ask in windows of 4T.

    Gives lists of the share of right answers by how far back the mark is, one entry for each bin of distances: 1 to
    16, 17 to 32, … The mark named is the likeliest of the ten, so that a guess is right one time in ten. Most methods
    have one list, "as trained"; the others are the same weights, read in other `ways`. `every` takes only every so
    many of the windows.

    Derived in chapter 04.

    Raises:
        ValueError: there is no such method, or the length does not divide the characters of a step.
    """
    recipe = recipe_of(positions, length, seed, steps, changes, t5_max_distance)
    tokenizer, text, config = recipe.made_for(corpus())
    task = Recall(tokenizer.encode(corpus()), length, text.batch_size, seed)
    model = new_model(config.replace(vocab_size=task.vocab_size, context_length=REACH), seed)
    Trainer(model, task, recipe.training, progress=False).run()
    return {"recalled": {way: recalled(model, task, every) for way, model in ways(model, length).items()}}


def ways(model: nn.Transformer, length: int) -> dict[str, nn.Transformer]:
    """A model as trained, and where its method is suspected of losing marks, the same weights with that taken away.

    RoPE meets angles that are new to it: so its hands are slowed, see `ways_to_reach`. ALiBi subtracts more than it
    ever did: so at distances beyond training it subtracts what it did at the longest, "penalty capped".
    """
    if length == T and model.config.positions == "rope":
        return ways_to_reach(model)
    if model.config.positions == "alibi":
        capped = copy_with(model)
        capped.decoder.positions = CappedAlibi(model.config.n_heads)
        return {"as trained": model, "penalty capped": capped}
    return {"as trained": model}


class CappedAlibi(nn.AlibiPositions):
    """ALiBi whose penalty grows no more beyond a distance of T − 1."""

    def bias(
        self, query_positions: Int64[Tensor, "..."], key_positions: Int64[Tensor, "..."]
    ) -> Float[Tensor, "..."]:
        """Returns ALiBi's bias, but never less than at the longest distance in training."""
        bias = super().bias(query_positions, key_positions)
        furthest = super().bias(
            query_positions.new_tensor([0]), query_positions.new_tensor([T - 1])
        )  # (H, 1, 1)
        return bias.maximum(furthest)


@torch.no_grad()
def recalled(model: nn.Transformer, task: Recall, every: int = 1) -> list[float]:
    """The share of right answers in windows of 4T of the validation text, by distance."""
    model.eval()
    starts = np.arange(0, len(task.held_out) - REACH, T)[::every]
    right, asked = np.zeros(REACH // BIN), np.zeros(REACH // BIN)
    for number, some in enumerate(np.array_split(starts, max(1, len(starts) // 12))):
        windows = task.held_out[some[:, None] + np.arange(REACH + 1)]
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
