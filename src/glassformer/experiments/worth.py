"""Measures how much the parts of a trained model matter, alone and together, in the book's model and smaller ones."""

from collections.abc import Iterable, Sequence
from itertools import chain, combinations

import numpy as np
from jaxtyping import Integer

from glassformer import _checks as checks
from glassformer import inside, shipped
from glassformer.experiments.depth import recipe_of
from glassformer.experiments.experiment import Experiment, Found
from glassformer.experiments.inside import sample
from glassformer.experiments.training import trainer_of
from glassformer.scratch import Transformer, in_numpy
from glassformer.text import corpus, split

MODELS = ("the book's", "small")
N_LAYERS, STEPS = 4, 600  # of a small model, with as many blocks and heads as the book's, but half as wide
SEEDS = (0, 1, 2)

N_TARGETS = 4096  # about so many characters, spread over the validation text
N_REFERENCE = 4096  # of the training text, for the averages

Ids = Integer[np.ndarray, " _"]


def measure(
    model: str, seed: int = 0, steps: int = STEPS, n_targets: int = N_TARGETS, changes: Sequence[str] = ()
) -> Found:
    """Measures how much the loss rises, in nats per character, when one or several parts of a model write nothing.

    The model is "the book's" or "small", which is trained by the modern recipe for `steps` steps. Returns the
    loss of the whole model, "nothing"; the rises without each sublayer or head "alone", without pairs of
    "sublayers", without pairs of "heads" of one block, and without all parts of a "kind"; "mean", the rises
    when sublayers write their mean instead; and "fewer", the losses when 0, 1, 2, … heads are removed,
    starting with those whose removal alone matters least.

    Derived in chapter 07.

    Raises:
        ValueError: there is no such model, or a change breaks a rule.
    """
    checks.one_of("model", model, MODELS)
    decoder, training, validation = the_books() if model == "the book's" else trained(seed, steps, changes)
    T = decoder.config.context_length
    batches = list(sample(validation, T, n_targets))
    reference = np.vstack([inputs["ids"] for inputs, _ in sample(training, T, min(n_targets, N_REFERENCE))])
    whole = inside.mean_loss(decoder, batches)

    def rise(parts: Iterable[str], mean_over: Integer[np.ndarray, "B T"] | None = None) -> float:
        with inside.without(decoder, parts, mean_over=mean_over):
            return inside.mean_loss(decoder, batches) - whole

    blocks = range(decoder.config.n_layers)
    heads = [[f"block {i}: head {h}" for h in range(decoder.config.n_heads)] for i in blocks]
    attention = [f"block {i}: attention" for i in blocks]
    feedforward = [f"block {i}: feed-forward" for i in blocks]
    sublayers = [part for both in zip(attention, feedforward, strict=True) for part in both]
    kinds = {"attention": attention, "feed-forward": feedforward, "both": sublayers}
    alone = {part: rise([part]) for part in chain(sublayers, *heads)}
    least = sorted(chain(*heads), key=lambda head: alone[head])
    return {
        "nothing": whole,
        "alone": alone,
        "sublayers": {" + ".join(pair): rise(pair) for pair in combinations(sublayers, 2)},
        "heads": {" + ".join(pair): rise(pair) for own in heads for pair in combinations(own, 2)},
        "kind": {kind: rise(parts) for kind, parts in kinds.items()},
        "mean": {part: rise([part], reference) for part in sublayers}
        | {kind: rise(parts, reference) for kind, parts in kinds.items()},
        "fewer": [whole + rise(least[:n]) for n in range(len(least) + 1)],
    }


def the_books() -> tuple[Transformer, Ids, Ids]:
    """Returns the model that the chapters look into, the ids it was trained on, and those for validation."""
    model, tokenizer = shipped.load()
    return model, *split(tokenizer.encode(corpus()))


def trained(seed: int, steps: int, changes: Sequence[str] = ()) -> tuple[Transformer, Ids, Ids]:
    """Returns a model trained by the modern recipe for so many steps, and the ids for training and for validation."""
    trainer = trainer_of(recipe_of(N_LAYERS, seed, steps=steps, changes=changes))
    trainer.run()
    return in_numpy(trainer.model.eval()), trainer.task.ids, trainer.task.held_out


EXPERIMENT = Experiment(
    name="worth",
    question="Are two parts of a model worth what each is worth alone, and are they in every model?",
    measure=measure,
    runs=(
        {"model": "the book's", "n_targets": 2 * N_TARGETS},
        *({"model": "small", "seed": seed} for seed in SEEDS),
    ),
    short={
        "steps": 60,
        "n_targets": 256,
        "changes": ["model.n_layers=2", "model.n_heads=2", "data.validation=0.005"],
    },
)
