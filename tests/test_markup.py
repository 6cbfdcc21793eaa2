"""Tests that texts show what they announce, and that Markdown swallows nothing: lists, tables, headings, footnotes."""

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest
from markup import ITEM, prose, rendered, shown, written

from tools import notebooks
from tools.shared import chapter_facts

ROOT = Path(__file__).parents[1]
FOUND = subprocess.run(
    ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
    cwd=ROOT,
    capture_output=True,
    text=True,
    check=True,
).stdout.split()
TEXTS = pytest.mark.parametrize("text", [name for name in FOUND if (ROOT / name).exists()])

COUNTS = {word: number for number, word in enumerate(chapter_facts.WORDS) if number > 1}
COUNTS |= {str(number): number for number in COUNTS.values()}
COUNT = re.compile(
    rf"\b(?<![-.,/])({'|'.join(COUNTS)})\b(?: (other|more)\b)?(?=:| (?:[\w'-]+ ){{0,3}}?[\w-]+s\b)",
    re.IGNORECASE,
)
NOT_PROSE = re.compile(r"<[^>]+>|`[^`]+`|(?<=\])\([^)]*\)|\$[^$]*\$|\b[Cc]hapters? \d+")
SHORT = 8  # words: "Three things follow from our measurements."
SWALLOWED = re.compile(
    r"[^\s|]*(?<![A-Z])[.!?:;)*`] +(?:\d{1,2}\. |[-*] |#{2,6} )(?=[A-Z`*\[$]).{0,20}|\|\s+\|(?=\s*\S).{0,20}"
)


@cache
def source(name):
    """Returns a text with its facts filled in, and without its code cells."""
    if not name.startswith("book/chapters/"):
        return (ROOT / name).read_text(encoding="utf-8")
    cells = notebooks.read_text(ROOT / name).cells
    return "\n\n".join(cell.source if cell.cell_type == "markdown" else "```\n```" for cell in cells)


def swallowed(text):
    """Returns where an item, a heading or a row is in the middle of a line, or a paragraph sticks to a list."""
    bare = re.sub(r"(`+)[^`\n]+\1", "`code`", prose(text))
    found = [
        here[0] for line in bare.split("\n") if not line.startswith("|") for here in SWALLOWED.finditer(line)
    ]
    item = False
    for line in bare.split("\n"):
        if item and line and not line.startswith((" ", "|", "#", "code")) and not ITEM.match(line):
            found.append(line)
        item = bool(line) and (item or bool(ITEM.match(line)))
    return found


def miscounted(text):
    """Returns announcements such as "Three lines to remember:" that are not followed by as many items or rows."""
    found, blocks = [], re.split(r"\n\s*\n", prose(text))
    for k, block in enumerate(blocks):
        # A list may follow its announcement with or without an empty line.
        lines = block.split("\n")
        starts = [i for i, line in enumerate(lines) if ITEM.match(line) or line.startswith("|")]
        if not starts or (starts[0] == 0 and k == 0):
            continue
        before = "\n".join(lines[: starts[0]]) or blocks[k - 1]
        if ITEM.match(before) or before.startswith(("#", "|")):
            continue
        first = lines[starts[0]]
        if first.startswith("|"):
            rows = [line for line in lines[starts[0] :] if line.startswith("|")]
            sizes = {len(rows) - 2, first.count("|") - 1, first.count("|") - 2}
        else:
            below = lines[starts[0] :]
            for later in blocks[k + 1 :]:
                if not (
                    later.startswith(" ") or (ITEM.match(later) and first[0].isdigit() == later[0].isdigit())
                ):
                    break
                below += later.split("\n")
            sizes = {sum(bool(ITEM.match(line)) and not line.startswith(" ") for line in below)}
        sentence = re.split(r"(?<=[.!?]) ", NOT_PROSE.sub("", " ".join(before.split())).strip())[-1]
        announces = (
            sentence.endswith(":") or "<summary>" in before or re.search(r"\b[Tt]he table\b", sentence)
        )
        if not announces and (len(sentence.split()) > SHORT or not sentence.endswith(".")):
            continue
        counts = [
            COUNTS[word.lower()] + bool(more)
            for word, more in COUNT.findall(re.sub(r"\b([Ee]ach|[Oo]ne) .*", "", sentence))
        ]
        if counts and not sizes & {counts[-1], counts[0]}:
            found.append(f"{sentence} (here: {sorted(sizes)})")
    return found


@pytest.mark.sampled(3)
@TEXTS
def test_the_numbers_of_a_list_run_from_1(text):
    for _, marks in written(source(text)).lists:
        if marks[0] != "-":
            assert marks == [str(i + 1) for i in range(len(marks))]


@TEXTS
def test_nothing_sticks_to_what_is_before_it(text):
    assert swallowed(source(text)) == []


@TEXTS
def test_a_count_before_a_list_or_table_is_that_of_its_items_or_rows(text):
    assert miscounted(source(text)) == []


@TEXTS
def test_a_percentage_is_written_without_a_space(text):
    if text != "CHANGELOG.md":
        assert re.findall(r".{0,20}\d %(?!\w)|.{0,20}\bper cent\b", prose(source(text))) == []


@pytest.mark.sampled(3)
@TEXTS
def test_jupyterlab_shows_what_is_written(text):
    found, page = written(source(text)), shown(rendered(source(text)))
    assert page == found
    assert found.notes == (0, 0)  # JupyterLab knows no footnotes: it would show their marks


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ("A:\n\n1. one\n2. two", "A\n2. two"),
        ("## A\n\nB", "##A\n\nB"),
        ("</details>\n\n## A", "</details>\n## A"),
        ("A\n\n---\n\nB", "A\n---\n\nB"),
        ("1. one\n   - in it", "1. one\n  - in it"),
        ("A\n\n- one\n- two", "A\n    - one\n    - two"),
        (
            "| a | b |\n| --- | --- |\n| 1 | 2 |\n| 3 | 4 |",
            "| a | b |\n| --- | --- |\n| 1 | 2 |\n\n| 3 | 4 |",
        ),
        ("| a | b |\n| --- | --- |\n| 1 | 2 |\n| 3 | 4 |", "| a | b |\n| --- | --- |\n| 1 | 2 |\n3 | 4 |"),
        ("| a | b |\n| --- | --- |\n| 1 | 2 |\n| 3 | 4 |", "| a | b |\n| --- | --- |\n| 1 | 2 | 3 | 4 |"),
        ("| a | b |\n| --- | --- |\n| 1 | 2 |\n\nB", "| a | b |\n| --- | --- |\n| 1 | 2 |\nB"),
        ("**A** b", "** A** b"),
    ],
)
def test_what_markdown_swallows_is_noticed(good, bad):
    for text, same in ((good, True), (bad, False)):
        assert (shown(rendered(text)) == written(text)) is same


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ("1. One line.\n2. Two.", "1. One line. 2. Two."),
        ("- One line.\n- Two.", "- One line. - Two."),
        ("- One line.\n\nMore.", "- One line.\nMore."),
        ("A line.\n\n## A heading", "A line. ## A heading"),
    ],
)
def test_what_an_author_swallows_is_noticed(good, bad):
    assert swallowed(good) == []
    assert len(swallowed(bad)) == 1


@pytest.mark.parametrize(
    ("words", "number"),
    [
        ("Three lines to remember:", 3),
        ("There are 3 ways in:", 3),
        ("Two reasons follow.", 2),
        ("<details>\n<summary>Four commands</summary>", 4),
        ("From every row, it computes three vectors:", 3),
    ],
)
def test_a_count_is_noticed(words, number):
    for items in (number, number - 1, number + 1):
        for listed in ("\n".join(f"{i + 1}. line" for i in range(items)), "\n\n".join(["- line"] * items)):
            assert bool(miscounted(f"{words}\n\n{listed}")) == (items != number)


def test_a_count_of_something_else_is_no_announcement():
    for words in (
        "Each has two numbers, which we chose by hand:",
        "In chapter 04, it is so:",
        "GPT-2 differs:",
    ):
        assert miscounted(f"{words}\n\n- a\n- b\n- c") == []
