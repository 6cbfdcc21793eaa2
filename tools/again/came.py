"""Stores the results of repeated runs, and reads and writes their file."""

from __future__ import annotations

import json
import math
import os
import statistics
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from glassformer.experiments import Run
from tools.again.kinds import Kind


class Came(NamedTuple):
    """The result of a repeated run, the CPU seconds that it took, and the versions of the libraries."""

    name: str
    run: Run
    seconds: float
    made_with: dict[str, str]


def of(kind: Kind, came: Iterable[Came]) -> Came | None:
    """Returns the result for a kind, or None if it has not been repeated yet."""
    return next((one for one in came if (one.name, one.run.settings) == (kind.name, kind.settings)), None)


def cheapest_first(kinds: Iterable[Kind], came: list[Came]) -> list[Kind]:
    """Sorts kinds by the seconds that they took, or that others of their experiment took.

    If nothing is known about an experiment, one of its runs comes first, and its other runs come last.
    """
    places: Counter[str] = Counter()
    order: list[tuple[float, int, Kind]] = []
    for kind in kinds:
        one = of(kind, came)
        others = [other.seconds for other in came if other.name == kind.name]
        unknown = math.inf if places[kind.name] else 0.0
        seconds = one.seconds if one else statistics.median(others or [unknown])
        order.append((seconds, places[kind.name], kind))
        places[kind.name] += 1
    return [kind for *_, kind in sorted(order, key=lambda row: row[:2])]


def read(file: Path) -> list[Came]:
    """Returns the results in the file, or none if there is no file."""
    if not file.exists():
        return []
    return [
        Came(one["name"], Run(one["settings"], one["found"], one["cpu"]), one["seconds"], one["made_with"])
        for one in json.loads(file.read_text(encoding="utf-8"))
    ]


def write(kinds: Iterable[Kind], came: list[Came], file: Path) -> None:
    """Writes one line per run, in the order of the kinds; leaves the file alone if nothing changed."""
    lines = [
        json.dumps(
            {"name": one.name, **one.run._asdict(), "seconds": one.seconds, "made_with": one.made_with},
            ensure_ascii=False,
            allow_nan=False,
        )
        for kind in kinds
        if (one := of(kind, came))
    ]
    beside = file.with_name(f".{file.name}.unfinished")
    beside.write_text("[\n " + ",\n ".join(lines) + "\n]\n", encoding="utf-8")
    os.replace(beside, file)
