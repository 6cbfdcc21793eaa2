"""A Sphinx extension that lets search find sections, folds and the package's names, not only pages.

Sphinx's index knows only which page a word is on, but our chapters are long. This extension indexes every section as a
page of its own with the name ``page#section``, and book/site/search.js turns these names into links.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from html import escape
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.search import IndexBuilder

from tools.extensions.folds import fold

REPEATS = "book/words"  # a page with the glossary's entries, of which only the beginning is in the index


def name(part: Any) -> str:
    """Returns the title of a section; a fold's title comes after that of the section that contains it."""
    above = f"{name(part.parent)}: " if isinstance(part, fold) else ""
    return above + part[0].astext()


class SectionIndex(IndexBuilder):
    """Sphinx's index, with an entry for each section."""

    def feed(self, docname: str, filename: str, title: str, doctree: nodes.document) -> None:
        """Indexes the text above the first section as the page, and each section without those inside it."""
        whole = doctree.deepcopy()
        parts: list[Any] = [
            part for part in whole.findall(nodes.Element) if isinstance(part, nodes.section | fold)
        ][1:]
        names = [name(part) for part in parts]
        for part in parts:
            part.parent.remove(part)
        super().feed(docname, filename, title, whole)
        for part, words in zip(parts, names, strict=True) if docname != REPEATS else ():
            super().feed(f"{docname}#{part['ids'][0]}", filename, escape(words), part)

    def freeze(self) -> dict[str, Any]:
        """Returns what the page of search loads, with each of the package's names only as an object."""
        return super().freeze() | {"indexentries": {}}

    def dump(self, stream: Any, format: Any) -> None:
        """Writes the index as Sphinx does, but without spaces between its parts."""
        stream.write(f"Search.setIndex({json.dumps(self.freeze(), sort_keys=True, separators=(',', ':'))})")

    def prune(self, docnames: Iterable[str]) -> None:
        """Removes everything except these pages and their sections."""
        pages = set(docnames)
        super().prune([name for name in self._titles if name.partition("#")[0] in pages])


class SectionsIndexed(StandaloneHTMLBuilder):
    """Sphinx's builder of sites, with that index."""

    def prepare_writing(self, docnames: set[str]) -> None:
        """Prepares as Sphinx does, but with an empty index, because tools/book.py writes all pages every time."""
        super().prepare_writing(docnames)
        if self.indexer is not None:
            self.indexer = SectionIndex(self.env, self.indexer.lang.lang, self.config.html_search_options, "")
            self.indexer.lang.stem = cache(self.indexer.lang.stem)  # for all sections
            self.indexer.prune([])


def setup(app: Sphinx) -> dict:
    app.add_builder(SectionsIndexed, override=True)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
