"""A Sphinx extension for the others that put places into a page: HTML which search does not find.

Scripts of book/site/practice make most of them work.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx


class place(nodes.Invisible, nodes.Element):  # noqa: N801 (docutils names nodes so)
    """A place, `html`, that search does not find."""


def add_files(app: Sphinx, scripts: Sequence[str]) -> None:
    """Adds the style of places and these scripts to the page that is being written."""
    app.add_css_file("practice/practice.css")
    for script in scripts:
        app.add_js_file(f"practice/{script}", loading_method="defer")


def write(writer: Any, node: place) -> None:
    writer.body.append(node["html"])
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict:
    app.add_node(place, html=(write, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
