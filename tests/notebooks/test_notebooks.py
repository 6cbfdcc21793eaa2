"""Notebooks are their texts, executed: nothing differs, nothing is missing, nothing is stale."""

import base64
import importlib
import inspect
import pkgutil

import nbformat
import pytest

import glassformer.widgets.view
from tools import notebooks

PAIRS = notebooks.pairs()
IDS = [notebook.relative_to(notebooks.ROOT / "notebooks").as_posix() for _, notebook in PAIRS]
PACKAGE = notebooks.package_fingerprint()


def stored(notebook):
    return nbformat.read(notebook, as_version=4)


def widget_classes():
    """Every view of the package, by the name that a stored state carries."""
    for module in pkgutil.iter_modules(glassformer.widgets.__path__, "glassformer.widgets."):
        for _, cls in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if issubclass(cls, glassformer.widgets.view.View) and hasattr(cls, "_esm"):
                yield f"{cls.__module__}.{cls.__name__}", cls


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

    def test_it_is_fresh(self, text, notebook):
        assert notebooks.condition(text, notebook, PACKAGE) == "fresh", "run `make notebooks`"

    def test_it_was_run_from_top_to_bottom(self, text, notebook):
        counts = [cell.execution_count for cell in stored(notebook).cells if cell.cell_type == "code"]
        assert counts == list(range(1, len(counts) + 1))

    def test_no_output_is_an_error_or_a_warning(self, text, notebook):
        for cell in stored(notebook).cells:
            for output in cell.get("outputs", []):
                assert output.output_type != "error", cell.source
                assert output.get("name") != "stderr", (cell.source, output.text)

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
        run, classes = stored(notebook), dict(widget_classes())
        state = run.metadata.get("widgets", {}).get(notebooks.WIDGET_STATE, {}).get("state", {})
        for model in state.values():
            if model["model_module"] == "anywidget":
                cls = classes[model["state"]["_anywidget_id"]]
                assert model["state"]["_esm"] == str(cls._esm), f"{cls.__name__}: run `make notebooks`"
                assert model["state"]["_css"] == str(cls._css), f"{cls.__name__}: run `make notebooks`"

    def test_pictures_are_pictures(self, text, notebook):
        for cell in stored(notebook).cells:
            for output in cell.get("outputs", []):
                if png := output.get("data", {}).get("image/png"):
                    assert base64.b64decode(png).startswith(b"\x89PNG")


def test_most_of_what_is_printed_is_compared_exactly():
    exact, all_cells = notebooks.exactness(notebooks.ROOT / "notebooks")
    assert exact >= 0.85 * all_cells
