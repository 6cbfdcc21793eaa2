"""Write the notebooks as Colab needs them: with a first cell that installs the book's package.

    GLASSFORMER_REPOSITORY=https://github.com/OWNER/NAME python tools/colab.py FOLDER

Notebooks in the repository have no such cell, because nobody knows there where the project is published. The publishing
workflow knows, and puts what this program writes into a branch of its own, which Colab opens notebooks from.

The cell never replaces a NumPy that Colab has already imported: it asks pip for the package and for what Colab lacks,
and pyproject.toml accepts the versions that Colab has. It gets the package from the repository, at the commit that the
notebook was made from.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from urllib.parse import quote

import nbformat

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))  # for `python tools/colab.py`, which has only its own folder on its path

from tools.shared.moved_pages import MOVED  # noqa: E402

BRANCH = "colab"
HOST = "https://github.com/"
CELL = """# On Google Colab, this installs the book's package, which takes about a minute. Elsewhere it does nothing.
import importlib.util
import subprocess
import sys

if importlib.util.find_spec("glassformer") is None:
    package = "glassformer[colab] @ {source}"
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", package], check=True)
"""


def address(repository: str, page: str) -> str:
    """Returns the address that opens a notebook on Colab, which only opens notebooks of GitHub.

    Raises:
        ValueError: the repository is elsewhere.
    """
    if not repository.startswith(HOST):
        raise ValueError(
            f"repository={repository!r} is not on GitHub, and Colab opens notebooks from nowhere else"
        )
    name = repository.removeprefix(HOST).removesuffix("/").removesuffix(".git")
    return f"https://colab.research.google.com/github/{name}/blob/{BRANCH}/{quote(page)}"


def with_first_cell(notebook: nbformat.NotebookNode, source: str) -> nbformat.NotebookNode:
    """Returns the notebook with the cell that installs the package from `source` in front of its first code."""
    cells = list(notebook.cells)
    first = next((i for i, cell in enumerate(cells) if cell.cell_type == "code"), len(cells))
    cell = nbformat.v4.new_code_cell(CELL.format(source=source), id="install-on-colab")
    return nbformat.from_dict({**notebook, "cells": [*cells[:first], cell, *cells[first:]]})


def write(folder: Path, repository: str, commit: str) -> list[Path]:
    """Writes all notebooks into ``folder``, those that have moved under both names, and returns their paths."""
    address(repository, "")
    source = f"git+{repository.removesuffix('/').removesuffix('.git')}@{commit}"
    written = []
    for path in sorted((ROOT / "notebooks").rglob("*.ipynb")):
        target = folder / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(with_first_cell(nbformat.read(path, 4), source), target)
        written.append(target)
    for old, new in MOVED.items():
        shutil.copy(folder / f"{new}.ipynb", folder / f"{old}.ipynb")
    return written


if __name__ == "__main__":
    made = write(
        Path(sys.argv[1]), os.environ["GLASSFORMER_REPOSITORY"], os.environ.get("GITHUB_SHA", "main")
    )
    print(f"{len(made)} notebooks are in {sys.argv[1]}.")
