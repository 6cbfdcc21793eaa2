"""book/bibliography.md: the works in book/references.bib, as Markdown that the site and JupyterLab show alike.

Each entry has its key as its id, so that ``../book/bibliography.md#press2022train`` leads to it in both.
`make notebooks` writes the page anew when it is not what the references say.
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
    """Markdown that reads well as it is, too."""

    def format_str(self, text: str) -> str:
        """The text, in which only what would be taken for markup is escaped."""
        for special in "\\`*_[]<":
            text = text.replace(special, f"\\{special}")
        return text


def page(references: Path) -> str:
    """The page of the works in a file, in the order of their authors.

    Raises:
        pybtex.exceptions.PybtexError: the file is no BibTeX, or a work lacks what its kind must have.
    """
    works = Style().format_bibliography(parse_file(str(references), bib_format="bibtex"))
    written = {work.key: " ".join(work.text.render(Plain()).split()) for work in works}
    return "\n".join([HEADING, *(f'<a id="{key}"></a>{work}\n' for key, work in written.items())])
