"""Write the page that says how every model and every stored run was made, and how long that takes.

    python tools/made.py     write contributing/how-runs-are-made.md

Everything in its tables comes from the experiments, their stored runs, the models' cards, and the times that
`make experiments-again` measured.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glassformer import shipped
from glassformer.experiments import NAMES, experiment, stored

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "contributing" / "how-runs-are-made.md"
AGAIN = ROOT / "book" / "again.json"

HEADING = """# How models and runs are made

`python tools/made.py` writes this page from the experiments, the stored runs and the models' cards.

## Models

`python -m tools.models NAME` trains a model as its recipe says, measures it, and writes its card. Training uses one
thread of a CPU. The minutes were estimated from the first 44 to 174 steps on one CPU, without the measurements that
follow the training; the program shows how long the rest takes on your machine.
[The page about the models](../book/models.md) has their losses and limits.

| model | parameters | recipe | steps | minutes | changes to the recipe | made with |
| :-- | --: | :-- | --: | --: | :-- | :-- |
"""
STEPS_A_SECOND = {"shakespeare": 2.28, "words": 4.10, "masked": 6.68, "dates": 10.89}
RUNS = """
## Stored runs

`python tools/experiments.py NAME` makes the missing runs of an experiment, and `--again` makes all of them anew. A run
uses one thread. The minutes are those of all runs, one after another: for each kind of run, the seconds that its
repetition took (`make experiments-again`), times the number of its seeds. They were measured on one CPU. "–" means that
no run of the experiment has been repeated yet, and "at least" that some kinds have not. [Made
again](../book/again.md) compares the repetitions with the stored runs.

| experiment | what it asks | runs | minutes | made with |
| :-- | :-- | --: | --: | :-- |
"""


def versions(made_with: dict[str, str]) -> str:
    """Returns "torch 2.13.0, numpy 2.4.6"."""
    return ", ".join(f"{name} {version}" for name, version in made_with.items() if name in ("torch", "numpy"))


def minutes(name: str) -> str:
    """Returns how long all stored runs of an experiment take together, as far as repetitions tell."""
    measured = {}
    for run in json.loads(AGAIN.read_text(encoding="utf-8")):
        if run["name"] == name:
            measured[_kind(run["settings"])] = run["seconds"]
    seeds: dict[str, int] = defaultdict(int)
    for run in stored(name):
        seeds[_kind(run.settings)] += 1
    known = [measured[kind] * count for kind, count in seeds.items() if kind in measured]
    if not known:
        return "–"
    said = f"{sum(known) / 60:.0f}" if sum(known) >= 60 else "under 1"
    return said if len(known) == len(seeds) else f"at least {said}"


def _kind(settings: Mapping[str, Any]) -> str:
    return json.dumps({name: value for name, value in settings.items() if name != "seed"})


def page() -> str:
    """Returns the page as Markdown."""
    rows = [HEADING]
    for name in shipped.NAMES:
        card = shipped.card(name)
        recipe, changes = card["recipe"], ", ".join(f"`{change}`" for change in card["changes"]) or "none"
        file = f"[{name}](../src/glassformer/assets/recipes/{name}.toml)"
        steps = recipe["training"]["steps"]
        rows.append(
            f"| {name} | {card['parameters']:,} | {file} | {steps:,} | {steps / STEPS_A_SECOND[name] / 60:.0f} | "
            f"{changes} | {versions(card['made_with'])} |\n"
        )
    rows.append(RUNS)
    for name in NAMES:
        path = ROOT / "src" / "glassformer" / "assets" / "experiments" / f"{name}.json"
        made_with = json.loads(path.read_text(encoding="utf-8"))["made_with"]
        file = f"[{name}](../src/glassformer/experiments/{name}.py)"
        asks, count = experiment(name).question, len(stored(name))
        rows.append(f"| {file} | {asks} | {count} | {minutes(name)} | {versions(made_with)} |\n")
    return "".join(rows)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
