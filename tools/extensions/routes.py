"""A Sphinx extension that lets a page lead along a route through the book: ``03-attention.html?route=evening``.

On the first page, links that a comment ``<!-- route evening -->`` follows begin that route. The table of all routes is
written for the site. A page that is opened on a route loads it, and book/site/routes.js.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

from tools.shared.routes import routes

TABLE = "route-table.js"
MARK = re.compile(r"<!-- route (\w+) -->")


def write_table(app: Sphinx) -> None:
    """Writes the table of all routes beside the site's scripts."""
    folder = Path(app.outdir) / "_static"
    folder.mkdir(parents=True, exist_ok=True)
    data = json.dumps({one.name: asdict(one) for one in routes()}, ensure_ascii=False)
    (folder / TABLE).write_text(f"window.glassformerRoutes = {data};\n", encoding="utf-8")


def begin(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Puts the route into each link that is marked."""
    for raw in list(doctree.findall(nodes.raw)):
        if found := MARK.fullmatch(raw.astext()):
            link: Any = raw.parent[raw.parent.index(raw) - 1]
            link["refuri"] = f"{link['refuri'] or f'{Path(page).name}.html'}?route={found[1]}"
            raw.parent.remove(raw)


def add_table(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Adds the table to the page that shows how far a reader is on each route."""
    if page == "book/progress":
        app.add_js_file(TABLE, loading_method="defer")


def setup(app: Sphinx) -> dict:
    app.connect("builder-inited", write_table)
    app.connect("doctree-resolved", begin)
    app.connect("html-page-context", add_table, priority=400)  # before the scripts that use the table
    return {"parallel_read_safe": True, "parallel_write_safe": True}
