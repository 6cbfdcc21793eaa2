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

What the chapters cite, and where their claims come from. Each chapter's *Further reading* says what to look for in
which.
"""


class Plain(Backend):
    """A format that writes Markdown which is also readable as plain text."""

    def format_str(self, text: str) -> str:
        """Returns the text with only those characters escaped that Markdown would interpret."""
        for special in "\\`*_[]<":
            text = text.replace(special, f"\\{special}")
        return text


def page(references: Path) -> str:
    """Returns the page of the works in a file, sorted by author.

    Raises:
        pybtex.exceptions.PybtexError: the file is not BibTeX, or a work lacks a field that its type requires.
    """
    works = Style().format_bibliography(parse_file(str(references), bib_format="bibtex"))
    written = {work.key: " ".join(work.text.render(Plain()).split()) for work in works}
    return "\n".join([HEADING, *(f'<a id="{key}"></a>{work}\n' for key, work in written.items())])
