"""Measure how quickly a view responds to the pointer: milliseconds on the page's main thread, for every control.

    python benchmarks/redraw.py [NAME …] [--page FILE]     the views with these names (default: all), as first shown

In headless Chromium, the program moves every slider over its whole range and the pointer across every drawing from
corner to corner. The time of a step is that of its event handlers and of the next frame: scripts, style, layout and
paint. The wait for that frame is not counted. At sixty frames per second, a frame lasts 16.7 ms. The last column is
the average processor time, which a busy machine affects less; it includes what happens after the hand comes to rest.
With --page, the views are those of a built page, surrounded by all its text and styles. A first line then says when its
first view was there (wanted on a quiet machine: within 1,500 ms) and how long its longest task was.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import median, quantiles

from playwright.sync_api import Page, sync_playwright

from glassformer import widgets

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # for tools
from tools.shared import browser  # noqa: E402
from tools.shared.views import DRAW, page_of  # noqa: E402

STYLE = "body { max-width: 780px; margin: auto }"

# Views that draw different things in different states are measured in each.
STATES = {
    "DistanceBias": [{}, {"method": "t5", "length": 64}],
    "LossWatcher": [
        {"points": [[i, 2 + 2 * 0.99**i, 1.9, 4.1] for i in range(800)], "landmarks": {"unigram": 3.3}}
    ],
    "ParameterBars": [{}, {"view": "size"}],
    "PositionHeatmap": [{"n_positions": 1024, "d_model": 128}, {}],
}

# A step dispatches events. The first of the next frame's callbacks and a message after the last are that frame's ends.
DRIVE = """async ([view, label, steps]) => {
  const root = document.querySelectorAll(".gf-widget:has(.gf-drawing)")[view];
  const named = (input) => input.closest(".gf-slider").querySelector("label").textContent === label;
  const input = [...root.querySelectorAll("input[type=range]")].find(named);
  const channel = new MessageChannel();
  const afterFrame = () => new Promise((done) => {
    channel.port1.onmessage = () => done(performance.now());
    requestAnimationFrame(() => channel.port2.postMessage(0));
  });
  // To the other end and back again, at least one notch a step.
  const slide = (i) => {
    const [low, high] = [Number(input.min), Number(input.max)];
    const notches = Math.round((high - low) / Number(input.step));
    const there = i * Math.max(1, Math.round(notches / steps)) % (2 * notches);
    input.value = low + Math.min(there, 2 * notches - there) * Number(input.step);
    input.dispatchEvent(new Event("input", { bubbles: true }));
  };
  const point = (i) => {
    const part = i / (steps + 1);
    const box = root.querySelector(".gf-drawing").getBoundingClientRect();
    const [clientX, clientY] = [box.x + part * box.width, box.y + part * box.height];
    const event = { clientX, clientY, bubbles: true, pointerType: "mouse" };
    document.elementFromPoint(clientX, clientY)?.dispatchEvent(new PointerEvent("pointermove", event));
  };
  root.querySelector(".gf-drawing").scrollIntoView({ block: "center" });
  await afterFrame();
  const [taken, before] = [[], input?.value];
  for (let i = 0; i <= steps; i++) {
    let frame;
    requestAnimationFrame(() => (frame = performance.now()));
    const start = performance.now();
    (label ? slide : point)(i);
    const handled = performance.now() - start;
    taken.push(handled + (await afterFrame()) - frame);
  }
  if (label) {
    input.value = before;
    input.dispatchEvent(new Event("input", { bubbles: true }));
  }
  return taken.slice(1);
}"""
# Keeps count from the page's first moment: of when its first view was there, and of tasks that take long.
WATCH = """
window.seen = { tasks: [0], usable: null };
new PerformanceObserver((list) => list.getEntries().forEach(({ duration }) => seen.tasks.push(duration)))
  .observe({ type: "longtask", buffered: true });
const look = () => {
  if (document.querySelector(".widget-host > .gf-widget")) seen.usable = performance.now();
  else requestAnimationFrame(look);
};
look();
"""
CONTROLS = """() => [...document.querySelectorAll(".gf-widget:has(.gf-drawing)")].map((view) => [
  view.querySelector(".gf-title").textContent,
  [...view.querySelectorAll(".gf-slider label")]
    .filter((label) => label.closest("[hidden]") === null).map((label) => label.textContent)])"""


def together(names: list[str]) -> str:
    """Returns a page with one view of each class, run as the book's pages run their views."""
    views = [getattr(widgets, name)(**traits) for name in names for traits in STATES.get(name, [{}])]
    return page_of(views, STYLE)


def measure(page: Page, steps: int) -> None:
    """Prints a line for every control of every view on the page."""
    inspector = page.context.new_cdp_session(page)
    inspector.send("Performance.enable", {"timeDomain": "threadTicks"})

    def processor() -> float:
        """Returns the seconds that the processor has spent on the page's own thread."""
        metrics = inspector.send("Performance.getMetrics")["metrics"]
        return next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration")

    page.evaluate(DRAW)
    page.evaluate("document.querySelectorAll('.gf-more').forEach((details) => (details.open = true))")
    for view, (title, labels) in enumerate(page.evaluate(CONTROLS)):
        print(title)
        for label in [*labels, None]:
            start = processor()
            taken = page.evaluate(DRIVE, [view, label, steps])
            page.wait_for_timeout(300)
            spent, high = 1000 * (processor() - start) / len(taken), quantiles(taken, n=20)[-1]
            print(f"    {label or '(pointing)':<28}{median(taken):7.1f}{high:8.1f}{spent:11.1f}", flush=True)


def main() -> None:
    """Reads the command line, opens the page and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    known = [name for name in widgets.__all__ if name != "Quiz"]
    parser.add_argument(
        "names", nargs="*", choices=[*known, []], metavar="NAME", help="the views to measure (default: all)"
    )
    parser.add_argument("--page", type=Path, help="a page of the built site, on which to measure")
    parser.add_argument("--steps", type=int, default=60, help="the number of steps per control (default: 60)")
    options = parser.parse_args()
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser.find(), args=browser.FLAGS)
        page = chromium.new_page(viewport={"width": 1280, "height": 900})
        if options.page:
            page.add_init_script(WATCH)
            page.goto(options.page.resolve().as_uri())
            page.wait_for_function("seen.usable !== null")
            page.evaluate(DRAW)
            tasks, usable = page.evaluate("[seen.tasks, seen.usable]")
            print(f"first view after {usable:.0f} ms; longest task {max(tasks):.0f} ms")
        else:
            page.set_content(together(options.names or known))
        print(f"{'milliseconds of work per step':<32}{'median':>7}{'95 %':>8}{'processor':>11}")
        measure(page, options.steps)
        chromium.close()


if __name__ == "__main__":
    main()
