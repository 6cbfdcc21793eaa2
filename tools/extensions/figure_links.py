"""A Sphinx extension that makes a figure's link to a notebook lead to that notebook's page.

MyST does this for links in a text. HTML that a cell displays is not changed, so there a link such as
``<a href="04-putting-order-in.ipynb">`` would open the file.
"""

from __future__ import annotations

import re

from docutils import nodes
from sphinx.application import Sphinx

TO_NOTEBOOK = re.compile(r'(<a\b[^>]*\bhref="[^":#]+)\.ipynb(?=[#"])')


def to_pages(html: str) -> str:
    """Returns the same HTML with links to nearby notebooks replaced by links to their pages."""
    return TO_NOTEBOOK.sub(r"\1.html", html)


def lead_to_pages(app: Sphinx, doctree: nodes.document) -> None:
    """Replaces the links of a page that has been read."""
    for raw in doctree.findall(nodes.raw):
        if raw.get("format") == "html":
            raw.children = [nodes.Text(to_pages(raw.astext()))]


def setup(app: Sphinx) -> dict:
    app.connect("doctree-read", lead_to_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
