"""A Sphinx extension: MathJax, two thirds of what a first visit loads, only where the page itself has a formula.

Sphinx loads it also where a page below in the table of contents has one, in case a title does. No title of ours may,
and every page is below the first.
"""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.domains.math import MathDomain


class OwnFormulas(MathDomain):
    """Sphinx's domain of mathematics; a page has the formulas that are on it."""

    def has_equations(self, docname: str | None = None) -> bool:
        """Returns whether there is a formula on this page, or, without a page, on any."""
        pages = self.data["has_equations"]
        return any(pages.values()) if docname is None else pages.get(docname, False)


def check_titles(app: Sphinx, doctree: nodes.document) -> None:
    """Hold the promise above."""
    title = next(doctree.findall(nodes.title), None)
    if title is not None and any(title.findall(nodes.math)):
        raise ValueError(f"{title.astext()!r} has a formula, which pages without MathJax could not show")


def setup(app: Sphinx) -> dict:
    app.add_domain(OwnFormulas, override=True)
    app.connect("doctree-read", check_titles)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
