"""Two families translate dates: an encoder–decoder, and a decoder that reads the pair as one text."""

from collections.abc import Sequence
from typing import cast

import numpy as np
import torch
from jaxtyping import Int64

from glassformer import _checks as checks
from glassformer import nn
from glassformer.experiments.experiment import WHOLE_TENTH, Experiment, Found
from glassformer.experiments.training import curve, drawn, trained
from glassformer.tasks import NO_TARGET, Batch, Pairs
from glassformer.train.recipe import Recipe

WAYS = ("encoder-decoder", "decoder, asked for the answer", "decoder, asked for all")
"""The two families, with two losses for the decoder: over the characters of the answer, or of question and answer."""

DECODER = {"family": "decoder", "n_layers": 4, "n_decoder_layers": None, "d_ff": 215}
"""Changes that make the book's encoder–decoder a decoder with as many blocks in all and about as many parameters.

Its blocks have no cross-attention; a wider feed-forward network makes up for those parameters.
"""

STEPS = (100, 300)
SEEDS = (0, 1, 2)
N_ASKED = 1_000  # held-out days


class OneText(Pairs):
    """The task of continuing the source with the target in one text: source, `start_id`, target, `stop_id`.

    With `whole`, every character of that text is a target; without it, only those after `start_id`.
    """

    family = "decoder"

    def __init__(self, pairs: Pairs, *, whole: bool) -> None:
        ids = {name: getattr(pairs, name) for name in ("start_id", "stop_id", "pad_id")}
        super().__init__(pairs.sources, pairs.targets, pairs.batch_size, pairs.seed, **ids)
        self.whole = whole
        self.length = max(
            len(source) + 1 + len(target) for source, target in zip(self.sources, self.targets, strict=True)
        )

    def _filled_up(self, places: Sequence[int] | Int64[np.ndarray, " B"]) -> Batch:
        """Returns the texts with these indices, padded to the longest at the end, where no position attends to it."""
        texts = [[*self.sources[i], self.start_id, *self.targets[i], self.stop_id] for i in places]
        rows = np.full((len(texts), max(map(len, texts))), self.pad_id, dtype=np.int64)
        targets = np.full((len(texts), rows.shape[1] - 1), NO_TARGET, dtype=np.int64)
        for row, target, text, i in zip(rows, targets, texts, places, strict=True):
            row[: len(text)] = text
            first = 0 if self.whole else len(self.sources[i])
            target[first : len(text) - 1] = text[first + 1 :]
        return {"ids": rows[:, :-1]}, targets


def measure(way: str, steps: int, seed: int, n_asked: int = N_ASKED) -> Found:
    """Trains a model to write dates, and tests it on days that it has not seen.

    Returns its parameters; the curve of the training loss; and, for `n_asked` held-out days, the mean loss of
    the answer's characters, in nats, and the fraction of days that greedy decoding gets completely right.

    Derived in chapter 12.

    Raises:
        ValueError: there is no such way of training.
    """
    checks.one_of("way", way, WAYS)
    recipe = Recipe.of_the_book("dates", [*WHOLE_TENTH, f"training.seed={seed}", f"training.steps={steps}"])
    _, of_the_book, config = recipe.made_for("")
    task = pairs = cast(Pairs, of_the_book)
    if way != WAYS[0]:
        config, task = config.replace(**DECODER), OneText(pairs, whole=way == WAYS[2])
    model = drawn(config, seed)
    task.held_out = task.held_out[:n_asked]
    records = trained(model, task, recipe.training.replace(evaluate_every=0, device="cpu"))
    asked = task if way != WAYS[2] else OneText(pairs, whole=False)
    asked.held_out = pairs.held_out[:n_asked]
    return {
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "loss": curve(records),
        **answers(model, asked),
    }


@torch.no_grad()
def answers(model: nn.Transformer, task: Pairs) -> Found:
    """Returns the mean loss of the answers' characters on the task's held-out pairs, and the fraction answered right.

    An answer is right if every character is the likeliest one, given the correct ones before it. Greedy
    decoding gives the same result, because up to its first mistake it has written the correct characters.
    """
    model.eval()
    loss = count = right = 0.0
    for inputs, targets in task.validation():
        logits = model(**{name: torch.from_numpy(array) for name, array in inputs.items()})
        asked = torch.from_numpy(targets)
        n = int((asked != NO_TARGET).sum())
        loss += nn.cross_entropy(logits, asked, ignore_index=NO_TARGET).item() * n
        count += n
        hit = (logits.argmax(dim=-1) == asked) | (asked == NO_TARGET)
        right += int(hit.all(dim=1).sum())
    return {"answer_loss": loss / count, "right": right / len(task.held_out)}


EXPERIMENT = Experiment(
    name="families",
    question="Can a decoder translate dates as well as an encoder–decoder of its size?",
    measure=measure,
    runs=tuple(
        {"way": way, "steps": steps, "seed": seed}
        for seed in SEEDS
        for steps in STEPS
        for way in (WAYS if steps == STEPS[-1] else WAYS[:2])
    ),
    short={"steps": 6, "n_asked": 64},
)
