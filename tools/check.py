"""Checks a change in three minutes: style, types, contracts, freshness, and the unit tests.

python tools/check.py             all of it
python tools/check.py --static    without the tests
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = sys.executable

# Checks that read the project without running it, and their commands. To add a linter, add a line.
STATIC = {
    "style": [PYTHON, "-m", "ruff", "check", "."],
    "format": [PYTHON, "-m", "ruff", "format", "--check", "."],
    "javascript": [str(Path(PYTHON).with_name("oxlint")), "--deny-warnings", "src", "book"],
    "types": [PYTHON, "-m", "pyrefly", "check", "--python-interpreter-path", PYTHON, "--summary=none"],
    "contracts": [PYTHON, "-c", "import sys; from importlinter import cli; sys.exit(cli.lint_imports())"],
    "freshness": [PYTHON, "tools/notebooks.py", "--check"],
}
# Left to `make test`: tests with a browser, notebooks, transformers, long texts, training, finite differences or
# endless answers, and tests that run other tests.
SLOW = [
    "tests/chapters", "tests/widgets", "tests/site", "tests/lab", "tests/notebooks", "tests/huggingface",
    "tests/generation", "tests/training", "tests/experiments", "tests/layers/test_gradients.py",
    "tests/exercises/test_hostile.py", "tests/test_bugs.py", "tests/test_shipped.py", "tests/test_cli.py",
    "tests/test_cli_fuzz.py",
]  # fmt: skip
UNITS = [PYTHON, "-m", "pytest", "-q", "-n", "2", "tests", *(f"--ignore={path}" for path in SLOW)]


def settings(scratch: str) -> dict[str, str]:
    """Returns the environment for all tests, without the tester's own progress and settings."""
    return (
        {"OMP_NUM_THREADS": "1"}
        | os.environ
        | {
            "GLASSFORMER_PROGRESS": str(Path(scratch) / "progress.json"),
            "GLASSFORMER_MINE": str(Path(scratch) / "my_transformer.py"),
            "IPYTHONDIR": str(Path(scratch) / "ipython"),
        }
    )


def failures(commands: dict[str, list[str]], environment: dict[str, str] | None = None) -> list[str]:
    """Runs all commands in the project's folder, and returns the names of those that fail. Success prints nothing."""
    failed = []
    for name, command in commands.items():
        start = time.monotonic()
        run = subprocess.run(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        print(f"{name}: {'FAILED' if run.returncode else 'ok'}, {time.monotonic() - start:.1f} s", flush=True)
        if run.returncode:
            failed.append(name)
            print(run.stdout, flush=True)
    return failed


def main() -> int:
    failed = failures(STATIC)
    if sys.argv[1:] != ["--static"]:
        with tempfile.TemporaryDirectory() as scratch:
            failed += failures({"unit tests": UNITS}, settings(scratch))
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
