"""Writes book/bibliography.md: the works in book/references.bib, as Markdown for both the site and JupyterLab.

The id of each entry is its key, so ``../book/bibliography.md#press2022train`` works in both. If the references have
changed, `make notebooks` writes the page again.
"""

from __future__ import annotations

from pathlib import Path

from pybtex.backends.markdown import Backend
from pybtex.database import parse_file
from pybtex.style.formatting.plain import Style

HEADING = """# Bibliography

The works that the book cites, in the order of their authors. Each chapter's *Further reading* says what to look for in
which. A work that only the glossary or the claims ledger mentions has a note here.
"""


class Plain(Backend):
    """A format that writes Markdown which is also readable as plain text."""

    def format_str(self, text: str) -> str:
        """Returns the text with only those characters escaped that Markdown would interpret."""
        for special in "\\`*_[]<":
            text = text.replace(special, f"\\{special}")
        return text


def page(references: Path) -> str:
    """Returns the page of the works in a file, sorted by author, each with its note (``annote``) if it has one.

    Raises:
        pybtex.exceptions.PybtexError: the file is not BibTeX, or a work lacks a field that its type requires.
    """
    known = parse_file(str(references), bib_format="bibtex")
    lines = [HEADING]
    for work in Style().format_bibliography(known):
        note = known.entries[work.key].fields.get("annote")
        words = " ".join(work.text.render(Plain()).split())
        lines.append(f'<a id="{work.key}"></a>{words}{f" *{note}*" if note else ""}\n')
    return "\n".join(lines)
