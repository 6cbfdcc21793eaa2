"""A Sphinx extension that makes "chapter 11" a link on the pages in ``book/``.

Notebooks have such links already: tools/notebooks.py makes them, so that JupyterLab has them as well.
"""

from __future__ import annotations

from sphinx.application import Sphinx

from tools.mentions import linked


def add_links(app: Sphinx, page: str, source: list[str]) -> None:
    """Adds the links to a page's Markdown before it is read."""
    if page.startswith("book/"):
        source[0] = linked(source[0], lambda chapter: f"../notebooks/{chapter.name}.ipynb")


def setup(app: Sphinx) -> dict:
    app.connect("source-read", add_links)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
