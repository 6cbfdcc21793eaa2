"""Defines experiments, their runs and what the runs found."""

import json
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, NamedTuple

import numpy as np

Settings = Mapping[str, Any]
Found = dict[str, Any]

DIGITS = 5  # of the numbers that are kept: more than several seeds agree in
POINTS = 40  # of a curve that is kept

# What makes a recipe's model and batches so small that a hundred steps take a second.
TINY = (
    "model.n_layers=1",
    "model.d_model=48",
    "model.d_ff=96",
    "data.length=32",
    "training.batch_size=6",
    "training.evaluate_every=0",
)


# What makes a recipe's loss one over all that is held out. The stored runs are from before the recipes kept a part for
# the test: what they call the validation loss is over the whole last tenth of the text, and it stays so.
WHOLE_TENTH = ("data.validation=0.1", "data.test=0.0")


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A question, and the runs that answer it.

    `measure(**settings)` makes one run, from nothing but its settings, and gives what it found as JSON knows it:
    numbers, strings, lists and dictionaries. `runs` are the settings of all runs. `short` are settings that make
    any of them a matter of seconds; tests make the experiment in that form and look whether it still says the same.
    """

    name: str
    question: str
    measure: Callable[..., Found]
    runs: tuple[Settings, ...]
    short: Settings

    def measure_shortly(self, **settings: Any) -> Found:
        """One run in its short form; PyTorch works on one thread meanwhile, which is fastest for so small matrices."""
        import torch

        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            return self.measure(**dict(self.short) | settings)
        finally:
            torch.set_num_threads(threads)


class Run(NamedTuple):
    """One run: its settings, what it found, and on what kind of CPU.

    Two kinds add up in another order, so the last digits of a loss differ; what takes how long may differ much.
    `cpu` is what PyTorch's kernels use of it, such as "AVX512 with bfloat16"; None: made before this was kept.
    """

    settings: Settings
    found: Found
    cpu: str | None = None

    def has(self, **settings: Any) -> bool:
        """Returns whether the run was made with these settings, among others; None: without that setting."""
        return all(self.settings.get(name) == value for name, value in settings.items())


def stored(name: str, **settings: Any) -> list[Run]:
    """The runs of an experiment that were kept, in their order; with settings, only those made with them.

    Raises:
        ValueError: nothing was kept, or no run has these settings.
    """
    file = place(name)
    if not file.is_file():
        raise ValueError(f"name={name!r}: there are no stored runs of such an experiment")
    runs = [Run(**run) for run in json.loads(file.read_text(encoding="utf-8"))["runs"]]
    found = [run for run in runs if run.has(**settings)]
    if not found:
        raise ValueError(f"no run of {name!r} was made with {settings}")
    return found


def place(name: str) -> Any:
    """The file in which the runs of an experiment are kept."""
    return resources.files("glassformer") / "assets" / "experiments" / f"{name}.json"


class Spread(NamedTuple):
    """Several seeds' measurements of one thing."""

    median: float
    lowest: float
    highest: float

    def __format__(self, form: str) -> str:
        return f"{self.median:{form}} ({self.lowest:{form}} to {self.highest:{form}})"


def spread(values: Iterable[float]) -> Spread:
    """The median, the lowest and the highest of some numbers.

    Raises:
        ValueError: there are none.
    """
    values = list(values)
    if not values:
        raise ValueError("values is empty")
    return Spread(statistics.median(values), min(values), max(values))


def thinned(values: Sequence[float], points: int = POINTS) -> list[float]:
    """A curve in at most so many points, each the mean of neighbouring values."""
    return [float(np.mean(some)) for some in np.array_split(values, min(points, len(values)))]


def rounded(found: Any) -> Any:
    """The same with every number to a few digits, as it is kept. JSON has no NaN and no infinity: they become None."""
    if isinstance(found, float):
        return float(f"{found:.{DIGITS}g}") if math.isfinite(found) else None
    if isinstance(found, dict):
        return {name: rounded(value) for name, value in found.items()}
    if isinstance(found, list | tuple):
        return [rounded(value) for value in found]
    return found
