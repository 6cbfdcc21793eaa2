"""Tests that the claims ledger says what the chapters print, and links to where they print it."""

import re

import nbformat
import pytest

from tools import claims
from tools.notebooks import ROOT

ENTRY = """[[claim]]
said = "Two and two are four."
by = "Folklore."
verdict = "holds"
found = "The sum is 4.00, in 1,000 tries."
notebook = "01-sums"
cells = ["print(two"]
"""


@pytest.fixture
def book(tmp_path):
    """Makes a folder with a claim and with the notebook that shows it, under a heading and behind a fold."""
    cells = [
        nbformat.v4.new_markdown_cell("# Sums\n\n## Twos\n\nText."),
        nbformat.v4.new_markdown_cell("#### Then look"),
        nbformat.v4.new_code_cell(
            "print(two + two)  # 1,000 times", outputs=[nbformat.v4.new_output("stream", text="4.00\n")]
        ),
        nbformat.v4.new_code_cell("print(2)"),
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "01-sums.ipynb")
    (tmp_path / "claims.toml").write_text(ENTRY, encoding="utf-8")
    return tmp_path


def page_of(book, old="", new=""):
    file = book / "claims.toml"
    file.write_text(ENTRY.replace(old, new), encoding="utf-8")
    return claims.page(file, book)


def test_the_page_says_what_the_chapters_print():
    written = claims.page(ROOT / "book" / "claims.toml", ROOT / "notebooks")
    assert (ROOT / "book" / "claims.md").read_text(encoding="utf-8") == written


def test_an_entry_leads_to_the_heading_above_its_cell(book):
    *_, found = page_of(book).splitlines()
    assert "Of 1 claims: holds 1, holds in part 0, not seen here 0, fails 0." in page_of(book)
    assert "## 01 · Sums" in page_of(book)
    assert found == "  The sum is 4.00, in 1,000 tries. [Twos](../notebooks/01-sums.ipynb#Twos)"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("4.00", "4.01", "shows 4.01"),
        ("1,000", "100", "shows 100"),
        ("The sum is 4.00", "The sum is 4", "shows 4"),
        ("print(two", "print(three", "0 cells contain 'print(three'"),
        ("print(two", "print(", "2 cells contain 'print('"),
        ('"holds"', '"true"', "verdict='true' must be one of holds, in part"),
        ('by = "Folklore."\n', "", "a claim has by, cells"),
    ],
)
def test_a_claim_that_its_chapter_does_not_show_is_refused(book, old, new, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        page_of(book, old, new)
