"""Estimates how long a run will take, once its first steps are done."""

from collections.abc import Sequence
from statistics import median

from glassformer.train.config import TrainingConfig

TRIED = 10  # steps after which a run estimates the remaining time
WARMING_UP = 3  # the first of these, which take longer and are not counted


def seconds_left(
    config: TrainingConfig, step: int, seconds: Sequence[float], batches_of_validation: float
) -> float:
    """Estimates the time until the last step from the steps that were `tried`.

    `batches_of_validation` is how many batches the validation part fills. Evaluation needs only the forward
    pass, a third of a step's work; a run that keeps an average of its weights evaluates twice.
    """
    a_step = median(seconds[WARMING_UP:] or seconds)
    looks = 1  # at the end, and whenever it is due before that
    if config.evaluate_every:
        looks += (config.steps - 1) // config.evaluate_every - step // config.evaluate_every
    if config.ema is not None:
        looks *= 2
    return a_step * (config.steps - step + looks * batches_of_validation / 3)


def in_words(seconds: float) -> str:
    """Writes a time in words: in seconds up to 1.5 minutes, in minutes up to 1.5 hours, then in hours."""
    for unit, name in ((3600, "hour"), (60, "minute")):
        if seconds >= 1.5 * unit:
            return f"about {seconds / unit:.0f} {name}s"
    whole = max(1, round(seconds))
    return f"about {whole} second{'s' * (whole > 1)}"
