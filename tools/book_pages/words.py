"""Writes book/words.md: words that people meet around language models, in groups, each with its entry of the glossary.

`book/words.toml` lists the words in the order in which they are read, with what this page adds to an entry: a picture,
which a notebook has stored, and where to learn what the book leaves out. Where a picture belongs, the page has a
comment, and on the site tools/extensions/shown_elsewhere.py puts the picture in its place. `make notebooks` writes the
page.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import nbformat

from tools.book_pages.claims import heading_above
from tools.extensions.anchors import slug

SEE = re.compile(r"\*See\* \[(?P<words>[^\]]+)\]\(#(?P<name>[^)]+)\)\..*", re.DOTALL)
OTHER_NAMES = re.compile(r"\*You\s+may\s+know\s+this\s+as\*[^.]*\.\s*")
TO_ENTRY = re.compile(r"\]\(#([^)]+)\)")
PICTURE = "<!-- from {}: {} -->"  # of a notebook, the cell that contains a piece of code


def entries(glossary: str) -> dict[str, str]:
    """Returns the entries of the glossary, by their names in a link."""
    parts = re.split(r"^## ", glossary, flags=re.MULTILINE)[1:]
    return {slug(term): text.strip() for term, text in (part.split("\n", 1) for part in parts)}


def cell_of(notebook: nbformat.NotebookNode, piece: str) -> int:
    """Returns the index of the cell that shows something and contains a piece of code.

    Raises:
        ValueError: no cell contains it, or several do.
    """
    found = [i for i, cell in enumerate(notebook.cells) if piece in cell.source and cell.get("outputs")]
    if len(found) != 1:
        raise ValueError(f"{len(found)} cells with outputs contain {piece!r}, but exactly one should")
    return found[0]


def picture(word: dict, notebooks: Path) -> list[str]:
    """Returns the place of a word's picture, and what to look for in it."""
    name, piece = word["picture"]
    notebook = nbformat.read(notebooks / f"{name}.ipynb", as_version=4)
    heading = heading_above(notebook, cell_of(notebook, piece))
    words, anchor = (heading, "") if "·" in heading else (f"{name[:2]} · {heading}", f"#{slug(heading)}")
    link = f"[{words}](../notebooks/{name}.ipynb{anchor})"
    return [PICTURE.format(name, piece), f"{word['look']} From {link}."]


def link(term: str) -> str:
    """Returns a link to a heading of the page."""
    return f"[{term}](#{slug(term)})"


def page(file: Path, notebooks: Path) -> str:
    """Returns the page that a file describes.

    Raises:
        ValueError: a word has no entry in the glossary, or a picture no cell.
    """
    known = entries((file.parent / "glossary.md").read_text(encoding="utf-8"))
    about = tomllib.loads(file.read_text(encoding="utf-8"))
    names = [slug(word["term"]) for group in about["group"] for word in group["word"]]
    if unknown := set(names) - set(known):
        raise ValueError(f"the glossary has no {', '.join(sorted(unknown))}")
    # Words whose entry is another one, and from the name of an entry in the glossary to that of the word on this page
    seen = {name: found for name in names if (found := SEE.fullmatch(known[name]))}
    here = {seen[name]["name"] if name in seen else name: name for name in names}

    def address(to: re.Match[str]) -> str:
        return f"](#{here[to[1]]})" if to[1] in here else f"](glossary.md#{to[1]})"

    def entry(word: dict) -> list[str]:
        name = slug(word["term"])
        text = known[name]
        if found := seen.get(name):
            under = f"[{found['words']}](glossary.md#{found['name']})"
            text = f"{OTHER_NAMES.sub('', known[found['name']]).strip()} The glossary has it under {under}."
        shown = picture(word, notebooks) if "picture" in word else []
        return [f"### {word['term']}", TO_ENTRY.sub(address, text), *shown, *filter(None, [word.get("more")])]

    table, parts = ["| Group | Words |", "| --- | --- |"], []
    for group in about["group"]:
        terms = " · ".join(link(word["term"]) for word in group["word"])
        table.append(f"| {link(group['title'])} | {terms} |")
        parts += [f"## {group['title']}", group["text"].strip()]
        parts += [part for word in group["word"] for part in entry(word)]
    return "\n\n".join([about["heading"].strip(), "\n".join(table), *parts]) + "\n"
