"""Trains the small model of TrainingLab in Chromium, unbroken and with every break, and records how it ends.

    python tools/assets/training_lab.py     what `make training-lab` runs; it takes about half an hour

The view draws the unbroken run beside a broken one, and compares the ends. A test repeats the first steps.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
# for `python tools/assets/training_lab.py`, which has only its own folder on its path
sys.path.append(str(ROOT))

from glassformer.text import corpus  # noqa: E402
from glassformer.widgets.kit.modules import needed, read  # noqa: E402
from glassformer.widgets.training_lab import BREAKS, MEASURED, TrainingLab  # noqa: E402
from tools.shared import browser  # noqa: E402

FILE = ROOT / "src" / "glassformer" / "assets" / MEASURED
SEEDS = (0, 1, 2)
EACH = 25  # steps whose mean loss is a point of the course

# Trains with the view's own settings. Returns the losses of some steps, and that of the whole held-out text at the end.
TRAIN = """async ([sources, state, text, steps]) => {
  const url = URL.createObjectURL(new Blob([sources.loader], { type: "text/javascript" }));
  const { link } = await import(url);
  const { settingsOf } = await link(sources.training_setup);
  const { Training } = await link(sources.training);
  const drained = (work) => {
    for (;;) {
      const { done, value } = work.next();
      if (done) return value;
    }
  };
  const training = drained(Training.of(settingsOf((name) => state[name], text)));
  for (let i = 0; i < Math.min(steps ?? Infinity, training.recipe.steps); i++) drained(training.train());
  return [training.losses, steps === null ? drained(training.heldOut()) : null];
}"""


def trained(page: Page, view: TrainingLab, steps: int | None = None) -> tuple[list[float], float | None]:
    """Returns the losses of the view's training and the last loss on the held-out text; or only the first losses."""
    modules = ("training_setup", "training")
    sources: dict[str, Any] = {
        module: [{"name": name, "source": read(name)} for name in needed(module)] for module in modules
    }
    state = {name: getattr(view, name) for name in view.keys if name not in ("layout", "_modules")}
    losses, last = page.evaluate(TRAIN, [sources | {"loader": read("loader")}, state, corpus(), steps])
    return losses, last


def course(losses: list[float]) -> list[list[float]]:
    """Returns the points of a curve: a number of steps, and the mean loss of the last of them."""
    ends = range(EACH, len(losses) + 1, EACH)
    return [[end, round(sum(losses[end - EACH : end]) / EACH, 3)] for end in ends]


def main() -> None:
    """Train everything and write the file."""
    found: dict[str, list[dict[str, Any]]] = {broken: [] for broken in BREAKS}
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser.ensure(), args=browser.FLAGS)
        page = chromium.new_page()
        for broken in BREAKS:
            for seed in SEEDS:
                losses, last = trained(page, TrainingLab(broken=broken, seed=seed))
                assert last is not None
                run: dict[str, Any] = {"seed": seed, "loss": round(last, 4)}
                if broken == "nothing" and not found[broken]:
                    run["course"] = course(losses)
                found[broken].append(run)
                print(f"{broken}, seed {seed}: {last:.4f}")
        chromium.close()
    FILE.write_text(json.dumps(found) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
