"""Reads the headings, lists, tables and footnotes of a text twice: as it is written, and as a page shows it.

`written` goes by the lines alone, as an author does: "2. " at the beginning of a line is an item, "## " a heading.
Markdown has more rules, by which a line may be swallowed: by the paragraph above it, by HTML without a blank line after
it, or by an indentation. Whatever `shown` finds in the page is then different.
"""

import re
from copy import copy
from dataclasses import dataclass, field
from itertools import groupby

from bs4 import BeautifulSoup, Tag
from markdown_it import MarkdownIt

ITEM = re.compile(r"( *)(?:(\d{1,3})[.)]|[-*+]) +(?=\S)")
HEADING = re.compile(r"(#{1,6})(?!#) *(\S.*?)(?: #+)?$")
FENCE = re.compile(r" *(`{3,}|~{3,}|:{3,})(.*)$")
NOTE = re.compile(r"\[\^([^\]\s]+)\](:?)")
MARKUP = re.compile(r"\*\*|\]\(|\[\^|<(?:details|summary)\b|^ *(?:#{1,6} |\|.*\|$)", re.MULTILINE)


@dataclass
class Shape:
    """What a text is made of, in order."""

    headings: list[tuple[int, str]] = field(default_factory=list)  # level and letters
    # depth, and for each item its number or "-"
    lists: list[tuple[int, list[str]]] = field(default_factory=list)
    tables: list[list[int]] = field(default_factory=list)  # the number of cells of each row
    notes: tuple[int, int] = (0, 0)  # how many footnotes are referred to, and how many there are
    left: list[str] = field(default_factory=list)  # markup that is still visible, so it was not understood


def letters(words):
    """Returns the letters and digits of a heading without formulas and without the addresses of links."""
    words = re.sub(r"\$[^$]+\$", "", re.sub(r"\]\([^)]*\)", "", words))
    return "".join(filter(str.isalnum, words))


def prose(text):
    """Returns a Markdown text without remarks, with "code" and empty lines in place of code and displayed formulas."""
    lines, end = [], None
    text = re.sub(r"<!--.*?-->", lambda found: "\n" * found[0].count("\n"), text, flags=re.DOTALL)
    if text.startswith("---\n"):
        head, _, text = text[4:].partition("\n---\n")
        lines = [""] * (head.count("\n") + 3)
    for line in text.split("\n"):
        fence = FENCE.match(line)
        if end is None:
            if fence and "`" not in fence[2]:
                end = fence[1]
            elif line.strip().startswith("$$") and line.count("$$") == 1:
                end = "$$"
            lines.append(line if end is None else re.sub(r"\S.*", "code", line))
        else:
            if line.strip().startswith(end) or (end == "$$" and line.rstrip().endswith("$$")):
                end = None
            lines.append("")
    return "\n".join(lines)


def written(text):
    """Returns the shape of a text by its lines."""
    shape = Shape()
    open_lists = []  # the indentation of each, and its items
    for line in prose(text).split("\n"):
        if heading := HEADING.match(line):
            shape.headings.append((len(heading[1]), letters(heading[2])))
    bare = re.sub(r"(`+)[^`\n]+\1", "code", prose(text))
    lines = [re.sub(r"^(?:> ?)+", "", line) for line in bare.split("\n")]
    for is_table, rows in groupby(lines, lambda line: line.lstrip().startswith("|")):
        if is_table:
            cells = [len(re.findall(r"(?<!\\)\|", row.strip())) - 1 for row in rows]
            shape.tables.append([cells[0], *cells[2:]])
            continue
        for line in rows:
            if item := ITEM.match(line):
                indent, mark = len(item[1]), item[2] or "-"
                while open_lists and (
                    open_lists[-1][0] > indent
                    or (open_lists[-1][0] == indent and (mark == "-") != (open_lists[-1][1][-1] == "-"))
                ):
                    open_lists.pop()
                if not open_lists or open_lists[-1][0] < indent:
                    open_lists.append((indent, []))
                    shape.lists.append((len(open_lists), open_lists[-1][1]))
                open_lists[-1][1].append(mark)
            elif line and not line.startswith(" "):
                open_lists = []
    colons = [colon for _, colon in NOTE.findall(bare)]
    shape.notes = (colons.count(""), colons.count(":"))
    return shape


def shown(page):
    """Returns the shape of a page, or of the part of one that BeautifulSoup has found."""
    article = copy(page) if isinstance(page, Tag) else BeautifulSoup(page, "html.parser")
    for other in article.select(".cell, .headerlink, script, style, svg, math, pre, textarea, .api"):
        other.decompose()
    shape = Shape()
    for heading in article.select("h1, h2, h3, h4, h5, h6, details.fold > summary"):
        level = 4 if heading.name == "summary" else int(heading.name[1])
        shape.headings.append((level, letters(heading.get_text())))
    for one in article.select("ol, ul"):
        items, first = one.find_all("li", recursive=False), int(one.get("start", 1))
        marks = [str(first + i) if one.name == "ol" else "-" for i in range(len(items))]
        shape.lists.append((len(one.find_parents(["ol", "ul"])) + 1, marks))
    shape.tables = [
        [len(row.select("th, td")) for row in table.select("tr")] for table in article.select("table")
    ]
    shape.notes = (
        len(article.select(".footnote-reference")),
        len(article.select("aside.footnote, dl.footnote > dt")),
    )
    for code in article.select("code"):
        code.decompose()
    shape.left = [found[0] for found in MARKUP.finditer(article.get_text())]
    return shape


def rendered(text):
    """Returns the HTML of a Markdown text as JupyterLab makes it: CommonMark with tables."""
    return MarkdownIt().enable("table").render(text)
