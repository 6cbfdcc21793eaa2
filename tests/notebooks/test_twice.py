"""Tests the tool that runs every cell twice, on a small notebook."""

import subprocess
import sys

import nbformat
import pytest

from tools import notebooks, twice

FINE = ["seen = []", "ids = [1, 2]\nprint(1)", "import time\nprint(time.time())"]
IGNORED = {FINE[2]}
AT_FAULT = ["seen.append(ids)\nprint(len(seen))", "import os; os.mkdir('new')", "print(len(seen))"]


def run_twice(path, sources):
    """Writes a notebook of these cells, all of which print 1 if they print, and has the tool run it."""
    cells = [
        nbformat.v4.new_code_cell(
            source,
            execution_count=1,
            outputs=[nbformat.v4.new_output("stream", text="1\n")] if "print" in source else [],
            metadata={"tags": ["nbval-ignore-output"]} if source in IGNORED else {},
        )
        for source in sources
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    return tool(path)


def tool(path):
    program = [sys.executable, "tools/twice.py", path]
    return subprocess.run(program, cwd=notebooks.ROOT, capture_output=True, text=True)


@pytest.mark.weekly
def test_a_notebook_whose_cells_can_be_run_twice_passes(tmp_path):
    path = tmp_path / "fine.ipynb"
    found = run_twice(path, FINE)
    assert found.returncode == 0, found.stdout + found.stderr
    begun, done, *_ = found.stdout.split("\n")
    assert begun == f"{path} …"
    assert done.startswith(f"{path}: 3 code cells, ")


@pytest.mark.weekly
def test_each_fault_is_told_in_a_line_also_where_only_a_later_cell_shows_it(tmp_path):
    path = tmp_path / "faults.ipynb"
    found = run_twice(path, FINE + AT_FAULT)
    assert found.returncode == 1
    assert [line for line in found.stdout.splitlines() if "code cell [" in line] == [
        f"{path}, code cell [4] `seen.append(ids)`, second run: stored '1', now '2'",
        f"{path}, code cell [5] `import os; os.mkdir('new')`, second run: raises FileExistsError: [Errno 17] "
        "File exists: 'new'",
        f"{path}, code cell [6] `print(len(seen))`, first run: stored '1', now '2'",
        f"{path}, code cell [6] `print(len(seen))`, second run: stored '1', now '2'",
    ]


def test_of_a_long_line_the_part_that_differs_is_told():
    one, two = ([nbformat.v4.new_output("stream", text="a" * 300 + x + "b" * 300)] for x in "12")
    assert "a1b" in twice.difference(one, two)
    assert "a2b" in twice.difference(one, two)
    assert len(twice.difference(one, two)) < 200


def test_a_notebook_that_is_not_there_is_said():
    found = tool("99.ipynb")
    assert found.returncode == 2
    assert "99.ipynb does not exist" in found.stderr
