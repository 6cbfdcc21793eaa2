"""Tests that notebooks are their executed texts: nothing differs, nothing is missing, nothing is stale."""

import base64
import itertools
import re
from functools import cache

import nbformat
import pytest

from glassformer.figures.source import WIDTH
from glassformer.widgets.kit import modules
from tools import notebooks
from tools.freshness import without_comments

PAIRS = notebooks.pairs()
IDS = [notebook.relative_to(notebooks.ROOT / "notebooks").as_posix() for _, notebook in PAIRS]


@cache
def stored(notebook):
    return nbformat.read(notebook, as_version=4)


def same(one, other, language="js"):
    """A comment executes nothing, so a notebook may have an older one."""
    return one == other or without_comments(one, language) == without_comments(other, language)


def test_there_are_chapters_and_no_notebook_without_a_text():
    folder = notebooks.ROOT / "notebooks"
    found = {path for path in folder.rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts}
    assert found == {notebook for _, notebook in PAIRS}
    assert PAIRS


@pytest.mark.parametrize(("text", "notebook"), PAIRS, ids=IDS)
class TestPair:
    def test_the_cells_are_those_of_the_text(self, text, notebook):
        written, run = notebooks.read_text(text), stored(notebook)
        assert notebooks.bare_cells(run) == notebooks.bare_cells(written)
        assert [cell.id for cell in run.cells] == [cell.id for cell in written.cells]

    def test_it_was_run_from_top_to_bottom(self, text, notebook):
        counts = [cell.execution_count for cell in stored(notebook).cells if cell.cell_type == "code"]
        assert counts == list(range(1, len(counts) + 1))

    def test_no_output_is_an_error_or_a_warning(self, text, notebook):
        for cell in stored(notebook).cells:
            for output in cell.get("outputs", []):
                assert output.output_type != "error", cell.source
                assert output.get("name") != "stderr", (cell.source, output.text)

    def test_no_line_of_a_drawing_is_black_and_lost_on_a_dark_page(self, text, notebook):
        outputs = [output for cell in stored(notebook).cells for output in cell.get("outputs", [])]
        html = " ".join(output.get("data", {}).get("text/html", "") for output in outputs)
        drawings = re.findall(r'<svg role="img".*?</svg>', html, re.DOTALL)
        assert [drawing[:200] for drawing in drawings if "stroke: #000000" in drawing] == []

    def test_it_says_nothing_of_the_machine_it_ran_on(self, text, notebook):
        for cell in stored(notebook).cells:
            shown = "\n".join(str(output) for output in cell.get("outputs", []))
            assert str(notebooks.ROOT) not in shown, cell.source
            assert " at 0x" not in shown, cell.source
            assert "execution" not in cell.metadata

    def test_every_widget_that_is_shown_is_stored(self, text, notebook):
        run = stored(notebook)
        state = run.metadata.get("widgets", {}).get(notebooks.WIDGET_STATE, {}).get("state", {})
        for cell in run.cells:
            for output in cell.get("outputs", []):
                if view := output.get("data", {}).get(notebooks.WIDGET_VIEW):
                    assert view["model_id"] in state, cell.source
                    assert "nbval-ignore-output" in cell.metadata.tags, cell.source

    def test_stored_widgets_run_the_packages_javascript(self, text, notebook):
        state = stored(notebook).metadata.get("widgets", {}).get(notebooks.WIDGET_STATE, {}).get("state", {})
        models = {f"anywidget:{key}": model["state"] for key, model in state.items()}
        for view in (model for model in models.values() if "_modules" in model):
            module = view["_anywidget_id"].split(".")[-2]
            assert same(view["_esm"], modules.read("loader")), f"{module}: run `make notebooks`"
            parts = [models[reference] for reference in view["_modules"]]
            assert [part["name"] for part in parts] == list(modules.needed(module))
            for part in parts:
                name = part["name"]
                assert same(part["source"], modules.read(name)), f"{name}.js: run `make notebooks`"
                assert same(part["style"], modules.stylesheet(name), "css"), (
                    f"{name}.css: run `make notebooks`"
                )

    def test_a_module_is_stored_once(self, text, notebook):
        state = stored(notebook).metadata.get("widgets", {}).get(notebooks.WIDGET_STATE, {}).get("state", {})
        names = [
            model["state"]["name"] for model in state.values() if {"name", "source"} <= set(model["state"])
        ]
        assert len(names) == len(set(names))

    def test_no_line_that_ends_in_a_number_makes_a_list_of_the_next(self, text, notebook):
        """As "in block / 1. So it is", which Markdown takes for the first entry of a list."""
        for cell in notebooks.read_text(text).cells:
            for above, line in itertools.pairwise(cell.source.splitlines()):
                if cell.cell_type == "markdown" and re.match(r"\d+\. ", line):
                    assert re.match(r"\d+\. | |$", above), line

    def test_no_code_needs_scrolling_sideways(self, text, notebook):
        for cell in stored(notebook).cells:
            if cell.cell_type != "code":
                continue
            code = [cell.source]
            for output in cell.outputs:
                shown = output.get("data", {}).get("text/markdown", "")
                code += [shown] if shown.startswith("```python") else []
            assert max(map(len, "\n".join(code).splitlines()), default=0) <= WIDTH, cell.source

    def test_pictures_are_pictures(self, text, notebook):
        for cell in stored(notebook).cells:
            for output in cell.get("outputs", []):
                if png := output.get("data", {}).get("image/png"):
                    assert base64.b64decode(png).startswith(b"\x89PNG")


def test_most_of_what_is_printed_is_compared_exactly():
    exact, all_cells = notebooks.exactness(notebooks.ROOT / "notebooks")
    assert exact >= 0.85 * all_cells
