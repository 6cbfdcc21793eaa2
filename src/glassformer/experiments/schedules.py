"""Warm-up and decay: how much the learning rate's schedule matters, by peak rate."""

from glassformer.experiments.experiment import Experiment, Found, grid
from glassformer.experiments.training import curve, new_model, plan, text_task, trained

D_MODEL, N_LAYERS, N_HEADS = 32, 2, 2
STEPS = 300

PEAKS = (1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
WARMUPS = (0, 30)
DECAYS = ("none", "linear", "cosine")  # down to 0
SEEDS = (0, 1, 2)

CURVE = 30  # points of the stored curve, of 10 steps each


def measure(
    peak: float,
    warmup: int,
    decay: str,
    seed: int,
    steps: int = STEPS,
    characters: int | None = None,
) -> Found:
    """Trains a small decoder with AdamW and this schedule: the learning rate rises to the peak, then falls to 0.

    Returns the curve of the training loss, each point the mean of neighbouring steps, and the final loss over
    the whole validation part; a run whose loss becomes NaN stops there and has no final loss. `characters`
    shortens the text.

    Derived in chapter 10.

    Raises:
        ValueError: there is no such decay, or a number is out of range.
    """
    task = text_task(seed, characters)
    config = plan(task, steps=steps, learning_rate=peak, warmup=warmup, decay=decay, seed=seed)
    model = new_model("pre", N_LAYERS, task, seed, d_model=D_MODEL, n_heads=N_HEADS)
    records = trained(model, task, config, may_diverge=True)
    return {
        "loss": curve(records, points=CURVE),
        "steps": len(records),
        "validation_loss": records[-1].get("validation_loss"),
    }


EXPERIMENT = Experiment(
    name="schedules",
    question="What does the course of the learning rate do: its peak, its warm-up, its decay?",
    measure=measure,
    runs=grid(peak=PEAKS, warmup=WARMUPS, decay=DECAYS, seed=SEEDS),
    short={"steps": 60, "characters": 60_000},
)
