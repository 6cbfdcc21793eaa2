"""Trains the same recipe on ever longer beginnings of Shakespeare, to see how long a text has to be."""

from collections.abc import Sequence

from glassformer import _checks as checks
from glassformer.experiments.experiment import TINY, Experiment, Found
from glassformer.experiments.training import curve, trainer_of, validations
from glassformer.text import corpus
from glassformer.train.recipe import Recipe

CHARACTERS = (
    10_000,
    30_000,
    100_000,
    1_000_000,
)  # a few pages, a chapter, a short book, all but the held-out end
HELD_OUT = 30_000  # the same for all: the end of the corpus
SMALL = ("model.n_layers=2", "model.d_model=64", "model.d_ff=172")
STEPS = 600
EVERY = 100
SEEDS = (0, 1, 2)


def measure(characters: int, seed: int, steps: int = STEPS, changes: Sequence[str] = ()) -> Found:
    """Trains a small model by the modern recipe on the beginning of the corpus; measures its loss on the corpus's end.

    Returns the curve of the training loss, the validation losses with their steps, the lowest of them, and
    how often each character was read ("epochs").

    Derived in chapter 15.

    Raises:
        ValueError: there are not that many characters, or a change breaks a rule.
    """
    checks.whole("characters", characters)
    if characters > len(corpus()) - HELD_OUT:
        raise ValueError(
            f"characters={characters}, but the corpus has {len(corpus()) - HELD_OUT} to learn from"
        )
    text = corpus()[:characters] + corpus()[-HELD_OUT:]
    run = (
        f"data.validation={HELD_OUT / len(text)}",
        "data.test=0.0",
        f"training.steps={steps}",
        f"training.seed={seed}",
        f"training.evaluate_every={EVERY}",
        "training.device=cpu",
    )
    trainer = trainer_of(Recipe.of_the_book("modern", [*SMALL, *run, *changes]), text)
    records = trainer.run()
    losses = [loss for _, loss in validations(records)]
    return {
        "parameters": trainer.model.config.parameter_count().total,
        "loss": curve(records),
        "validations": validations(records),
        "best": min(losses),
        "validation_loss": losses[-1],
        "epochs": trainer.tokens / characters,
    }


EXPERIMENT = Experiment(
    name="own_text",
    question="How long must a text be, for a small model to learn from?",
    measure=measure,
    runs=tuple({"characters": n, "seed": seed} for seed in SEEDS for n in CHARACTERS),
    short={"steps": 120, "changes": TINY},
)
