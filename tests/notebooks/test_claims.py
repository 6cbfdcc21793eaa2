"""Tests that the claims ledger says what its sources and the chapters say, and links to where they say it."""

import re

import nbformat
import pytest

from tools.book_pages import claims
from tools.notebooks import ROOT

CLAIMS = claims.claims(ROOT / "book" / "claims.toml")
PAGE = (ROOT / "book" / "claims.md").read_text(encoding="utf-8")
FEWEST_SOURCED = 50
# What a program prints and a reader would not write: 0.00000, 4e-03, 2.71828, True, -1.5, `[1. 1.]`.
RAW = re.compile(r"\b0\.0{4,}\b|\de[-+]\d|\d\.\d{5,}|\bTrue\b|\bFalse\b|(?<![\w–])-\d|\d\. \d")
ENTRY = """[[claim]]
said = "Two and two are four."
source = "euclid300elements"
where = "book 7"
quote = "two and two"
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
    (tmp_path / "references.bib").write_text(
        "@misc{euclid300elements, title = {Elements}, author = {von Euclid, A. and others}, year = {1482}}",
        encoding="utf-8",
    )
    return tmp_path


def page_of(book, old="", new=""):
    file = book / "claims.toml"
    file.write_text(ENTRY.replace(old, new), encoding="utf-8")
    return claims.page(file, book, book / "references.bib")


def test_the_page_says_what_the_chapters_print():
    book = ROOT / "book"
    assert claims.page(book / "claims.toml", ROOT / "notebooks", book / "references.bib") == PAGE


def test_most_claims_have_a_source_and_most_of_these_are_quoted():
    sourced = [claim for claim in CLAIMS if claim.source]
    assert len(sourced) >= FEWEST_SOURCED
    assert len([claim for claim in sourced if claim.quote]) >= 0.9 * len(sourced)


def test_claims_with_a_source_come_first():
    sourced, unsourced = PAGE.split(claims.UNSOURCED)
    entries = re.findall(r"^- \*\*.+\n\n  (.+)$", sourced, re.MULTILINE)
    assert len(entries) == len([claim for claim in CLAIMS if claim.source])
    assert all(re.match(r"\[.+ \d{4}\]\(bibliography\.md#\w+\)", who) for who in entries)
    assert "**Fails:**" not in unsourced


def test_no_claim_is_made_twice():
    assert len({claim.said for claim in CLAIMS}) == len(CLAIMS)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.said[:40])
def test_nothing_reads_like_a_print(claim):
    assert RAW.findall(claim.found) == []


@pytest.mark.parametrize(
    "printed",
    ["off by 0.00000000000", "below 1e-14", "3.5176413427", "the final stream: True", "of -0.003", "[1. 1.]"],
)
def test_a_print_is_recognized(printed):
    assert RAW.search(printed)


@pytest.mark.parametrize("written", ["−0.003", "0.000 after block 11", "1–64", "2.0406", "1 · 10⁻³", "x-1"])
def test_a_number_for_readers_is_no_print(written):
    assert not RAW.search(written)


def test_an_entry_leads_to_the_heading_above_its_cell(book):
    page = page_of(book)
    assert (
        "Of 1 claims, 1 have a source. Verdicts: holds 1, holds in part 0, not seen here 0, fails 0" in page
    )
    assert "\n## Sums\n" in page
    assert "\n  [von Euclid et al. 1482](bibliography.md#euclid300elements), book 7: “two and two”.\n" in page
    assert "\n  The sum is 4.00, in 1,000 tries. [Twos](../notebooks/01-sums.ipynb#Twos)\n" in page


def test_an_entry_without_a_source_comes_last_with_its_chapter(book):
    page = page_of(book, 'source = "euclid300elements"\nwhere = "book 7"\nquote = "two and two"\n', "")
    _, last = page.split(claims.UNSOURCED)
    assert "## Sums" not in page
    assert "[01 · Twos](../notebooks/01-sums.ipynb#Twos)" in last


@pytest.mark.parametrize("found", ["4.0", "4.00", "2.7", "2.72", "2.70", "4 · 10⁻³", "1 · 10⁺⁰"])
def test_a_number_may_be_rounded(found):
    claim = claims.Claim("", "holds", found, "", ())
    text = "4.00 2.7183 2.7 4e-03"
    assert claims.unshown(claim, text) == (["1", "10"] if "⁺" in found else [])


@pytest.mark.parametrize("found", ["3", "4.01", "2.71", "2.80", "40", "4 · 10⁻²", "7"])
def test_another_number_is_not_shown(found):
    assert claims.unshown(claims.Claim("", "holds", found, "", ()), "4.00 2.7183 2.7 4e-03 75") != []


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("4.00", "4.01", "shows 4.01"),
        ("1,000", "100", "shows 100"),
        ("The sum is 4.00", "The sum is 4", "shows 4"),
        ("print(two", "print(three", "0 cells contain 'print(three'"),
        ("print(two", "print(", "2 cells contain 'print('"),
        ('"holds"', '"true"', "verdict='true' must be one of holds, in part"),
        ('said = "Two and two are four."\n', "", "a claim has said, verdict"),
        ("where", "place", "a claim has said, verdict"),
        ("euclid300elements", "newton1687", "references.bib has no newton1687"),
        ('source = "euclid300elements"\n', "", "needs a source"),
        ('"holds"', '"mistake"', "a common mistake has no source"),
        ("two and two", "two " * 26, "at most 25 words"),
        (
            'source = "euclid300elements"\nwhere = "book 7"\nquote = "two and two"\nverdict = "holds"',
            'verdict = "fails"',
            "needs a source",
        ),
    ],
)
def test_a_claim_that_its_chapter_does_not_show_is_refused(book, old, new, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        page_of(book, old, new)
