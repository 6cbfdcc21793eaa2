"""Tests that chapters that prose mentions become links, that nothing else changes, and that wrong links are found."""

from pathlib import PurePosixPath

import pytest
from markdown_it import MarkdownIt

from glassformer import contents
from glassformer.chapter_links import mentioned
from tools.shared import chapter_links


def to(page):
    return f"{page.number}.ipynb"


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("as chapter 11 says", "as [chapter 11](11.ipynb) says"),
        ("**Chapter 08**'s part", "**[Chapter 08](08.ipynb)**'s part"),
        ("chapters 03 and 05", "chapters [03](03.ipynb) and [05](05.ipynb)"),
        ("Chapters 03, 05, and 07.", "Chapters [03](03.ipynb), [05](05.ipynb), and [07](07.ipynb)."),
        ("chapters 05 to 08", "chapters [05](05.ipynb) to [08](08.ipynb)"),
        ("chapters 05–08", "chapters [05](05.ipynb)–[08](08.ipynb)"),
        ("of chapter 01, 12 heads", "of [chapter 01](01.ipynb), 12 heads"),
        ("of chapter\n01", "of [chapter\n01](01.ipynb)"),
        ("> of chapter\n> 01", "> of [chapter\n> 01](01.ipynb)"),
        ("- a\n  - chapter\n    01", "- a\n  - [chapter\n    01](01.ipynb)"),
        (
            "| a | b |\n| --- | --- |\n| chapter 01 | c |",
            "| a | b |\n| --- | --- |\n| [chapter 01](01.ipynb) | c |",
        ),
        ("($5 and) chapter 01 costs $6", "($5 and) [chapter 01](01.ipynb) costs $6"),
        ("`a` chapter 01 `b`", "`a` [chapter 01](01.ipynb) `b`"),
        ("[0, 1] chapter 01 (so)", "[0, 1] [chapter 01](01.ipynb) (so)"),
        ("[a](b) chapter 01 [c](d)", "[a](b) [chapter 01](01.ipynb) [c](d)"),
    ],
)
def test_a_mention_becomes_a_link(written, read):
    assert chapter_links.linked(written, to) == read
    assert chapter_links.linked(read, to) == read  # what is a link stays one
    assert chapter_links.unlinked(written)
    assert chapter_links.unlinked(read) == []


@pytest.mark.parametrize(
    "written",
    [
        "# In chapter 11\n\nx",
        "In chapter 11\n===",
        "the code `chapter 11` and ``a ` chapter 11``",
        "```python\n# chapter 11\n```",
        "    # chapter 11",
        "$chapter 11$ and $$\nchapter 11\n$$",
        "[chapter 11](a.ipynb), [what `x[0]` of chapter 11 says](a_(b).ipynb), ![chapter 11](a.png)",
        '<a href="a.html">chapter 11</a> and <b title="chapter 11">x</b>',
        "<summary>chapter 11</summary>",
        "<!-- chapter 11 -->",
        "a chapter 1, a chapter 111, subchapter 11, chapter 11a and the chapter",
        "chapter 99 and chapters 98 and 99",  # there are none
    ],
)
def test_what_is_no_prose_or_no_chapter_stays(written):
    assert chapter_links.linked(written, to) == written


def test_a_chapter_has_no_link_to_itself_but_its_practice_has():
    address = chapter_links.from_notebook(PurePosixPath("11-generating.md"))
    assert (
        chapter_links.linked("chapter 11 and chapter 10", address)
        == "chapter 11 and [chapter 10](10-training.ipynb)"
    )
    address = chapter_links.from_notebook(PurePosixPath("exercises/11-practice.md"))
    assert chapter_links.linked("chapter 11", address) == "[chapter 11](../11-generating.ipynb)"


def test_a_chapter_that_is_not_written_yet_gets_no_link(monkeypatch):
    planned = contents.Chapter("11", "Generating", "How?")
    monkeypatch.setattr(contents, "chapter", lambda number: planned)
    assert chapter_links.linked("chapter 11", to) == "chapter 11"


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("[chapter 11](11-generating.ipynb) and [Chapter 11's end](../11-generating.ipynb#The-end)", []),
        (
            "[the page of chapter 00](00-start-here.ipynb), [chapter 04's exercise](exercises/04-practice.ipynb)",
            [],
        ),
        ("[what chapter 10 measured](../book/claims.md#chapter-04)", []),
        ("[chapters 03 and 05](https://example.org)", []),
        ("[chapter 11](10-training.ipynb)", ["chapter 11 → 10-training.ipynb"]),
        ("[Chapter\n11](../10-training.ipynb#x)", ["Chapter\n11 → ../10-training.ipynb#x"]),
        ("[chapter 11](exercises/10-practice.ipynb)", ["chapter 11 → exercises/10-practice.ipynb"]),
        ("chapters [03](03-attention.ipynb) and [05](06-a.ipynb)", ["05 → 06-a.ipynb"]),
        ("[chapters 03 and 05](03-attention.ipynb)", ["chapters 03 and 05 → 03-attention.ipynb"]),
    ],
)
def test_a_link_to_another_chapter_than_it_names_is_found(written, found):
    assert chapter_links.contradictions(written) == found


def test_mentions_are_read_in_order_whether_or_not_there_is_such_a_chapter():
    assert list(mentioned("Chapter 11, chapters 03, 05 and 99; a chapter")) == ["11", "03", "05", "99"]


def test_a_parser_sees_what_is_not_linked():
    assert chapter_links.unlinked(
        "# chapter 01\n\nchapter 02 `chapter 03` [chapter 04](x)\n\n- chapter\n  05"
    ) == ["02", "05"]
    assert MarkdownIt().render("[chapter\n05](x)") == '<p><a href="x">chapter\n05</a></p>\n'
