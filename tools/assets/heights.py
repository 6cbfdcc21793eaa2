"""Measures how high each view is, so that a page can reserve the space before the view is drawn.

    python tools/assets/heights.py     open every view in Chromium, measure it in columns of several widths, and write
                                book/site/heights.js, which `book/site/widget-host.js` reads

Views are measured with their initial settings. Each chapter's quiz is measured by itself, "Quiz 04", and so are each
prediction, "Predict 00 hotter", and the short form of a view, "TrainingLab short".
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))  # for `python tools/assets/heights.py`, which has only its own folder on its path

from glassformer import contents, widgets  # noqa: E402
from glassformer.widgets import predict, training_lab  # noqa: E402
from glassformer.widgets.kit.view import View  # noqa: E402
from tools.shared import browser, views  # noqa: E402

FILE = ROOT / "book" / "site" / "heights.js"
# How wide the column of a page is, in CSS pixels, in windows of some widths.
COLUMNS = {
    **{320: 288, 360: 328, 390: 358, 430: 398, 480: 448, 540: 508, 600: 568, 650: 618, 700: 668, 768: 736},
    **{1200: 646, 1240: 678, 1280: 710, 800: 732, 1024: 751, 834: 766, 1440: 782},
}
HEADING = """\
// How high each view is, in CSS pixels, for widget-host.js: for each font size of <html>, in columns of the widths in
// `columns`. `letters` says how wide the letters were with which this was measured. Written by `make heights`: do not
// edit it.
globalThis.glassformerHeights = """

# The same letters make lines break at the same places: the widths of a sentence in the two typefaces of the views.
LETTERS = """() => {
  const letters = document.querySelector(".gf-widget").appendChild(document.createElement("span"));
  letters.textContent = "The quick brown fox jumps over the lazy dog 0123456789 −∞ √ ≈ ×";
  letters.style.cssText = "position: absolute; white-space: nowrap !important";
  const widths = ["", "gf-paper"].map((typeface) => {
    letters.className = typeface;
    return Math.round(10 * letters.getBoundingClientRect().width) / 10;
  });
  letters.remove();
  return widths;
}"""
# The font size of <html>, and the height of every view in a column of this width, once none has changed for ten frames.
MEASURE = """async (column) => {
  document.body.style.width = `${column}px`;
  const drawn = [...document.querySelectorAll(".widget-host > .gf-widget")];
  const heights = () => drawn.map((view) => Math.round(view.getBoundingClientRect().height));
  for (let before = [], still = 0; still < 10; ) {
    await new Promise(requestAnimationFrame);
    const now = heights();
    still = `${now}` === `${before}` && !document.querySelector("[aria-busy]") ? still + 1 : 0;
    before = now;
  }
  return [parseFloat(getComputedStyle(document.documentElement).fontSize), heights()];
}"""

BySize = dict[str, list[int]]
"""For each font size of <html>, as text because it is a key in JSON, one number for each of some columns."""


@dataclass
class Heights:
    """The heights of views, as they were measured.

    Attributes:
        letters: how wide a sentence is in each of the two typefaces of the views.
        columns: the widths of the columns, from the narrowest to the widest.
        views: for each view, by its name, its height in each of the columns.
    """

    letters: list[float]
    columns: BySize
    views: dict[str, BySize]


def names() -> list[str]:
    """Returns what the views are called here: by class; a quiz also by its chapter, a prediction by both its names.

    A short form is called by its name as well.
    """
    numbers = contents.numbers()
    quizzes = [f"Quiz {number}" for number in numbers if (contents.folder(number) / "quiz.toml").is_file()]
    predictions = [f"Predict {number} {name}" for number in numbers for name in predict.names(number)]
    views = [name for name in widgets.__all__ if name not in ("Quiz", "Predict")]
    return [*views, *(f"TrainingLab {name}" for name in training_lab.NAMES if name), *quizzes, *predictions]


def view_of(name: str) -> View:
    """Returns the view of that name with its initial settings."""
    kind, *more = name.split()
    view = getattr(widgets, kind)
    if not more:
        return view()
    return view(name=more[0]) if kind == "TrainingLab" else view.load(*more)


def measure(chromium: Browser) -> Heights:
    """Returns the heights of all views, as this browser draws them with the letters of this machine."""
    style = (ROOT / "book" / "site" / "glassformer.css").read_text("utf-8") + "body { margin: 0 }"
    page = chromium.new_page(reduced_motion="reduce")  # nothing starts by itself
    html = views.page_of([view_of(name) for name in names()], style)
    # A page with an address has a store, like those of the book: views say so when they keep the reader's answers.
    page.route("http://localhost/", lambda route: route.fulfill(body=html, content_type="text/html"))
    page.goto("http://localhost/", timeout=1000 * browser.PATIENCE)
    page.evaluate(views.DRAW)
    found = Heights([], {}, {name: {} for name in names()})
    for window, column in sorted(COLUMNS.items(), key=lambda pair: pair[1]):
        page.set_viewport_size({"width": window, "height": 900})
        size, heights = page.evaluate(MEASURE, column)
        found.columns.setdefault(str(size), []).append(column)
        for name, height in zip(names(), heights, strict=True):
            found.views[name].setdefault(str(size), []).append(height)
    found.letters = page.evaluate(LETTERS)
    page.close()
    return found


def read() -> Heights:
    """Returns the heights that pages reserve."""
    return Heights(**json.loads(FILE.read_text("utf-8").removeprefix(HEADING).rstrip(";\n")))


def text(heights: Heights) -> str:
    """Returns the script that tells pages of these heights, with a line for each view."""
    lines = [
        f'  "{name}": {json.dumps(known)},' for name, known in asdict(heights).items() if name != "views"
    ]
    rows = ",\n".join(f'    "{name}": {json.dumps(known)}' for name, known in heights.views.items())
    return "\n".join([HEADING + "{", *lines, '  "views": {', rows, "  }", "};", ""])


def main() -> None:
    """Measure all views and write the file."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser.ensure(), args=browser.FLAGS)
        measured = measure(chromium)
        chromium.close()
    FILE.write_text(text(measured), encoding="utf-8")
    print(f"{FILE.relative_to(ROOT)}: {len(measured.views)} views in {len(COLUMNS)} columns")


if __name__ == "__main__":
    main()
