"""Depth against width: the same number of parameters in one wide block or in up to eight narrow ones."""

from collections.abc import Sequence
from typing import NamedTuple

from glassformer.experiments.experiment import WHOLE_TENTH, Experiment, Found
from glassformer.experiments.training import curve, trainer_of
from glassformer.train.recipe import Recipe

D_HEAD = 16  # heads are equally wide, and wider models have more of them


class Shape(NamedTuple):
    """A way to lay out the same number of parameters."""

    d_model: int
    d_ff: int


SHAPES = {1: Shape(128, 324), 2: Shape(96, 209), 4: Shape(64, 172), 8: Shape(48, 110)}
"""A width for each number of blocks, chosen so that all have the same number of parameters, within 1 %."""

RATE = 0.02  # of the modern recipe
RATES = (0.01, 0.04)  # several, so that no depth loses because of a rate that suits another
SEEDS = (0, 1, 2)
STEPS = 600


def measure(
    n_layers: int,
    seed: int,
    learning_rate: float = RATE,
    steps: int = STEPS,
    changes: Sequence[str] = (),
) -> Found:
    """Trains a decoder with so many blocks by the modern recipe and measures its loss over the whole validation part.

    Returns the total "parameters"; the "loss", in nats per character, in windows of 64; and "course", the
    curve of the training loss.

    Derived in chapter 07.

    Raises:
        ValueError: no shape with so many blocks is planned.
    """
    if n_layers not in SHAPES:
        raise ValueError(f"n_layers={n_layers} is not one of {', '.join(map(str, SHAPES))}")
    trainer = trainer_of(recipe_of(n_layers, seed, learning_rate, steps, changes))
    records = trainer.run()
    return {
        "parameters": trainer.model.config.parameter_count().total,
        "loss": records[-1]["validation_loss"],
        "course": curve(records),
    }


def recipe_of(
    n_layers: int, seed: int, learning_rate: float = RATE, steps: int = STEPS, changes: Sequence[str] = ()
) -> Recipe:
    """Returns the modern recipe for a model with so many blocks."""
    shape = SHAPES[n_layers]
    run = (
        *WHOLE_TENTH,
        f"model.n_layers={n_layers}",
        f"model.d_model={shape.d_model}",
        f"model.d_ff={shape.d_ff}",
        f"model.n_heads={shape.d_model // D_HEAD}",
        "model.attention_scale=0.6",  # 2.4 / √d_head, as in that recipe
        f"training.learning_rate={learning_rate}",
        f"training.seed={seed}",
        f"training.steps={steps}",
        "training.evaluate_every=0",
    )
    return Recipe.of_the_book("modern", [*run, *changes])


EXPERIMENT = Experiment(
    name="depth",
    question="Is it better to make a model deeper or wider, at equally many parameters?",
    measure=measure,
    runs=(
        *({"n_layers": n_layers, "seed": seed} for seed in SEEDS for n_layers in SHAPES),
        *({"n_layers": n_layers, "seed": 0, "learning_rate": rate} for rate in RATES for n_layers in SHAPES),
    ),
    short={"steps": 100, "changes": ["data.length=32", "data.validation=0.005"]},
)
