"""Tests that tools/notebooks.py executes what changed, reproduces the same bytes, and keeps readers' work."""

import nbformat
import pytest

from tools import notebooks

HEADER = """---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
kernelspec:
  display_name: Python 3 (ipykernel)
  language: python
  name: python3
---

"""
CELL = "```{{code-cell}} ipython3\n{}\n```\n"
TEXT = HEADER + "# A chapter\n\n" + CELL.format("1 + 1") + CELL.format("1 + 1")


@pytest.fixture
def tree(tmp_path):
    """A project with one chapter, and the three things that one does with it."""
    (tmp_path / "book" / "chapters").mkdir(parents=True)
    (tmp_path / "src" / "glassformer").mkdir(parents=True)

    class Tree:
        text = tmp_path / "book" / "chapters" / "01.md"
        notebook = tmp_path / "notebooks" / "01.ipynb"
        code = tmp_path / "src" / "glassformer" / "a.py"

        def run(self, *arguments):
            return notebooks.main([*arguments], tmp_path)

        def condition(self):
            return notebooks.condition(self.text, self.notebook, tmp_path)

        def edit(self, change):
            """Does what JupyterLab does when a reader saves."""
            notebook = nbformat.read(self.notebook, as_version=4)
            change(notebook)
            nbformat.write(notebook, self.notebook)

    tree = Tree()
    tree.text.write_text(TEXT)
    tree.code.write_text("x = 1\n")
    (tree.code.parent / "__init__.py").touch()
    return tree


def test_it_executes_what_is_missing_and_then_leaves_it_alone(tree):
    assert tree.condition() == "missing"
    assert tree.run() == 0
    assert tree.condition() == "fresh"
    first, second = nbformat.read(tree.notebook, as_version=4).cells[1:]
    assert first.outputs[0].data["text/plain"] == "2"
    assert [first.execution_count, second.execution_count] == [1, 2]
    assert first.id != second.id
    before = tree.notebook.stat().st_mtime_ns
    assert tree.run() == 0
    assert tree.notebook.stat().st_mtime_ns == before
    assert tree.run("--check") == 0
    written = tree.notebook.read_bytes()
    assert tree.run("--force") == 0
    assert tree.notebook.read_bytes() == written  # the same text gives the same bytes


NUMBERS = [  # as Python has them, and as a notebook has them that JupyterLab has saved
    (1.0, "1"),
    (0.1, "0.1"),
    (-0.0, "0"),
    (1e16, "10000000000000000"),
    (123456789012345680000.0, "123456789012345680000"),
    (2**60 + 1, "1152921504606847000"),
    (1e21, "1e+21"),
    (2**70, "1.1805916207174113e+21"),
    (1e-7, "1e-07"),
    (5e-324, "5e-324"),
    (True, "true"),
    (None, "null"),
]


def test_numbers_are_stored_as_jupyterlab_writes_them(tmp_path):
    notebook = nbformat.v4.new_notebook(metadata={"numbers": [number for number, _ in NUMBERS]})
    notebooks.write_atomically(notebook, tmp_path / "a.ipynb")
    metadata = (tmp_path / "a.ipynb").read_text(encoding="utf-8").partition("[\n   ")[2].partition("]")[0]
    assert "".join(metadata.split()).split(",")[-len(NUMBERS) :] == [written for _, written in NUMBERS]


def test_whoever_only_runs_cells_has_not_edited(tree):
    tree.run()
    before = tree.notebook.read_bytes()

    def rerun(notebook):
        notebook.cells[1].metadata["scrolled"] = True
        notebook.cells[1].outputs = []

    tree.edit(rerun)
    assert tree.condition() == "outputs changed"
    assert tree.run() == 0
    assert tree.notebook.read_bytes() == before


@pytest.mark.parametrize("arguments", [[], ["--force"]])
def test_it_never_overwrites_a_readers_work(tree, capsys, arguments):
    tree.run()

    def answer(notebook):
        notebook.cells[1].source = "my_answer = 3"

    tree.edit(answer)
    work = tree.notebook.read_bytes()
    tree.text.write_text(TEXT + "More.\n")
    assert tree.run(*arguments) == 1
    assert tree.notebook.read_bytes() == work
    assert "notebooks/01.ipynb: left unchanged" in capsys.readouterr().err


def test_a_notebook_from_elsewhere_is_not_overwritten_either(tree):
    tree.notebook.parent.mkdir()
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("mine")]), tree.notebook)
    assert tree.run() == 1
    assert nbformat.read(tree.notebook, as_version=4).cells[0].source == "mine"


def test_a_failing_cell_stores_nothing(tree, capsys):
    tree.run()
    before = tree.notebook.read_bytes()
    tree.text.write_text(HEADER + CELL.format("1 / 0"))
    assert tree.run() == 1
    assert tree.notebook.read_bytes() == before
    assert "ZeroDivisionError" in capsys.readouterr().err
    assert [path.name for path in tree.notebook.parent.iterdir()] == ["01.ipynb"]


def test_the_authors_progress_is_not_in_the_outputs(tree, monkeypatch):
    monkeypatch.setenv("GLASSFORMER_PROGRESS", "/the/authors/own")
    ask = "import os\nprint('authors' in os.environ['GLASSFORMER_PROGRESS'])"
    tree.text.write_text(HEADER + CELL.format(ask))
    tree.run()
    assert nbformat.read(tree.notebook, as_version=4).cells[0].outputs[0].text == "False\n"


def test_the_share_counts_what_is_more_than_a_picture(tmp_path):
    text = nbformat.v4.new_output("stream", name="stdout", text="1\n")
    picture, figure, widget = (
        nbformat.v4.new_output("display_data", data=data)
        for data in (
            {"image/png": "iVBORw0KGgo=", "text/plain": "<Figure>"},
            {"text/html": "<figure><svg/></figure>", "text/plain": "<HTML>"},
            {notebooks.WIDGET_VIEW: {}, "text/plain": "Clock()"},
        )
    )
    ignored = {"tags": ["nbval-ignore-output"]}
    cells = [
        nbformat.v4.new_code_cell(outputs=outputs, metadata=metadata)
        for outputs, metadata in [
            ([text], {}),  # compared
            ([picture, text], {}),  # compared
            ([text], ignored),  # printed, and not compared
            ([picture], ignored),
            ([figure], {}),
            ([widget], ignored),
            ([], {}),
        ]
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "a.ipynb")
    assert notebooks.exactness(tmp_path) == (2, 3)


def test_a_bar_is_not_stored(tree):
    bar = notebooks.package_of(notebooks.ROOT) / "progress.py"
    (tree.code.parent / "progress.py").write_bytes(bar.read_bytes())
    loop = "from glassformer.progress import bar\nfor i in bar(range(3)):\n    print(i)"
    tree.text.write_text(HEADER + CELL.format(loop))
    assert tree.run() == 0
    [output] = nbformat.read(tree.notebook, as_version=4).cells[0].outputs
    assert output.text == "0\n1\n2\n"
