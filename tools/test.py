"""Everything that CI runs, in one go: style, package, notebooks, site, browser, JupyterLab.

Ends with pytest's own summary, or, where no browser could be had, with a line that says so; in CI that fails.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import browser
import ledger

ROOT = Path(__file__).resolve().parent.parent
PYTHON = sys.executable


def main() -> int:
    in_ci = os.environ.get("CI", "").lower() in ("1", "true")
    with tempfile.TemporaryDirectory() as scratch:
        # Nothing that the tester has solved or set may show in what is compared.
        environment = os.environ | {
            "GLASSFORMER_PROGRESS": str(Path(scratch) / "progress.json"),
            "IPYTHONDIR": str(Path(scratch) / "ipython"),
            "OMP_NUM_THREADS": "1",
            "GLASSFORMER_LEDGER": scratch,
        }
        chromium = browser.ensure()
        if chromium:
            environment["GLASSFORMER_BROWSER"] = chromium
        style = [
            subprocess.run([PYTHON, "-m", "ruff", *arguments, "."], cwd=ROOT).returncode
            for arguments in (["check"], ["format", "--check"])
        ]
        pytest = [PYTHON, "-m", "pytest", "-n", "2", "--dist", "loadfile", "--nbval", "tests", "notebooks"]
        tests = subprocess.run([*pytest, *sys.argv[1:]], cwd=ROOT, env=environment).returncode
        # Only a whole run has compared everything; one that failed has more pressing news.
        fault = ledger.check(Path(scratch)) if tests == 0 and not sys.argv[1:] else None
    if any(style):
        print("ruff found something to mend: see above pytest's report.")
    if fault:
        print(fault)
    if not chromium:
        print("The browser checks did not run: no Chromium or Chrome was found, and none could be installed.")
    return int(any(style) or tests != 0 or fault is not None or (in_ci and not chromium))


if __name__ == "__main__":
    sys.exit(main())
