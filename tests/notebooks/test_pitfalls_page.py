"""Tests that the page of the gallery says what the gallery and the stored runs say."""

from pathlib import Path

import pytest

from glassformer.bugs import BUGS
from glassformer.contents import chapter
from glassformer.experiments import stored
from tools.book_pages import pitfalls

ROOT = Path(__file__).parents[2]
GALLERY = ROOT / "src" / "glassformer" / "bugs" / "gallery.toml"
PAGE = (ROOT / "book" / "pitfalls.md").read_text(encoding="utf-8")


@pytest.fixture
def row():
    """Returns the cells of a mistake's row in the table, by its title."""
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line[:1] == "|"
    ]
    return {first: rest for first, *rest in cells}


def test_the_page_is_what_is_known():
    assert pitfalls.page(GALLERY) == PAGE


def test_a_gallery_that_says_something_else_makes_another_page(tmp_path):
    old, new = "The targets were shifted twice", "Shifted two times"
    other = tmp_path / "gallery.toml"
    other.write_text(GALLERY.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    assert pitfalls.page(other) == PAGE.replace(old, new) != PAGE


def test_every_mistake_has_a_row_and_an_entry(row):
    for bug in BUGS.values():
        assert row[bug.title][-1].startswith(f"[{bug.chapter}](../notebooks/{chapter(bug.chapter).name}")
        entry = PAGE.partition(f"### {bug.title}\n")[2].partition("\n#")[0]
        assert bug.symptom in entry
        assert f"`{bug.name}`" in entry
    headings = [line[3:5] for line in PAGE.splitlines() if line.startswith("## ")]
    assert headings == sorted({bug.chapter for bug in BUGS.values()})


def test_rows_by_hand(row):
    assert row["The targets were not shifted"][:3] == ["too good", "bad", "`shapes`"]
    assert row["With a cache, each new token got the position of the one before it"][:3] == [
        "normal",
        "bad",
        "`cache`",
    ]
    window = row["The window let each query see one position more"]
    assert window[:3] == ["normal", "normal", "`cache`, for a model with a window"]
    assert row["The keys of the delta rule were not scaled to length 1"][:2] == ["broken off", "–"]
    halves = row["Gate and up alternate in a file, column by column, but were read as two halves"]
    assert halves[:3] == ["–", "–", "`parity`, with a file that another program wrote"]
    assert row["The padding mask was never passed on"][:2] == ["–", "–"]
    assert row["The padding mask was never passed on"][2] == "`again`"


def test_the_numbers_are_those_of_the_runs():
    found = [run.found for run in stored("pitfalls", bug="labels-shifted-twice", model="rope")]
    first, second = found
    assert f"training reports a loss of {first['reported']:.2f} and {second['reported']:.2f} nats" in PAGE
