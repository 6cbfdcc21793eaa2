"""Writes book/claims.md, the claims ledger: claims about Transformers, and what the chapters found.

`book/claims.toml` says in words what was claimed, by whom, and what was found. A piece of code identifies the cell that
shows it. Each number in `found` must occur in that cell's output or code, so the ledger cannot contradict its chapter.
`make notebooks` writes the page.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from dataclasses import dataclass
from html import unescape
from itertools import groupby
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from tools.pages.anchors import slug

VERDICTS = {
    "holds": "Holds",
    "in part": "Holds in part",
    "not here": "Not seen here",
    "fails": "Fails",
}

HEADING = """# Claims ledger

Tutorials, papers and folklore say a lot about Transformers. This page lists what they say that a chapter of this book
has tried: what is said, what came out, and the place that shows it. Each number below is one that the cell there
prints.

*Holds* and *fails* are about what was run here: small models, a small text, the seeds that the chapter names. A claim
that fails here may hold at another size, and the other way round. *Not seen here* means that the effect, if there is
one, is smaller than what one seed differs from another.
"""

NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


@dataclass(frozen=True)
class Claim:
    """A claim, its author (in Markdown), what was found, and the notebook and code cells that show it."""

    said: str
    by: str
    verdict: str
    found: str
    notebook: str  # below notebooks/, without its ending
    cells: tuple[str, ...]


def claims(file: Path) -> list[Claim]:
    """Returns the claims in a file, in its order.

    Raises:
        ValueError: an entry lacks a key, has an unknown one, or has a verdict that is not in `VERDICTS`.
    """
    entries = tomllib.loads(file.read_text(encoding="utf-8"))["claim"]
    wanted = set(Claim.__dataclass_fields__)
    for entry in entries:
        if set(entry) != wanted:
            raise ValueError(f"a claim has {', '.join(sorted(wanted))}; this one is {entry}")
        if entry["verdict"] not in VERDICTS:
            raise ValueError(
                f"verdict={entry['verdict']!r} must be one of {', '.join(VERDICTS)}: {entry['said']}"
            )
    return [Claim(**entry | {"cells": tuple(entry["cells"])}) for entry in entries]


def printed(cell: NotebookNode) -> str:
    """Returns what a code cell prints and shows, as text."""
    texts = []
    for output in cell.outputs:
        data = output.get("data", {})
        texts += [output.get("text", ""), data.get("text/plain", ""), data.get("text/markdown", "")]
        texts.append(unescape(re.sub(r"<[^>]+>", " ", data.get("text/html", ""))))
    return "\n".join(texts)


def place(claim: Claim, notebook: NotebookNode) -> tuple[str, str]:
    """Returns the heading above a claim's first cell, and the code and output of all its cells.

    Raises:
        ValueError: no cell of the notebook contains a piece of code, or several do.
    """
    first, texts = "", []
    for piece in claim.cells:
        found = [
            i for i, cell in enumerate(notebook.cells) if cell.cell_type == "code" and piece in cell.source
        ]
        if len(found) != 1:
            raise ValueError(
                f"{claim.notebook}: {len(found)} cells contain {piece!r}, but exactly one should"
            )
        cell = notebook.cells[found[0]]
        texts.append(f"{cell.source}\n{printed(cell)}")
        first = first or heading_above(notebook, found[0])
    return first, "\n".join(texts)


def heading_above(notebook: NotebookNode, index: int) -> str:
    """Returns the nearest heading above a cell that is not folded away: of the third level or higher."""
    for cell in reversed(notebook.cells[:index]):
        if cell.cell_type == "markdown" and (
            found := re.findall(r"^#{1,3} (.+)$", cell.source, re.MULTILINE)
        ):
            return found[-1].strip()
    raise ValueError(f"there is no heading above cell {index}")


def unshown(claim: Claim, text: str) -> list[str]:
    """Returns the numbers in a claim's `found` that its cells do not show."""
    there = set(NUMBER.findall(text))
    return [number for number in NUMBER.findall(claim.found) if number not in there]


def entry(claim: Claim, notebook: NotebookNode) -> str:
    """Returns one claim of a notebook as Markdown.

    Raises:
        ValueError: its cells do not exist, or do not show one of its numbers.
    """
    heading, text = place(claim, notebook)
    if missing := unshown(claim, text):
        raise ValueError(f"{claim.notebook}: no cell named by {claim.said!r} shows {', '.join(missing)}")
    link = f"../notebooks/{claim.notebook}.ipynb#{slug(heading)}"
    return (
        f"- **{VERDICTS[claim.verdict]}:** *{claim.said}* {claim.by}\n\n  {claim.found} [{heading}]({link})\n"
    )


def page(file: Path, notebooks: Path) -> str:
    """Returns the ledger of the claims in a file, chapter by chapter, with the number of those that hold.

    Raises:
        ValueError: a claim is malformed, or its cells do not support it.
    """
    every = claims(file)
    counts = Counter(claim.verdict for claim in every)
    says = ", ".join(f"{words.lower()} {counts[verdict]}" for verdict, words in VERDICTS.items())
    lines = [HEADING, f"Of {len(every)} claims: {says}.\n"]
    for name, those in groupby(every, key=lambda claim: claim.notebook):
        notebook = nbformat.read(notebooks / f"{name}.ipynb", as_version=4)
        title = re.findall(r"^# (.+)$", notebook.cells[0].source, re.MULTILINE)[0]
        lines.append(f"## {name[:2]} · {title}\n" if name[:2].isdigit() else f"## {title}\n")
        lines += [entry(claim, notebook) for claim in those]
    return "\n".join(lines)
