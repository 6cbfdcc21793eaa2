"""Turns the chapters that a Markdown text mentions into links, and finds links that name another chapter.

A writer writes "chapter 11". tools/notebooks.py makes it a link in the notebook, and tools/extensions/source_read.py
does so on the other pages of the site. Headings, code, formulas, HTML and existing links stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath

from markdown_it import MarkdownIt
from markdown_it.token import Token

from glassformer import chapter_links
from glassformer.contents import Chapter

# In a paragraph or a table, what is not prose. The alternatives are tried in this order.
_NOT_PROSE = re.compile(
    r"""
      \\.                                              # an escaped character
    | (?P<ticks>`+)(?!`) .*? (?<!`)(?P=ticks)(?!`)     # code
    | \$\$ .+? \$\$                                    # a formula
    | \$(?!\s) (?:\\.|[^$\\])+? (?<!\s)\$(?!\d)        # a formula within a line
    | !?\[ (?:[^\[\]]|\[[^\[\]]*\])* \] (?: \( (?:[^()]|\([^()]*\))* \) | \[ [^\[\]]* \])    # a link, a picture
    | <a\b .*? </a>                                    # a link in HTML
    | <[^<>\s][^<>]*>                                  # a tag, a comment, an address
    """,
    re.VERBOSE | re.DOTALL,
)
_CHAPTER = re.compile(r"(?P<practice>exercises/)?(?P<number>\d\d)-[a-z-]+\.(?:ipynb|md|html)$")


def linked(markdown: str, address: Callable[[Chapter], str | None]) -> str:
    """Returns a Markdown text with the chapters that its prose mentions as links.

    Args:
        markdown: the text of a page or a cell.
        address: returns the address of a chapter from there, or None if it gets no link.
    """
    lines = markdown.split("\n")
    for first, end in _prose(MarkdownIt().enable("table").parse(markdown)):
        block, done, at = "\n".join(lines[first:end]), "", 0
        for skipped in _NOT_PROSE.finditer(block):
            done += chapter_links.linked(block[at : skipped.start()], address) + skipped[0]
            at = skipped.end()
        lines[first:end] = (done + chapter_links.linked(block[at:], address)).split("\n")
    return "\n".join(lines)


def from_notebook(path: PurePosixPath) -> Callable[[Chapter], str | None]:
    """Returns a function that gives a chapter's address in a notebook: none in the chapter's own notebook.

    Args:
        path: the path of the notebook or its text, relative to ``notebooks/`` or ``book/chapters/``.
    """
    up = "../" * (len(path.parts) - 1)
    return lambda page: None if path.with_suffix("").as_posix() == page.name else f"{up}{page.name}.ipynb"


def unlinked(markdown: str) -> list[str]:
    """Returns the numbers of the chapters that the prose of a text mentions without a link, as a parser sees it."""
    return [
        number for words, to in _pieces(markdown) if to is None for number in chapter_links.mentioned(words)
    ]


def contradictions(markdown: str) -> list[str]:
    """Returns the links that lead to another chapter than the one that their words name, as "words → address"."""
    return [
        f"{words} → {to}"
        for words, to in _pieces(markdown)
        if to and (target := _CHAPTER.search(to.partition("#")[0]))
        if (set(chapter_links.mentioned(words)) or {target["number"]}) != {target["number"]}
        or (re.fullmatch(r"\d\d", words) and words != target["number"])
    ]


def _prose(tokens: list[Token]) -> Iterator[tuple[int, int]]:
    """Yields the first line of each paragraph and table, and the line after its last."""
    for token in tokens:
        if token.type in ("paragraph_open", "table_open") and token.map:
            yield token.map[0], token.map[1]


def _pieces(markdown: str) -> Iterator[tuple[str, str | None]]:
    """Yields the prose between links with None, and the words of each link with its address; headings are left out."""
    parser = MarkdownIt().enable("table")
    tokens = parser.parse(markdown)
    for before, token in zip([None, *tokens], tokens, strict=False):
        if token.type != "inline" or (before is not None and before.type == "heading_open"):
            continue
        words, to = "", None
        for part in token.children or []:
            if part.type in ("link_open", "link_close"):
                yield words, to
                words, to = "", str(part.attrGet("href")) if part.type == "link_open" else None
            elif part.type in ("softbreak", "hardbreak"):
                words += "\n"
            else:
                words += part.content if part.type == "text" else "" if part.nesting else "\0"
        yield words, to
