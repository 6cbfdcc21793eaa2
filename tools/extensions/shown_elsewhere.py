"""A Sphinx extension that shows on book/words.md what notebooks have stored: figures, and views with their state.

The page is plain Markdown, in which a comment says which cell of which notebook shows it (tools/book_pages/words.py).
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, cast

import nbformat
from docutils import nodes
from myst_nb.sphinx_ import NbMetadataCollector
from sphinx.application import Sphinx

from tools.book_pages.words import PICTURE, cell_of
from tools.extensions import noscript
from tools.extensions.figure_links import to_pages
from tools.extensions.raw_html import place
from tools.notebooks import WIDGET_STATE, WIDGET_VIEW

COMMENT = re.compile(re.escape(PICTURE).replace(r"\{\}", "(.+?)"))
VIEW = f'<script type="{WIDGET_VIEW}">{{}}</script>'


def show(app: Sphinx, doctree: nodes.document) -> None:
    """Puts what the cells show in the place of the comments of a page that has been read."""
    states: dict = {}
    for raw in list(doctree.findall(nodes.raw)):
        if not (found := COMMENT.fullmatch(raw.astext().strip())):
            continue
        file = Path(app.srcdir) / "notebooks" / f"{found[1]}.ipynb"
        notebook = nbformat.read(file, as_version=4)
        data = notebook.cells[cell_of(notebook, found[2])].outputs[-1].data
        if view := data.get(WIDGET_VIEW):
            states |= notebook.metadata.widgets[WIDGET_STATE]["state"]
            html = noscript.SENTENCE.format(noscript.NO_VIEW) + VIEW.format(json.dumps(view))
        else:
            html = to_pages(re.sub(r'href="(?=\d\d-)', 'href="../notebooks/', data["text/html"]))
        raw.replace_self(place(html=f'<div class="cell"><div class="cell_output">{html}</div></div>'))
    if states:  # all of each notebook's, of which tools/extensions/view_code.py keeps only what is shown
        body = json.dumps({"state": states}).replace("</", "<\\/")
        env, script = cast("Any", app.env), {"type": WIDGET_STATE, "body": body}
        NbMetadataCollector.add_js_file(env, env.docname, "ipywidgets_state", None, script)


def setup(app: Sphinx) -> dict:
    app.setup_extension(noscript.__name__)
    app.connect("doctree-read", show)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
