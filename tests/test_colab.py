"""Tests the notebooks for Colab: what their first cell does, and that nothing else in them is different."""

import re
import subprocess
import sys
import tomllib

import nbformat
import pytest

from tools import colab
from tools.shared.moved_pages import MOVED

HOME = "https://github.com/someone/something"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("colab")
    return folder, colab.write(folder, f"{HOME}.git", "0123abc")


def test_every_notebook_has_the_cell_in_front_of_its_first_code_and_is_otherwise_the_same(written):
    folder, paths = written
    assert len(paths) == len(list((colab.ROOT / "notebooks").rglob("*.ipynb"))) > 30
    for path in paths:
        given, made = (nbformat.read(each, 4) for each in (colab.ROOT / path.relative_to(folder), path))
        nbformat.validate(made)
        code = [cell for cell in made.cells if cell.cell_type == "code"]
        assert code[0].id == "install-on-colab"
        assert f"glassformer[colab] @ git+{HOME}@0123abc" in code[0].source
        assert [cell for cell in made.cells if cell.id != "install-on-colab"] == given.cells
        assert made.metadata == given.metadata


def test_a_notebook_that_has_moved_is_under_both_names(written):
    folder, _ = written
    for old, new in MOVED.items():
        assert (folder / f"{old}.ipynb").read_bytes() == (folder / f"{new}.ipynb").read_bytes()


def test_where_the_package_is_installed_the_cell_does_nothing():
    program = "import subprocess\nsubprocess.run = None\n" + colab.CELL.format(source="nowhere")
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_what_colab_has_already_imported_is_never_replaced():
    """Colab's versions of late 2026 satisfy the package's own requirements, so pip leaves them as they are."""
    had = {"numpy": (2, 1), "torch": (2, 11), "ipywidgets": (7, 7), "anywidget": (0, 9, 21)}
    project = tomllib.loads((colab.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["torch"], *extras["views"]]
    found = {re.match(r"[\w-]+", each)[0]: each for each in wanted}
    for name, version in had.items():
        floor = re.fullmatch(rf"{name}>=([\d.]+)", found[name])
        assert floor, found[name]
        assert tuple(map(int, floor[1].split("."))) <= version, found[name]


def test_the_address_on_colab():
    page = "notebooks/04-putting-order-in.ipynb"
    assert colab.address(HOME, page) == (
        f"https://colab.research.google.com/github/someone/something/blob/colab/{page}"
    )
    with pytest.raises(ValueError, match="is not on GitHub"):
        colab.address("https://gitlab.com/someone/something", page)
