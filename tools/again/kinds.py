"""Lists the kinds of stored runs, ignoring their seeds, and makes one of each again."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from glassformer import shipped
from glassformer.experiments import NAMES, Run, experiment, stored
from glassformer.experiments.experiment import Found, Settings, rounded

MODELS, NEURONS = "models", "neurons"
EVERY = (*NAMES, MODELS, NEURONS)


class Kind(NamedTuple):
    """Stored runs that differ only in their seed, their experiment, and a function that makes one of them."""

    name: str
    measure: Callable[..., Found]
    runs: list[Run]

    @property
    def settings(self) -> Settings:
        """Returns the settings of the first run, which is the one that is repeated."""
        return self.runs[0].settings


def kinds() -> list[Kind]:
    """Returns all kinds, in the order of `EVERY` and then in that of the runs."""
    every = [kind for name in NAMES for kind in grouped(name, experiment(name).measure, stored(name))]
    cards = [Run({"model": name}, rounded(_measured(shipped.card(name)))) for name in shipped.NAMES]
    return [*every, *grouped(MODELS, card, cards), *grouped(NEURONS, neurons, _neurons_stored())]


def grouped(name: str, measure: Callable[..., Found], runs: Iterable[Run]) -> list[Kind]:
    """Groups the runs of one experiment by their settings without the seed."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        but_seed = {setting: value for setting, value in run.settings.items() if setting != "seed"}
        groups.setdefault(json.dumps(but_seed), []).append(run)
    return [Kind(name, measure, group) for group in groups.values()]


def card(model: str) -> Found:
    """Measures a shipped model again, with its existing weights, and returns the numbers on its card."""
    from tools.models.make import keep, made

    with tempfile.TemporaryDirectory() as folder:
        return _measured(keep(made(model, [], Path(str(shipped.PLACE))), [], Path(folder)))


def _measured(card: dict[str, Any]) -> Found:
    """Returns a card without its descriptions and without the libraries that made it."""
    return {name: said for name, said in card.items() if name not in ("made_with", "checksum")}


def neurons(model: str) -> Found:
    """Searches again for the texts that excite a shipped decoder's neurons, and returns a few numbers about them."""
    from tools.neurons import excited

    return _of_neurons(excited(model))


def _neurons_stored() -> list[Run]:
    from safetensors.numpy import load

    from glassformer.chapters.ch06.neuron_explorer import PLACE

    files = sorted((file for file in PLACE.iterdir() if file.name.endswith(".safetensors")), key=str)
    return [
        Run({"model": file.name.removesuffix(".safetensors")}, rounded(_of_neurons(load(file.read_bytes()))))
        for file in files
    ]


def _of_neurons(arrays: dict[str, Any]) -> Found:
    """Returns the mean value and the sum of positions for each block and sign; any other position changes the sum."""
    return {
        "mean value": arrays["values"].astype(float).mean(axis=(2, 3)).tolist(),
        "sum of the places": arrays["places"].astype(int).sum(axis=(2, 3)).tolist(),
    }
