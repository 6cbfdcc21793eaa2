"""A Sphinx extension that lets search find sections, folds and the package's names, not only pages.

Sphinx's index knows only which page a word is on, but our chapters are long. This extension indexes every section as a
page of its own with the name ``page#section``, and book/site/search.js turns these names into links. In _static/texts
is a script for each page, with the text of its excerpts, and glossary.js, with the terms' definitions and other names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.addnodes import desc_signature
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.search import IndexBuilder

from tools.extensions.folds import fold, summary

SILENT = (nodes.title, summary, nodes.literal_block, nodes.math_block, nodes.raw, nodes.comment)
NAMES = re.compile(r"You may know this as (.+?)(?: \(|\.(?: |$))")
BETWEEN = re.compile(r",? (?:or|and) |[,;] ")
SOURCES = re.compile(r"\s*\((?:<a [^>]*bibliography[^>]*>.*?</a>[;,\s]*)+\)|</?a\b[^>]*>", re.DOTALL)

REPEATS = "book/words"  # a page with the glossary's entries, of which only the beginning is in the index


def name(part: Any) -> str:
    """Returns the title of a section; a fold's title comes after that of the section that contains it."""
    above = f"{name(part.parent)}: " if isinstance(part, fold) else ""
    return above + part[0].astext()


def text(part: Any) -> str:
    """Returns what excerpts may show of a part: its prose, or its code, but nothing that answers a prediction."""
    if part.get("predict"):
        return "Decide first: this comes after a prediction."
    code = next(part.findall(nodes.literal_block), nodes.Text("")).astext()
    for silent in list(part.findall(lambda node: isinstance(node, SILENT))):
        silent.parent.remove(silent)
    for formula in [one for one in part.findall(nodes.math) if re.search(r"[\\^_{]", one.astext())]:
        formula.replace_self(nodes.Text("…"))
    return " ".join((part.astext().strip() or code).split())


def glossary(builder: StandaloneHTMLBuilder, doctree: nodes.document) -> dict[str, dict[str, str]]:
    """Returns each entry in HTML, or the name of the entry to which it only leads, and the terms' other names."""
    entries, aliases = {}, {}
    for entry in [*doctree.findall(nodes.section)][1:]:
        [name], [title, *content] = entry["ids"][:1], entry.children
        if content[0].astext().startswith("See "):
            entries[name] = aliases[title.astext()] = next(entry.findall(nodes.reference))["refid"]
            continue
        said = "".join(builder.render_partial(part)["fragment"] for part in content)
        entries[name] = f"<strong>{escape(title.astext())}</strong>" + SOURCES.sub("", said)
        for names in NAMES.findall(" ".join(entry.astext().split())):
            aliases |= dict.fromkeys(BETWEEN.split(names), name)
    return {"entries": entries, "aliases": aliases}


class SectionIndex(IndexBuilder):
    """Sphinx's index, with an entry for each section. `said` are the texts of the page that was indexed last."""

    said: dict[str, str]

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
        self.said = {"": text(whole)}
        self.said |= {part["ids"][0]: text(part) or self.said[""] for part in parts}
        for entry in (found for part in parts for found in part.findall(desc_signature)):
            first = next(entry.parent.findall(nodes.paragraph), entry)
            self.said |= dict.fromkeys(entry["ids"], text(first))

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

    def index_page(self, pagename: str, doctree: nodes.document, title: str) -> None:
        """Indexes a page, and writes its script; the glossary has another."""
        super().index_page(pagename, doctree, title)
        assert isinstance(self.indexer, SectionIndex)
        files = {pagename.replace("/", "-"): f"Search.texts['{pagename}'] = {json.dumps(self.indexer.said)}"}
        if pagename == "book/glossary":
            files["glossary"] = f"window.GLOSSARY = {json.dumps(glossary(self, doctree))}"
        folder = Path(self.outdir, "_static", "texts")
        folder.mkdir(parents=True, exist_ok=True)
        for name, script in files.items():
            (folder / f"{name}.js").write_text(script, encoding="ascii")


def setup(app: Sphinx) -> dict:
    app.add_builder(SectionsIndexed, override=True)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
