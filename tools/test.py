"""Run everything that CI runs, in one go: style, types, package, notebooks, site, browser, JupyterLab.

    python tools/test.py                 all of it
    python tools/test.py --chapter 07    what a change to chapter 07 can break: its notebooks, cell by cell, its
                                         exercises, its views, its pages on the site, its quiz, all links

Other arguments are passed to pytest. The last lines are pytest's own summary. If no browser could be found or
installed, a further line reports it; in CI that is a failure.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))  # as a file it has only tools/ on its path

from glassformer import contents
from glassformer.exercises import catalogue
from tools import check, ledger, notebooks
from tools.shared import browser, chapter_facts

ROOT = Path(__file__).resolve().parent.parent
EVERYTHING = ["tests", "notebooks"]
BUDGET = 22  # minutes of processor time, on two cores of a server of 2024
# Tests that are run for every chapter, and named by its number or by the names of its exercises.
SHARED = [
    "tests/test_chapters.py",
    "tests/notebooks",
    "tests/exercises",
    "tests/site",
    "tests/widgets/test_every_view.py",
    "tests/widgets/test_quiz.py",
]


def of_chapter(number: str) -> list[str]:
    """Returns the arguments of pytest for the tests of one chapter: where to look, and which names to select there.

    Raises:
        ValueError: there is no such chapter.
    """
    chapter = contents.chapter(number)
    texts = chapter_facts.text_of(chapter), chapter_facts.practice_of(chapter)
    own = [notebook for text, notebook in notebooks.pairs() if text in texts]
    own.append(ROOT / "tests" / "chapters" / f"ch{number}")
    rooms = [path.relative_to(ROOT).as_posix() for path in own if path.exists()]
    names = [f"{number}-", f"ch{number}", *catalogue.of_chapter(number), f"(quiz and {number})"]
    chosen = " or ".join([*names, "test_chapters", "link_within", "checked_here"])
    return [*rooms, *SHARED, "-k", chosen, "-m", "sampled or not weekly"]


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the tests.")
    parser.add_argument("--chapter", metavar="NN", help="run only the tests of this chapter")
    options, others = parser.parse_known_args()
    try:
        chosen = of_chapter(options.chapter) if options.chapter else EVERYTHING
    except ValueError as error:
        parser.error(str(error))
    in_ci = os.environ.get("CI", "").lower() in ("1", "true")
    whole = not (options.chapter or others)
    with tempfile.TemporaryDirectory() as scratch:
        environment = check.settings(scratch) | {"GLASSFORMER_LEDGER": scratch}
        chromium = browser.ensure()
        if chromium:
            environment["GLASSFORMER_BROWSER"] = chromium
        failed = check.failures(check.STATIC)
        pytest = [
            sys.executable,
            "-m",
            "pytest",
            "-n",
            "2",
            "--dist",
            "loadfile",
            "--no-loadscope-reorder",  # files with few tests are not the fast ones
            "--max-worker-restart=0",  # a test that hangs ends its process; a new one would begin it again
            "--nbval",
            "--instafail",  # a run that is cut short has already reported failures
            "--durations=25",  # the time limit applies to every test
            *chosen,
            *others,
        ]
        tests = subprocess.run(pytest, cwd=ROOT, env=environment).returncode
        # Only a complete run has compared everything, and a failed run has more important things to report.
        fault = ledger.check(Path(scratch)) if whole and tests == 0 else None
    if failed:
        print(f"These checks failed: {', '.join(failed)}. Their output is above pytest's report.")
    if fault:
        print(fault)
    if whole:
        used = os.times()
        minutes = (used.user + used.system + used.children_user + used.children_system) / 60
        print(f"Processor time: {minutes:.1f} minutes. Every run may take {BUDGET}: contributing/tests.md.")
        print(
            "Not run: Python in the page, all pages in Firefox, all notebooks in JupyterLab (`make test-all`)."
        )
    if not chromium:
        print("The browser checks did not run: no Chromium or Chrome was found, and none could be installed.")
    return int(bool(failed) or tests != 0 or fault is not None or (in_ci and not chromium))


if __name__ == "__main__":
    sys.exit(main())
