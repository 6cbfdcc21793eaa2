"""Writes book/claims.md, the claims ledger: claims about Transformers, their sources, and what the chapters found.

`book/claims.toml` says in words what was claimed, by which work of `book/references.bib`, and what was found. A piece
of code identifies the cell that shows it. Each number in `found` must occur in that cell's output or code, perhaps with
more decimals, so the ledger cannot contradict its chapter. `make notebooks` writes the page.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from dataclasses import MISSING, dataclass
from html import unescape
from itertools import groupby
from pathlib import Path
from typing import cast

import nbformat
from nbformat import NotebookNode
from pybtex.database import BibliographyData, Entry, parse_file

from tools.extensions.anchors import slug

VERDICTS = {
    "holds": "Holds",
    "in part": "Holds in part",
    "not here": "Not seen here",
    "fails": "Fails",
    "mistake": "Common mistake",
}
LONGEST_QUOTE = 25  # words

HEADING = """# Claims ledger

Papers, tutorials and documentation say a lot about Transformers. This page lists what they say that a chapter of this
book has tried. For each claim it gives the source and its own words, then what we found and the place that shows it.
The cell there prints every number below, most of them with more decimals.

*Holds* and *fails* refer to what was run here: small models, a small text and the seeds that the chapter names. A claim
that fails here may hold at another size, and the other way round. *Not seen here* means that the effect, if there is
one, is smaller than the difference between two seeds.
"""

UNSOURCED = """## Common mistakes and rules of thumb

We know no particular source for these. You often hear them, or find them in code.
"""

NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
POWER = re.compile(r"(\d+(?:\.\d+)?) · 10(⁻?[⁰¹²³⁴⁵⁶⁷⁸⁹]+)")  # as in 4 · 10⁻³
DIGITS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")


@dataclass(frozen=True)
class Claim:
    """A claim, who says so and in which words, what was found, and the notebook and code cells that show it."""

    said: str
    verdict: str
    found: str
    notebook: str  # below notebooks/, without its ending
    cells: tuple[str, ...]
    source: str = ""  # the key of a work
    where: str = ""  # in that work
    quote: str = ""
    remark: str = ""  # about who says so, in Markdown


def claims(file: Path) -> list[Claim]:
    """Returns the claims in a file, in its order.

    Raises:
        ValueError: an entry lacks a key, has an unknown one, or has a verdict that is not in `VERDICTS`; a claim that
            fails or is quoted has no source; a common mistake has one; a quotation is long.
    """
    entries = tomllib.loads(file.read_text(encoding="utf-8"))["claim"]
    known = Claim.__dataclass_fields__
    wanted = [name for name, field in known.items() if field.default is MISSING]
    for entry in entries:
        if not set(wanted) <= set(entry) <= set(known):
            raise ValueError(
                f"a claim has {', '.join(wanted)}, perhaps others of {', '.join(known)}: {entry}"
            )
        if entry["verdict"] not in VERDICTS:
            raise ValueError(
                f"verdict={entry['verdict']!r} must be one of {', '.join(VERDICTS)}: {entry['said']}"
            )
    found = [Claim(**entry | {"cells": tuple(entry["cells"])}) for entry in entries]
    for claim in found:
        if not claim.source and (claim.verdict == "fails" or claim.where or claim.quote):
            raise ValueError(f"a claim that fails or is quoted needs a source: {claim.said}")
        if claim.source and claim.verdict == "mistake":
            raise ValueError(f"a common mistake has no source; with one, the claim fails: {claim.said}")
        if len(claim.quote.split()) > LONGEST_QUOTE:
            raise ValueError(f"a quotation has at most {LONGEST_QUOTE} words: {claim.quote}")
    return found


def authors(work: Entry) -> str:
    """Returns the authors and year of a work as a text cites it: "Press and Wolf 2017"."""
    persons, fields = cast("dict", work.persons), cast("dict", work.fields)
    names = [" ".join([*person.prelast_names, *person.last_names]) for person in persons["author"]]
    cited = f"{names[0]} et al." if len(names) > 2 or "others" in names else " and ".join(names)
    return f"{cited} {fields['year']}".replace("{", "").replace("}", "")


def says(claim: Claim, works: BibliographyData) -> str:
    """Returns who makes a claim, where and in which words, as Markdown; nothing if nobody does.

    Raises:
        ValueError: its source is none of the works.
    """
    if not claim.source:
        return claim.remark
    if claim.source not in works.entries:
        raise ValueError(f"references.bib has no {claim.source}: {claim.said}")
    link = f"[{authors(works.entries[claim.source])}](bibliography.md#{claim.source})"
    words = f": “{claim.quote}”" if claim.quote else ""
    stop = "" if claim.quote.endswith(".") else "."
    return " ".join(
        filter(None, [f"{', '.join(filter(None, [link, claim.where]))}{words}{stop}", claim.remark])
    )


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
    there = NUMBER.findall(text)
    powers = [
        number for number, *power in POWER.findall(claim.found) if f"{number}e{_exponent(*power)}" not in text
    ]
    return powers + [
        number for number in NUMBER.findall(POWER.sub("", claim.found)) if not _shown(number, there)
    ]


def _exponent(power: str) -> str:
    return f"{int(power.translate(DIGITS)):+03d}"


def _shown(number: str, there: list[str]) -> bool:
    """Returns whether one of the numbers there is this one; a number with decimals may be rounded, or lack zeros."""
    decimals = len(number.partition(".")[2])
    return number in there or any(
        decimals
        and one.count(".") == 1
        and f"{float(one.replace(',', '')):.{decimals}f}" == number.replace(",", "")
        for one in there
    )


def entry(claim: Claim, notebook: NotebookNode, works: BibliographyData, number: str = "") -> str:
    """Returns one claim of a notebook as Markdown.

    Args:
        claim: the claim.
        notebook: the notebook that it names.
        works: the bibliography.
        number: what comes before the heading in the link to the cell: the number of the chapter.

    Raises:
        ValueError: its source or its cells do not exist, or the cells do not show one of its numbers.
    """
    heading, text = place(claim, notebook)
    if missing := unshown(claim, text):
        raise ValueError(f"{claim.notebook}: no cell named by {claim.said!r} shows {', '.join(missing)}")
    link = f"../notebooks/{claim.notebook}.ipynb#{slug(heading)}"
    lines = [f"- **{VERDICTS[claim.verdict]}:** *{claim.said}*"]
    if who := says(claim, works):
        lines.append(f"  {who}")
    return "\n\n".join([*lines, f"  {claim.found} [{number}{heading}]({link})\n"])


def page(file: Path, notebooks: Path, references: Path) -> str:
    """Returns the ledger: claims with a source, chapter by chapter, then those without.

    Raises:
        ValueError: a claim is malformed, or its source or its cells do not support it.
    """
    every = claims(file)
    works = parse_file(str(references), bib_format="bibtex")
    counts = Counter(claim.verdict for claim in every)
    verdicts = ", ".join(f"{words.lower()} {counts[verdict]}" for verdict, words in VERDICTS.items())
    sourced = [claim for claim in every if claim.source]
    lines = [HEADING, f"Of {len(every)} claims, {len(sourced)} have a source. Verdicts: {verdicts}.\n"]
    for name, those in groupby(sourced, key=lambda claim: claim.notebook):
        notebook = nbformat.read(notebooks / f"{name}.ipynb", as_version=4)
        lines.append(f"## {re.findall(r'^# (.+)$', notebook.cells[0].source, re.MULTILINE)[0]}\n")
        lines += [entry(claim, notebook, works) for claim in those]
    lines.append(UNSOURCED)
    for claim in (claim for claim in every if not claim.source):
        number = f"{claim.notebook[:2]} · " if claim.notebook[:2].isdigit() else ""
        notebook = nbformat.read(notebooks / f"{claim.notebook}.ipynb", as_version=4)
        lines.append(entry(claim, notebook, works, number))
    return "\n".join(lines)
