"""Run each code cell of the notebooks twice, as readers do, and compare both outputs with the stored one.

    python tools/twice.py                                   every notebook, which takes half an hour (`make test-all`)
    python tools/twice.py notebooks/03-attention.ipynb …    only these

nbval runs and compares the cells, as in `make test`. Where it does not compare the output, it is enough that the cell
does not fail. What a second run spoils may show only in a later cell, whose first run is then at fault.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Generator
from itertools import takewhile, zip_longest
from pathlib import Path
from typing import Any

import pytest
from nbformat import NotebookNode
from nbval.plugin import IPyNbCell

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))  # for `python tools/twice.py`, which has only its own folder on its path

from tools import check  # noqa: E402

RUNS = ("first", "second")
LONGEST = 80  # characters of a line that a fault shows, around the first that differs
# Nothing is captured, and only `Twice` prints.
QUIET = ["-s", "-qq", "--no-header", "--tb=no", "--color=no", "--disable-warnings", "-p", "no:cacheprovider"]


class Twice:
    """A plugin of pytest that runs each cell again before the next, and prints a line for each fault."""

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Puts a second run after the first."""
        items[:] = [
            IPyNbCell.from_parent(
                item.parent, name=run, cell_num=item.cell_num, cell=item.cell, options=item.options
            )
            for item in items
            for run in RUNS
        ]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(
        self, item: IPyNbCell, nextitem: IPyNbCell | None
    ) -> Generator[None, bool, bool]:
        """Says which notebook begins, and how long it took."""
        if (item.cell_num, item.name) == (0, RUNS[0]):
            self.began = time.monotonic()
            print(f"{place(item)} …", flush=True)
        done = yield
        if nextitem is None or nextitem.parent is not item.parent:
            seconds = time.monotonic() - self.began
            print(f"{place(item)}: {item.cell_num + 1} code cells, {seconds:.0f} s", flush=True)
        return done

    def pytest_runtest_makereport(self, item: IPyNbCell, call: pytest.CallInfo) -> None:
        """Prints what was at fault, with the number that JupyterLab shows beside the cell."""
        if call.excinfo and not call.excinfo.errisinstance(pytest.skip.Exception):
            begins = item.cell.source.partition("\n")[0]
            what = difference(item.cell.outputs, item.test_outputs or []) or call.excinfo.value
            print(
                f"{place(item)}, code cell [{item.cell_num + 1}] `{begins}`, {item.name} run: {what}",
                flush=True,
            )

    def pytest_report_teststatus(self) -> tuple[str, str, str]:
        """Keeps pytest from printing a letter for each run."""
        return "", "", ""


def place(item: pytest.Item) -> str:
    """Returns the path of a cell's notebook, from this project's folder if it is inside."""
    path = item.path
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else str(path)


def lines(outputs: list[NotebookNode]) -> list[str]:
    """Returns what outputs show as text, line by line."""
    texts = [
        text
        for output in outputs
        for kind, text in sorted(output.get("data", {"text": output.get("text")}).items())
        if isinstance(text, str) and not kind.startswith("image/")
    ]
    return "\n".join(texts).splitlines()


def difference(stored: list[NotebookNode], found: list[NotebookNode]) -> str:
    """Returns the error, or the first line that differs, or an empty string if no text differs."""
    for output in found:
        if output.output_type == "error":
            return f"raises {output.ename}: {output.evalue}".partition("\n")[0].rstrip(": ")
    for before, now in zip_longest(lines(stored), lines(found)):
        if before != now:
            same = len(
                list(takewhile(lambda pair: pair[0] == pair[1], zip(before or "", now or "", strict=False)))
            )
            old, new = (line and line[max(0, same - LONGEST // 2) :][:LONGEST] for line in (before, now))
            return f"stored {old!r}, now {new!r}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description="Run each code cell twice, and compare its outputs.")
    parser.add_argument(
        "notebook", nargs="*", type=Path, help="a notebook, or a folder (default: notebooks/)"
    )
    chosen = parser.parse_args().notebook or [ROOT / "notebooks"]
    for path in chosen:
        if not path.exists():
            parser.error(f"{path} does not exist")
    with tempfile.TemporaryDirectory() as scratch:
        os.environ.update(check.settings(scratch))
        status = pytest.main([*QUIET, "--nbval", *map(str, chosen)], plugins=[Twice()])
    return int(status != pytest.ExitCode.OK)


if __name__ == "__main__":
    sys.exit(main())
