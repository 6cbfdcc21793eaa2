"""Tests that the parity ledger says exactly what the tests measured, and was not edited by hand."""

import json
import re

import ledger
import numpy as np
import pytest
from ledger import FOLDER, different_ids, largest_difference, largest_relative_difference, record

from tools import ledger as tool


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Makes a folder for notes, and the data and the page made from them."""
    (tmp_path / "notes").mkdir()
    monkeypatch.setenv(FOLDER, str(tmp_path / "notes"))
    monkeypatch.setattr(tool, "DATA", tmp_path / "parity.json")
    monkeypatch.setattr(tool, "PAGE", tmp_path / "parity.md")
    return tmp_path / "notes"


def note(
    component="softmax", room="scratch", difference=1e-16, bound=1e-15, section="Layers", dtype="float64"
):
    record(component, "torch 1.0", dtype, room, difference, bound, section=section)


def note_all():
    note()
    note(room="nn", difference=3e-16)
    note("GPT-2: logits", section="Whole models", bound=1e-13)


def table(section):
    """Returns the cells of that section's rows on the page."""
    text = tool.PAGE.read_text(encoding="utf-8").split(f"## {section}\n")[1].split("\n## ")[0]
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]


# Notes and differences


def test_a_difference_above_its_bound_fails_and_is_not_noted(folder):
    with pytest.raises(AssertionError, match=r"softmax in nn, float64: 2\.00e-15 from torch 1\.0"):
        note(room="nn", difference=2e-15)
    assert list(folder.iterdir()) == []
    note(difference=1e-15)  # as large as the bound is fine
    assert len(list(tool.notes(folder))) == 1


def test_without_a_folder_the_bound_still_holds(monkeypatch):
    monkeypatch.delenv(FOLDER, raising=False)
    note()
    for difference in (1.0, np.nan):
        with pytest.raises(AssertionError):
            note(difference=difference)


@pytest.mark.parametrize("measure", [largest_difference, largest_relative_difference])
def test_what_is_no_number_or_of_another_shape_has_no_difference(measure):
    for ours, theirs in [
        ([np.nan], [np.nan]),
        ([np.inf], [np.inf]),
        ([np.nan], [1.0]),
        ([1.0], [np.nan]),
        ([1.0], [1.0, 1.0]),
        (np.ones((2, 1)), np.ones((1, 2))),
    ]:
        with pytest.raises(AssertionError):
            measure(ours, theirs)


def test_differences_by_hand():
    assert largest_difference([1, 2, 4], [1, 4, 5]) == 2
    assert largest_relative_difference([1, 2, 4], [1, 4, 5]) == 0.5
    assert largest_relative_difference([0, 3], [0, 1], floor=1) == 1
    assert largest_relative_difference([0.0], [0.0]) == 0
    assert largest_relative_difference([1e-300], [0.0]) > 1
    assert different_ids([1, 2, 3], [1, 5, 3]) == 1
    assert different_ids([1, 2], [1, 2, 0, 0]) == different_ids([1, 2, 0, 0], [1, 2]) == 2


# Notes become rows


def test_notes_of_one_thing_become_one_row_with_the_largest_difference_in_each_room(folder):
    for difference in (1e-16, 5e-16, 2e-16):
        note(difference=difference)
    note(room="nn", difference=0.0)
    [row] = tool.ledger(folder)
    assert row["difference"] == {"scratch": 5e-16, "nn": 0.0}
    assert (row["section"], row["component"], row["reference"]) == ("Layers", "softmax", "torch 1.0")
    assert (row["dtype"], row["bound"]) == ("float64", 1e-15)


def test_notes_of_several_processes_are_one_ledger(folder):
    note()
    [file] = folder.iterdir()
    file.rename(folder / "another.jsonl")
    note(room="nn")
    [row] = tool.ledger(folder)
    assert list(row["difference"]) == ["scratch", "nn"]


def test_rows_are_in_the_order_of_the_page(folder):
    note("GPT-2, untied: logits", section="Whole models")
    for dtype in ("float64", "float32"):
        note("GPT-2: logits", section="Whole models", dtype=dtype)
    note("softmax")
    note("GELU")
    assert [(row["component"], row["dtype"]) for row in tool.ledger(folder)] == [
        ("GELU", "float64"),
        ("softmax", "float64"),
        ("GPT-2: logits", "float32"),
        ("GPT-2: logits", "float64"),
        ("GPT-2, untied: logits", "float64"),
    ]


def test_one_thing_has_one_bound(folder):
    note()
    note(room="nn", bound=1e-14)
    with pytest.raises(ValueError, match="has the bounds 1e-15 and 1e-14"):
        tool.ledger(folder)


def test_a_section_that_no_page_has(folder):
    note(section="Layer")
    with pytest.raises(ValueError, match="the section must be one of"):
        tool.ledger(folder)


def test_the_page_shows_every_row_in_its_section(folder):
    note_all()
    note("ids", difference=0, bound=0, section="Generated text")
    tool.write(tool.ledger(folder))
    assert table("Layers") == [["softmax", "torch 1.0", "float64", "1.0e‑16", "3.0e‑16", "1e‑15"]]
    assert table("Whole models") == [["GPT-2: logits", "torch 1.0", "float64", "1.0e‑16", "–", "1e‑13"]]
    assert table("Generated text") == [["ids", "torch 1.0", "float64", "0", "–", "0"]]
    assert "## Training" not in tool.PAGE.read_text(encoding="utf-8")  # nothing there


# What the check of a test run finds


@pytest.fixture
def stored(folder):
    """Returns that folder, with three notes of which the data and the page are made."""
    note_all()
    tool.write(tool.ledger(folder))
    return folder


def test_the_same_notes_pass_and_so_do_other_digits(stored):
    assert tool.check(stored) is None
    next(stored.iterdir()).unlink()
    note(difference=7e-16)  # another machine
    note(room="nn", difference=0)
    note("GPT-2: logits", section="Whole models", bound=1e-13)
    assert tool.check(stored) is None


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda: note("GELU"), "'GELU'.*is not in the ledger"),
        (lambda: note("GPT-2: logits", "nn", section="Whole models", bound=1e-13), "'GPT-2: logits'"),
        (lambda: note(dtype="float32"), "'float32'.*is not in the ledger"),
        (lambda: tool.DATA.unlink(), "is not in the ledger"),
    ],
    ids=["a thing", "a room", "a precision", "everything"],
)
def test_more_was_compared_than_the_ledger_says(stored, change, fault):
    change()
    assert re.search(f"^book/parity.json is out of date .*{fault}", tool.check(stored))


def test_less_was_compared_than_the_ledger_says(stored):
    next(stored.iterdir()).unlink()
    note()
    note(room="nn")
    fault = tool.check(stored)
    assert "'GPT-2: logits'" in fault
    assert fault.endswith("is no longer measured): run make ledger")


def test_what_is_compared_once_a_week_may_be_missing(stored, monkeypatch):
    monkeypatch.setattr(ledger, "weekly", True)
    note("a rare family: logits", section="Whole models")
    note("GPT-2: logits", section="Whole models", bound=1e-13)  # again, beside what every run compares
    tool.write(tool.ledger(stored))
    next(stored.iterdir()).unlink()
    note_all()
    note("another rare family: logits", section="Whole models")
    assert "'another rare family: logits'" in tool.check(stored)
    next(stored.iterdir()).unlink()
    monkeypatch.setattr(ledger, "weekly", False)
    note_all()
    assert tool.check(stored) is None
    next(stored.iterdir()).unlink()
    note()
    note(room="nn")
    assert "'GPT-2: logits'" in tool.check(stored)


def test_a_room_that_is_compared_once_a_week_may_be_missing(stored, monkeypatch):
    note("a sampled case: logits", section="Whole models")
    monkeypatch.setattr(ledger, "weekly", True)
    note("a sampled case: logits", "nn", section="Whole models")
    tool.write(tool.ledger(stored))
    next(stored.iterdir()).unlink()
    monkeypatch.setattr(ledger, "weekly", False)
    note_all()
    note("a sampled case: logits", section="Whole models")
    assert tool.check(stored) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [("bound", 1e-12), ("reference", "torch 2.0"), ("dtype", "float32"), ("section", "Training")],
)
def test_data_that_was_edited(stored, name, value):
    rows = tool.ledger(stored)
    rows[0][name] = value
    tool.write(rows)
    assert "book/parity.json is out of date" in tool.check(stored)


def test_a_page_that_was_edited(stored):
    tool.PAGE.write_text(tool.PAGE.read_text(encoding="utf-8").replace("3.0e‑16", "0"), encoding="utf-8")
    assert tool.check(stored) == "book/parity.md was not made from book/parity.json: run make ledger"
    tool.PAGE.unlink()
    assert tool.check(stored) == "book/parity.md was not made from book/parity.json: run make ledger"


# The one in the book


def test_the_page_in_the_book_is_made_of_the_data():
    rows = json.loads(tool.DATA.read_text(encoding="utf-8"))
    assert tool.PAGE.read_text(encoding="utf-8") == tool.page(rows)
    assert rows == sorted(rows, key=tool.order)
    assert all(difference <= row["bound"] for row in rows for difference in row["difference"].values())
