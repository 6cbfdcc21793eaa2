"""Tests that every link in JupyterLab leads somewhere, and that it opens plain Markdown."""

import re
from functools import cache
from itertools import pairwise
from urllib.parse import unquote, urldefrag

import nbformat
import pytest
from markdown_it import MarkdownIt

from tools import notebooks
from tools.book_pages import bibliography
from tools.extensions.anchors import ID, slug
from tools.shared import chapter_links

BOOK = notebooks.ROOT / "book"
ROLE = re.compile(r"\{[a-z][\w:-]*\}$")  # before `code`
BLOCK = re.compile(r"(:::+|\+\+\+|%|\([\w-]+\)=)")  # a directive, a new cell, a comment, a target


@cache
def tokens(path):
    """Returns the Markdown of a notebook or page as JupyterLab parses it: CommonMark with tables."""
    sources = [path.read_text(encoding="utf-8")]
    if path.suffix == ".ipynb":
        stored = nbformat.read(path, as_version=4)
        sources = [cell.source for cell in stored.cells if cell.cell_type == "markdown"]
    parser = MarkdownIt().enable("table")
    return [token for source in sources for token in parser.parse(source)]


def inline(path):
    return [part for token in tokens(path) if token.type == "inline" for part in token.children]


def links(path):
    """Returns the files to which a file links, each with the name of the target in it, if any."""
    for part in inline(path):
        for address in filter(None, [part.attrGet("href"), part.attrGet("src")]):
            target, name = urldefrag(address)
            if "://" not in target:
                yield (path.parent / unquote(target)).resolve() if target else path, name


def names(path):
    """Returns the targets that JupyterLab can scroll to: headings by their words, and ids written in HTML."""
    found = tokens(path)
    headings = [text for token, text in pairwise(found) if token.type == "heading_open"]
    html = [part for part in [*found, *inline(path)] if part.type in ("html_block", "html_inline")]
    return {
        *(slug("".join(part.content for part in heading.children)) for heading in headings),
        *(name for part in html for name in ID.findall(part.content)),
    }


def raw(path):
    """Returns the markup that only Sphinx would understand."""
    for token in tokens(path):
        if token.type == "fence" and token.info.startswith("{"):
            yield token.info
        if token.type == "inline" and (block := BLOCK.match(token.content)):
            yield block.group()
        for text, code in pairwise(token.children or []):
            if code.type == "code_inline" and (role := ROLE.search(text.content)):
                yield role.group()


def reachable():
    """Returns the notebooks and every page that is reachable from them by links."""
    found, new = set(), {notebook for _, notebook in notebooks.pairs()}
    while new:
        found |= new
        linked = {target for path in new for target, _ in links(path)}
        new = {path for path in linked if path.suffix in (".md", ".ipynb") and path.is_file()} - found
    return sorted(found)


ALL = [*(notebook for _, notebook in notebooks.pairs()), *BOOK.glob("*.md")]
PAGES = sorted(path.relative_to(notebooks.ROOT).as_posix() for path in ALL)


def test_these_are_all_that_a_reader_can_reach():
    assert {path.relative_to(notebooks.ROOT).as_posix() for path in reachable()} <= set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_to_a_file_and_a_name_in_it(page):
    broken = [
        f"{target}#{name}"
        for target, name in links(notebooks.ROOT / page)
        if not target.is_file() or (name and name not in names(target))
    ]
    assert broken == []


@pytest.mark.parametrize("page", PAGES)
def test_nothing_that_is_read_is_for_sphinx_alone(page):
    found = list(raw(notebooks.ROOT / page))
    if page == "book/api.md":  # it is written from docstrings, and says so where they are not shown
        found = [one for one in found if not one.startswith("{package}")]
    assert found == []


@pytest.mark.parametrize(
    "text", [text for text, _ in notebooks.pairs()], ids=lambda text: text.relative_to(BOOK).as_posix()
)
def test_every_chapter_that_a_notebook_mentions_is_a_link(text):
    own = text.stem[:2] if text.parent.name == "chapters" else None
    for cell in notebooks.read_text(text).cells:
        if cell.cell_type == "markdown":
            assert set(chapter_links.unlinked(cell.source)) <= {own}, cell.source


@pytest.mark.parametrize("page", PAGES)
def test_a_link_leads_to_the_chapter_that_it_names(page):
    path = notebooks.ROOT / page
    sources = [path.read_text(encoding="utf-8")]
    if path.suffix == ".ipynb":
        stored = nbformat.read(path, as_version=4)
        sources = [cell.source for cell in stored.cells if cell.cell_type == "markdown"]
    assert [wrong for source in sources for wrong in chapter_links.contradictions(source)] == []


def test_the_pages_to_look_things_up_are_among_them():
    assert {"book/bibliography.md", "book/glossary.md", "book/notation.md"} <= set(PAGES)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("See {term}`mask`.", ["{term}"]),
        ("```{note}\nText\n```", ["{note}"]),
        (":::{note}\nText\n:::", [":::"]),
        ("(here)=\n# Heading", ["(here)="]),
        ("Where $x_{i}$ is `x[i]`, and `{term}` is code.", []),
    ],
)
def test_what_is_for_sphinx_alone_is_seen(tmp_path, source, found):
    (tmp_path / "page.md").write_text(source, encoding="utf-8")
    assert list(raw(tmp_path / "page.md")) == found


def test_terms_are_in_order_and_their_names_ascii():
    """JupyterLab encodes other characters in the link, and would not find the name."""
    terms = re.findall(r"^## (.*)$", (BOOK / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert terms == sorted(set(terms), key=str.lower)
    assert all(map(str.isascii, terms))


def test_the_bibliography_is_what_the_references_say(tmp_path):
    assert (BOOK / "bibliography.md").read_text(encoding="utf-8") == bibliography.page(
        BOOK / "references.bib"
    )


def test_an_entry_has_its_key_and_is_no_markup(tmp_path):
    references = tmp_path / "references.bib"
    references.write_text(
        r"""@misc{godel1931, title = {On *undecidable* $x_1$}, author = {G{\"o}del, Kurt}, year = {1931},
        url = {https://example.org/a_b}}""",
        encoding="utf-8",
    )
    [entry] = bibliography.page(references).removeprefix(bibliography.HEADING).strip().splitlines()
    assert entry.startswith(r'<a id="godel1931"></a>Kurt Gödel. On \*undecidable\*')
    (tmp_path / "page.md").write_text(entry, encoding="utf-8")
    assert names(tmp_path / "page.md") == {"godel1931"}
    assert [part.attrGet("href") for part in inline(tmp_path / "page.md") if part.type == "link_open"] == [
        "https://example.org/a_b"
    ]
