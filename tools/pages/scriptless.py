"""A Sphinx extension that adds a sentence for browsers that run no JavaScript.

Without JavaScript, interactive drawings do not work and formulas stay TeX. So one sentence replaces each drawing, and
another is above the text of a page with formulas.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

VIEW = '<script type="application/vnd.jupyter.widget-view+json">'
NO_VIEW = "Here is something to move with your hands. It needs JavaScript, which is off in this browser."
NO_FORMULAS = (
    "Formulas stand here as they are written, in TeX: what sets them needs JavaScript, which is off."
)


class scriptless(nodes.Invisible, nodes.Element):  # noqa: N801 (docutils names nodes so)
    """A sentence, `words`, for browsers without JavaScript; search does not find it."""


def add_sentences(app: Sphinx, doctree: nodes.document) -> None:
    """Adds the sentences to a page that has been read."""
    for view in list(doctree.findall(nodes.raw)):
        if VIEW in view.astext():
            view.parent.insert(view.parent.index(view), scriptless(words=NO_VIEW))
    title = next(doctree.findall(nodes.title), None)
    if title is not None and any(
        isinstance(node, nodes.math | nodes.math_block) for node in doctree.findall()
    ):
        title.parent.insert(1, scriptless(words=NO_FORMULAS))


def write(writer: Any, node: scriptless) -> None:
    writer.body.append(f'<noscript><p class="scriptless">{node["words"]}</p></noscript>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict:
    app.add_node(scriptless, html=(write, None))
    app.connect("doctree-read", add_sentences)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
