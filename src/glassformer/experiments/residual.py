"""Blocks that replace the stream instead of adding to it: what do two and eight of them learn?"""

from contextlib import nullcontext

from glassformer import _checks as checks
from glassformer.bugs import put_in
from glassformer.experiments.experiment import Experiment, Found, grid
from glassformer.experiments.training import curve, new_model, plan, text_task, trained, unigram_loss

DEPTHS = (2, 8)
RATES = (1e-3, 3e-3)  # two, so that the answer does not depend on a rate that suits only one of them
WARMUP, STEPS = 60, 200
SEEDS = (0, 1, 2)


def measure(
    adds: bool,
    n_layers: int,
    learning_rate: float,
    seed: int,
    steps: int = STEPS,
    characters: int | None = None,
) -> Found:
    """Trains a small pre-norm decoder whose sublayers add to the stream or replace it.

    Returns the curve of the training loss, the final loss on the whole validation text, and `unigram`, the
    validation loss from character frequencies alone.

    Derived in chapter 07.

    Raises:
        TypeError: `adds` is not a boolean.
    """
    checks.flag("adds", adds)
    task = text_task(seed, characters)
    config = plan(task, steps=steps, learning_rate=learning_rate, warmup=WARMUP, seed=seed)
    with nullcontext() if adds else put_in("residual-dropped"):
        records = trained(new_model("pre", n_layers, task, seed), task, config)
    return {
        "loss": curve(records),
        "validation_loss": records[-1]["validation_loss"],
        "unigram": unigram_loss(task),
    }


EXPERIMENT = Experiment(
    name="residual",
    question="What do blocks learn that do not add to the stream, but replace it?",
    measure=measure,
    runs=grid(seed=SEEDS, n_layers=DEPTHS, learning_rate=RATES, adds=(True, False)),
    short={"steps": 60, "characters": 20_000},
)
