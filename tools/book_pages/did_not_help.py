"""Writes book/did-not-help.md: what we tried and what gained little or nothing, with the numbers that a cell shows.

As in the claims ledger (claims.py), each number of an entry in `book/did-not-help.toml` must occur in the cells that it
names. `make notebooks` writes the page.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import nbformat

from tools.book_pages.claims import Claim, place, unshown
from tools.extensions.anchors import slug


def page(file: Path, notebooks: Path) -> str:
    """Returns the page that a file describes: a table, then the entries.

    Raises:
        ValueError: the cells that an entry names do not exist, or do not show one of its numbers.
    """
    about = tomllib.loads(file.read_text(encoding="utf-8"))
    table, entries = ["| We tried | Result |", "| --- | --- |"], []
    for group in about["group"]:
        entries.append(f"## {group['title']}")
        for one in group["entry"]:
            name = one["notebook"]
            says = f"{one['result']} {one['found']}"
            claim = Claim(one["tried"], "not here", says, name, tuple(one["cells"]))
            notebook = nbformat.read(notebooks / f"{name}.ipynb", as_version=4)
            heading, text = place(claim, notebook)
            if missing := unshown(claim, text):
                raise ValueError(f"{name}: no cell named by {one['tried']!r} shows {', '.join(missing)}")
            where = name[:2] if name[:2].isdigit() else notebook.cells[0].source.splitlines()[0].strip("# ")
            link = f"[{where} · {heading}](../notebooks/{name}.ipynb#{slug(heading)})"
            entries += [f"### {one['tried']}", f"{one['found']} {link}", one["means"]]
            table.append(f"| [{one['tried']}](#{slug(one['tried'])}) | {one['result']} |")
    return "\n\n".join([about["heading"].strip(), "\n".join(table), *entries]) + "\n"
