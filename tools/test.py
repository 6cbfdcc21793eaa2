"""Everything that CI runs, in one go: style, types, package, notebooks, site, browser, JupyterLab.

    python tools/test.py                 all of it
    python tools/test.py --chapter 07    what whoever writes chapter 07 can break: its notebooks, cell by cell, its
                                         exercises, its pages on the site, the quizzes, all links

Other arguments are pytest's. Ends with pytest's own summary, or, where no browser could be had, with a line that
says so; in CI that fails.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))  # as a file it has only tools/ on its path

from tools import browser, check, ledger, notebooks

ROOT = Path(__file__).resolve().parent.parent
EVERYTHING = ["tests", "notebooks"]


def of_chapter(number: str) -> list[str]:
    """Returns pytest's arguments for the tests of one chapter: its number, and the names of its exercises.

    Raises:
        ValueError: there is no such chapter.
    """
    texts = [text for text, _ in notebooks.pairs() if text.name.startswith(f"{number}-")]
    if not texts:
        known = sorted({text.name[:2] for text, _ in notebooks.pairs() if text.name[:2].isdigit()})
        raise ValueError(f"chapter={number!r} is not there; those that are: {', '.join(known)}")
    names = {
        name
        for text in texts
        for name in re.findall(r'check\(\s*"([\w.]+)"', text.read_text(encoding="utf-8"))
    }
    rooms = ["notebooks", "tests/notebooks", "tests/exercises", "tests/site", "tests/widgets/test_quiz.py"]
    return [*rooms, "-k", " or ".join([f"{number}-", *sorted(names), "quizzes", "link_within"])]


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the tests.")
    parser.add_argument("--chapter", help="two digits: only the tests of this chapter")
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
            "--no-loadscope-reorder",  # files of few tests are not the short ones
            "--max-worker-restart=0",  # a test that hangs ends its process; a new one would begin it again
            "--nbval",
            "--instafail",  # a run that is cut short has said what failed
            "--durations=25",  # minutes are everybody's
            *chosen,
            *others,
        ]
        tests = subprocess.run(pytest, cwd=ROOT, env=environment).returncode
        # Only a whole run has compared everything; one that failed has more pressing news.
        fault = ledger.check(Path(scratch)) if whole and tests == 0 else None
    if failed:
        print(f"To mend: {', '.join(failed)}. What they say is above pytest's report.")
    if fault:
        print(fault)
    if not chromium:
        print("The browser checks did not run: no Chromium or Chrome was found, and none could be installed.")
    return int(bool(failed) or tests != 0 or fault is not None or (in_ci and not chromium))


if __name__ == "__main__":
    sys.exit(main())
