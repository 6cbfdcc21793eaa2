"""Defines experiments, their runs and their results."""

import json
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import product
from typing import Any, NamedTuple

import numpy as np

Settings = Mapping[str, Any]
Found = dict[str, Any]

DIGITS = 5  # digits to store: more than different seeds agree on
POINTS = 40  # points of a stored curve

# Changes that make a recipe's model and batches so small that a hundred steps take a second.
TINY = (
    "model.n_layers=1",
    "model.d_model=48",
    "model.d_ff=96",
    "data.length=32",
    "training.batch_size=6",
    "training.evaluate_every=0",
)


# Changes that make a recipe's loss cover the whole held-out text. The stored runs are older than the test
# part of the recipes: their validation loss covers the whole last tenth of the text, and this stays so.
WHOLE_TENTH = ("data.validation=0.1", "data.test=0.0")


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A question and the runs that answer it.

    `measure(**settings)` performs one run from its settings alone and returns the result as numbers, strings,
    lists and dictionaries, which JSON can store. `runs` holds the settings of all runs. `short` holds
    settings that shorten any run to seconds; tests repeat the experiment in this form and check that it still
    gives the same result.
    """

    name: str
    question: str
    measure: Callable[..., Found]
    runs: tuple[Settings, ...]
    short: Settings

    def measure_shortly(self, **settings: Any) -> Found:
        """Performs one short run, with PyTorch on a single thread, which is fastest for such small matrices."""
        import torch

        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            return self.measure(**dict(self.short) | settings)
        finally:
            torch.set_num_threads(threads)


class Run(NamedTuple):
    """One run: its settings, its results, and the kind of CPU.

    Different kinds of CPUs add numbers in a different order, so the last digits of a loss differ, and times
    can differ a lot. `cpu` names the features that PyTorch's kernels use, such as "AVX512 with bfloat16"; it
    is None for runs made before this was recorded.
    """

    settings: Settings
    found: Found
    cpu: str | None = None

    def has(self, **settings: Any) -> bool:
        """Returns whether these are among the run's settings; None means that the run has no such setting."""
        return all(self.settings.get(name) == value for name, value in settings.items())


def stored(name: str, **settings: Any) -> list[Run]:
    """Returns the stored runs of an experiment in order; if settings are given, only those made with them.

    Raises:
        ValueError: nothing is stored, or no run has these settings.
    """
    file = place(name)
    if not file.is_file():
        raise ValueError(f"name={name!r}: there are no stored runs of such an experiment")
    runs = [Run(**run) for run in json.loads(file.read_text(encoding="utf-8"))["runs"]]
    found = [run for run in runs if run.has(**settings)]
    if not found:
        raise ValueError(f"no run of {name!r} was made with {settings}")
    return found


def grid(**choices: Iterable[Any]) -> tuple[Settings, ...]:
    """Returns the settings of a run for every combination of these choices; the last of them changes fastest."""
    return tuple(dict(zip(choices, chosen, strict=True)) for chosen in product(*choices.values()))


def place(name: str) -> Any:
    """Returns the file that stores the runs of an experiment."""
    return resources.files("glassformer") / "assets" / "experiments" / f"{name}.json"


class Spread(NamedTuple):
    """Measurements of the same thing with several seeds."""

    median: float
    lowest: float
    highest: float

    def __format__(self, form: str) -> str:
        return f"{self.median:{form}} ({self.lowest:{form}} to {self.highest:{form}})"


def spread(values: Iterable[float]) -> Spread:
    """Returns the median, the lowest and the highest of some numbers.

    Raises:
        ValueError: there are no numbers.
    """
    values = list(values)
    if not values:
        raise ValueError("values is empty")
    return Spread(statistics.median(values), min(values), max(values))


def thinned(values: Sequence[float], points: int = POINTS) -> list[float]:
    """Reduces a curve to at most so many points, each the mean of neighbouring values."""
    return [float(np.mean(some)) for some in np.array_split(values, min(points, len(values)))]


def rounded(found: Any) -> Any:
    """Rounds every number to the stored digits. NaN and infinity, which JSON does not have, become None."""
    if isinstance(found, float):
        return float(f"{found:.{DIGITS}g}") if math.isfinite(found) else None
    if isinstance(found, dict):
        return {name: rounded(value) for name, value in found.items()}
    if isinstance(found, list | tuple):
        return [rounded(value) for value in found]
    return found
