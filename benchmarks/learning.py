"""Measure how a GPT learns in the page: a step compared with PyTorch's, and whole trainings from start to end.

    python benchmarks/learning.py [--rounds 5] [--whole] [--firefox]

One step of the book's recipe (808,704 parameters, 12 × 64 characters) is measured in headless Chromium with the
WebAssembly kernel and without it, and in PyTorch with one thread. They take turns, and medians are compared. `--whole`
trains the small model and the book's own to the end, which takes ten minutes, and says when each passed what pairs of
characters tell, the final loss of the whole held-out text, and the longest time in which the page itself was not free.
`--firefox` does all of this in Firefox instead.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import http.server
import json
import sys
import tempfile
import threading
from pathlib import Path
from statistics import median
from typing import Any

import torch
from playwright.sync_api import sync_playwright

from glassformer.experiments.recipes import LAST, rung, trainer_of
from glassformer.text import corpus
from glassformer.train.recipe import Recipe
from glassformer.widgets.kit.modules import needed, read

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # for tools
from tools.shared import browser, firefox  # noqa: E402

BOOK = {"d_model": 128, "n_layers": 4, "length": 64, "batch_size": 12, "steps": 2000, "seed": 11}
SMALL = BOOK | {"d_model": 64, "n_layers": 2, "steps": 1500}
STEPS = 8  # in a round, the first two of which do not count
GOAL = 0.75  # of PyTorch's speed, at least

# In both, everything that is asked comes as one argument, and the answer is JSON, because both browsers pass on texts.
BEGIN = """async ([chains, loader, settings]) => {
  const { link } = await import(URL.createObjectURL(new Blob([loader], { type: "text/javascript" })));
  window.engine = Object.assign({}, ...(await Promise.all(chains.map(link))));
  window.settings = settings;
  window.drained = (steps) => {
    for (;;) {
      const { done, value } = steps.next();
      if (done) return value;
    }
  };
  return "";
}"""
STEP = """async ([kind, steps]) => {
  const trainings = (window.trainings ??= {});
  const training = (trainings[JSON.stringify(kind)] ??= drained(engine.Training.of(settings, kind)));
  const times = [];
  for (let i = 0; i < steps; i++) {
    const began = performance.now();
    drained(training.train());
    times.push(performance.now() - began);
  }
  const megabytes = training.model.memory.numbers.byteLength / 1e6;
  return JSON.stringify({ times, isFast: training.isFast, megabytes });
}"""
WHOLE = """async ([settings]) => {
  const began = performance.now();
  let [bigram, passed, longest, last, losses] = [0, null, 0, began, []];
  const watch = setInterval(() => {
    const now = performance.now();
    longest = Math.max(longest, now - last - 10);
    last = now;
  }, 10);
  let done;
  const over = new Promise((resolve) => (done = resolve));
  const training = engine.startTraining((message) => {
    if (message.told === "begun") bigram = message.landmarks.bigram;
    if (message.told === "progress") {
      losses.push(...message.losses);
      if (passed === null && message.held.at(-1)[1] < bigram) passed = (performance.now() - began) / 1000;
      if (message.step === settings.steps && !message.isRunning) window.trained = (performance.now() - began) / 1000;
    }
    if (message.told === "judged" || message.told === "failed") done({ loss: null, why: null, ...message });
  });
  training.send({ do: "begin", settings });
  training.send({ do: "run" });
  const { loss, why } = await over;
  const inWorker = await training.inWorker;
  training.stop();
  clearInterval(watch);
  return JSON.stringify({ bigram, passed, seconds: window.trained, loss, why, longest, inWorker, hundred: losses[99] });
}"""


class Blank(http.server.BaseHTTPRequestHandler):
    """Serves an empty page: a worker needs an origin."""

    def do_GET(self) -> None:
        """Answers every request alike."""
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>A GPT learns</title>")

    def log_message(self, format: str, *_: object) -> None:
        """Says nothing."""


def settings_of(sizes: dict[str, int]) -> dict[str, Any]:
    """Returns the settings of a training in the page."""
    recipe = Recipe.of_the_book("modern")
    _, _, config = recipe.made_for(corpus()[:10_000])
    fields = {"model": json.loads(config.to_json()), "training": dataclasses.asdict(recipe.training)}
    return {"recipe": fields, "text": corpus(), **sizes}


def milliseconds_in_pytorch() -> list[float]:
    """Measures a few steps of the same recipe with one thread."""
    torch.set_num_threads(1)
    short = rung(LAST, [f"training.steps={STEPS}", "data.validation=0.001", "data.test=0.0"])
    return [1000 * record["seconds"] for record in trainer_of(short).run()[2:]]


def steps(page: Any, rounds: int) -> bool:
    """Prints how long a step takes, with the kernel, without it and in PyTorch; returns whether the goal is met."""
    found: dict[str, list[float]] = {"kernel": [], "plain JavaScript": [], "PyTorch, one thread": []}
    megabytes = 0.0
    for _ in range(rounds):
        for name, plain in (("kernel", False), ("plain JavaScript", True)):
            said = json.loads(page.evaluate(STEP, [{"plain": plain}, STEPS // 2 if plain else STEPS]))
            if said["isFast"] is plain:
                raise RuntimeError(f"{name}: isFast={said['isFast']}")
            found[name] += said["times"][2:]
            megabytes = said["megabytes"]
        found["PyTorch, one thread"] += milliseconds_in_pytorch()
    ms = {name: median(times) for name, times in found.items()}
    speed = ms["PyTorch, one thread"] / ms["kernel"]
    for name, time in ms.items():
        print(f"{name:20} {time:7.0f} ms a step, {ms['PyTorch, one thread'] / time:.2f} × PyTorch's speed")
    print(f"memory of model, gradients, optimizer and activations: {megabytes:.0f} MB")
    print(f"goal: at least {GOAL} × PyTorch's speed with the kernel: {'met' if speed >= GOAL else 'MISSED'}")
    return speed >= GOAL


def whole(page: Any) -> None:
    """Prints how whole trainings went."""
    for name, sizes in (("small", SMALL), ("the book's", BOOK)):
        said = json.loads(page.evaluate(WHOLE, [settings_of(sizes)]))
        if said["why"]:
            raise RuntimeError(said["why"])
        print(
            f"{name:11} below {said['bigram']:.2f} after {said['passed']:.0f} s; {sizes['steps']} steps in "
            f"{said['seconds'] / 60:.1f} minutes; loss of the whole held-out text {said['loss']:.4f}; loss at step 100 "
            f"{said['hundred']:.4f}; longest time without a free page {said['longest']:.0f} ms; in a worker: "
            f"{said['inWorker']}"
        )


def main() -> int:
    """Runs what was asked for; returns 1 if the goal was missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--rounds", type=int, default=5, help="rounds in which the rivals take turns (default: 5)"
    )
    parser.add_argument("--whole", action="store_true", help="train to the end as well")
    parser.add_argument("--firefox", action="store_true", help="in Firefox rather than Chromium")
    given = parser.parse_args()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Blank)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/"
    chains = [
        [{"name": name, "source": read(name)} for name in needed(one)]
        for one in ("training", "training_worker")
    ]

    def measure(page: Any) -> bool:
        page.goto(address)
        page.evaluate(BEGIN, [chains, read("loader"), settings_of(BOOK)])
        is_fast = steps(page, given.rounds) if given.rounds else True
        if given.whole:
            whole(page)
        return is_fast

    if given.firefox:
        path = firefox.find()
        if path is None:
            parser.error("there is no Firefox; GLASSFORMER_FIREFOX may name it")
        with (
            tempfile.TemporaryDirectory() as profile,
            contextlib.closing(firefox.Firefox(path, profile)) as window,
        ):
            is_fast = measure(window)
        return int(not is_fast)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser.find(), args=browser.FLAGS)
        is_fast = measure(chromium.new_page())
        chromium.close()
    return int(not is_fast)


if __name__ == "__main__":
    sys.exit(main())
