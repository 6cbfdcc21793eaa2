"""Tests folding: what the text folds is folded in the notebook, and folded again without executing it."""

import os
import time
from pathlib import Path

import nbformat
import pytest

from tools import freshness, notebooks
from tools.book_pages import bibliography

FRONT = "---\njupytext:\n  text_representation:\n    extension: .md\n    format_name: myst\n---\n\n"
CODE = "```{code-cell} ipython3\nprint(1)\n```"
HEADING, CELL = {"jp-MarkdownHeadingCollapsed": True}, {"source_hidden": True}


def tagged(tags):
    return CODE.replace("print", f":tags: [{tags}]\n\nprint")


def read(folder, source):
    text = folder / "book" / "chapters" / "01.md"
    text.parent.mkdir(parents=True, exist_ok=True)
    text.write_text(FRONT + source, encoding="utf-8")
    return notebooks.read_text(text)


@pytest.mark.parametrize(
    ("source", "cells"),
    [
        ("A\n\n#### Look\n\nB\n\nC", ["A", "#### Look", "B\n\nC"]),
        ("#### Look\nB", ["#### Look", "B"]),
        (
            f"A\n\n#### Look\n\n{CODE}\n\nB\n\n## Next\n\nC",
            ["A", "#### Look", "print(1)", "B", "## Next\n\nC"],
        ),
        ("#### Look\n\nB\n\n#### Again\n\nC", ["#### Look", "B", "#### Again", "C"]),
        (
            "#### Look\n\nB\n\n##### Deeper\n\nC\n\n### Out",
            ["#### Look", "B\n\n##### Deeper\n\nC", "### Out"],
        ),
        ("#### Look\n\nB\n\nOut\n===", ["#### Look", "B", "Out\n==="]),
        ("## One\n\nA\n\n### Two\n\nB", ["## One\n\nA\n\n### Two\n\nB"]),
        ("A\n\n```\n#### code\n```\n\n> #### quoted", ["A\n\n```\n#### code\n```\n\n> #### quoted"]),
    ],
)
def test_a_fold_begins_and_ends_with_a_cell(tmp_path, source, cells):
    found = read(tmp_path, source)
    assert [cell.source for cell in found.cells] == cells
    assert notebooks.folds(found) == [HEADING if cell.startswith("#### ") else {} for cell in cells]
    nbformat.validate(found)


@pytest.mark.parametrize(
    ("tags", "folded"),
    [
        ("hide-input", CELL),
        ("nbval-ignore-output, hide-input", CELL),
        ("hide-cell", CELL | {"outputs_hidden": True}),
        ("nbval-ignore-output", None),
    ],
)
def test_code_that_the_page_folds_is_folded(tmp_path, tags, folded):
    [cell], [plain] = read(tmp_path, tagged(tags)).cells, read(tmp_path, CODE).cells
    assert cell.metadata.get("jupyter") == folded
    assert cell.source == ("# Show the code\nprint(1)" if folded else "print(1)")
    assert cell.id == plain.id
    assert cell.metadata.tags == tags.split(", ")


@pytest.fixture
def project(tmp_path):
    """Makes a chapter, its notebook as if it had been executed, and a bibliography."""
    fresh = read(tmp_path, f"#### Look\n\n{tagged('hide-input')}")
    fresh.cells[1].outputs = [nbformat.v4.new_output("stream", text="an output of its own")]
    fresh.metadata["glassformer"] = {"cells": notebooks.cells_fingerprint(fresh)}
    (tmp_path / "book" / "references.bib").touch()
    (tmp_path / "book" / "bibliography.md").write_text(bibliography.HEADING, encoding="utf-8")
    (tmp_path / "notebooks").mkdir()
    notebooks.write_atomically(fresh, tmp_path / "notebooks" / "01.ipynb")
    uses = freshness.heard(
        notebooks.package_of(tmp_path), Path(os.devnull), notebooks.code_in(fresh), time.time()
    )
    uses["outputs"] = freshness.outputs(fresh)
    freshness.record(tmp_path, "notebooks/01.ipynb", uses)
    return tmp_path


@pytest.mark.parametrize(
    "unfold",
    [
        lambda head, code: head.metadata.pop("jp-MarkdownHeadingCollapsed"),
        lambda head, code: code.metadata.jupyter.update(source_hidden=False),
        lambda head, code: code.metadata.pop("jupyter"),
        lambda head, code: code.metadata.jupyter.update(outputs_hidden=True),
    ],
)
def test_what_was_unfolded_is_folded_again_and_not_executed(project, unfold):
    notebook = project / "notebooks" / "01.ipynb"
    before = notebook.read_bytes()
    assert notebooks.main(["--check"], project) == 0
    stored = nbformat.read(notebook, as_version=4)
    unfold(*stored.cells)
    nbformat.write(stored, notebook)
    assert notebooks.condition(*notebooks.pairs(project)[0], project) == "folded differently"
    assert notebooks.main(["--check"], project) == 1
    assert notebooks.main([], project) == 0
    assert notebook.read_bytes() == before


def test_if_only_words_change_the_notebook_gets_them_and_keeps_its_outputs(project):
    """The notebook is as it would be after executing it, because outputs follow from code."""
    text, notebook = notebooks.pairs(project)[0]
    text.write_text(text.read_text().replace("#### Look", "A new line.\n\n#### Look now"))
    assert notebooks.condition(text, notebook, project) == "words changed"
    assert notebooks.main(["--check"], project) == 1
    assert notebooks.main([], project) == 0
    assert notebooks.main(["--check"], project) == 0
    stored = nbformat.read(notebook, as_version=4)
    assert [cell.source for cell in stored.cells[:2]] == ["A new line.", "#### Look now"]
    assert [cell.id for cell in stored.cells] == [cell.id for cell in notebooks.read_text(text).cells]
    assert stored.cells[2].outputs[0].text == "an output of its own"


def test_if_code_changes_too_it_is_executed(project):
    text, notebook = notebooks.pairs(project)[0]
    text.write_text(text.read_text().replace("#### Look", "#### Look now").replace("1", "2"))
    assert notebooks.condition(text, notebook, project) == "text changed"


def test_a_bibliography_is_written_anew_when_its_references_have_changed(project):
    references, page = project / "book" / "references.bib", project / "book" / "bibliography.md"
    references.write_text("@misc{key, title = {Title}, author = {A. Author}}", encoding="utf-8")
    assert notebooks.main(["--check"], project) == 1
    assert "Title" not in page.read_text(encoding="utf-8")
    assert notebooks.main([], project) == 0
    assert "Title" in page.read_text(encoding="utf-8")
    assert notebooks.main(["--check"], project) == 0
