"""A Sphinx extension that loads MathJax, two thirds of a first visit's bytes, only on pages with a formula.

Sphinx also loads it on a page if a page below it in the table of contents has a formula, because the formula might be
in a title. Every page is below the first one, so MathJax would be loaded there. Titles of this book have no formulas.
"""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.domains.math import MathDomain


class OwnFormulas(MathDomain):
    """Sphinx's domain of mathematics, where a page has only the formulas that are on it."""

    def has_equations(self, docname: str | None = None) -> bool:
        """Returns whether there is a formula on this page or, without a page, on any."""
        pages = self.data["has_equations"]
        return any(pages.values()) if docname is None else pages.get(docname, False)


def check_titles(app: Sphinx, doctree: nodes.document) -> None:
    """Checks that no title has a formula."""
    title = next(doctree.findall(nodes.title), None)
    if title is not None and any(title.findall(nodes.math)):
        raise ValueError(f"{title.astext()!r} has a formula, which pages without MathJax could not show")


def setup(app: Sphinx) -> dict:
    app.add_domain(OwnFormulas, override=True)
    app.connect("doctree-read", check_titles)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
