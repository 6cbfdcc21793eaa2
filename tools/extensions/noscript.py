"""A Sphinx extension that adds a sentence for browsers that run no JavaScript.

Without JavaScript, interactive drawings do not work, so a sentence replaces each of them, and its question replaces a
prediction.
"""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

from tools.extensions import raw_html
from tools.extensions.raw_html import place
from tools.notebooks import WIDGET_STATE, WIDGET_VIEW

VIEW = f'<script type="{WIDGET_VIEW}">'
NO_VIEW = "Here is something to move with your hands. It needs JavaScript, which is off in this browser."
NO_ANSWER = (
    "Decide, then open what follows. JavaScript is off in this browser, so your answer cannot be kept here."
)
SENTENCE = '<noscript><p class="scriptless">{}</p></noscript>\n'


def add_sentences(app: Sphinx, doctree: nodes.document) -> None:
    """Adds the sentences to a page that has been read."""
    views = [node for node in doctree.findall(nodes.raw) if VIEW in node.astext()]
    stored = _stored(Path(app.env.doc2path(app.env.docname))) if views else {}
    for view in views:
        model = json.loads(view.astext().partition(">")[2].partition("<")[0])["model_id"]
        html = SENTENCE.format(_instead_of(stored.get(model, {})))
        view.parent.insert(view.parent.index(view), place(html=html))


def _stored(notebook: Path) -> dict[str, dict[str, Any]]:
    """Returns the state of every view that a notebook has stored, by its id."""
    metadata = json.loads(notebook.read_text(encoding="utf-8"))["metadata"]
    models = metadata.get("widgets", {}).get(WIDGET_STATE, {}).get("state", {})
    return {model: kept["state"] for model, kept in models.items()}


def _instead_of(view: dict[str, Any]) -> str:
    """Returns the sentence for a view: a prediction can be made in one's head, so its question is there."""
    if not view.get("_anywidget_id", "").endswith(".Predict"):
        return NO_VIEW
    options = f" ({'; '.join(view['options'])})" if view["options"] else ""
    return escape(f"{view['question']}{options} {NO_ANSWER}")


def setup(app: Sphinx) -> dict:
    app.setup_extension(raw_html.__name__)
    app.connect("doctree-read", add_sentences)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
