"""A Sphinx extension that lets a heading of the fourth level fold what follows it, until the next heading.

A chapter asks the reader to predict, so the answer must not be visible at once::

    ```{code-cell} ipython3
    widgets.Predict.load("00", "hotter")
    ```

    #### What the temperature does

Everything after that heading is hidden until the reader opens it. On the site it is in ``<details>``, whose summary is
the heading; in JupyterLab it is below a collapsed heading (tools/notebooks.py). Such a heading may follow one of any
level, so the build must not warn about a missing level (``suppress_warnings`` in _config.yml). tests/site/test_pages.py
checks that no other heading leaves out a level.

If the cell before the heading is a prediction, the fold has its name, ``data-predict="00/hotter"``. The prediction's
view opens that fold, and book/site/widget-host.js opens it before anything is drawn if the reader has already seen it.
The line of code that loads the prediction is left out: JupyterLab needs it, but on a page it tells a reader nothing.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

PREDICTION = re.compile(r'\bPredict\.load\(\s*"(\w+)",\s*"([\w-]+)"\s*\)')


class fold(nodes.General, nodes.Element):  # noqa: N801 (docutils names nodes so)
    """A folded part of a page; its first child is the summary."""


class summary(nodes.General, nodes.TextElement):  # noqa: N801
    """The words that stay visible."""


class Fold(SphinxTransform):
    """Turns sections of the fourth level into folds, before any table of contents is made."""

    default_priority = 700  # docutils has given ids (260); Sphinx looks for contents at 880

    def apply(self, **kwargs: Any) -> None:
        """Replaces each such section by a fold with the same content and the same ids."""
        # Those of the fourth level are the ones to which MyST gives no slug (``myst_heading_anchors: 3``).
        for section in [part for part in self.document.findall(nodes.section) if "slug" not in part]:
            title, *content = section.children
            assert isinstance(title, nodes.title)
            heading = summary(title.rawsource, "", *title.children)
            folded = fold("", heading, *content, ids=section["ids"], names=section["names"])
            folded["predict"] = _prediction_before(section)
            section.replace_self(folded)


def _prediction_before(section: nodes.section) -> str:
    """Returns which prediction the cell before a section shows, such as "00/hotter", and takes its code off the page.

    If that cell shows none, it returns an empty string.
    """
    place = section.parent.index(section)
    before: Any = section.parent[place - 1] if place else section
    code = before.findall(nodes.literal_block) if "cell" in before.get("classes", []) else ()
    found = PREDICTION.search("\n".join(block.astext() for block in code))
    if not found:
        return ""
    for code in [part for part in before.children if "cell_input" in part.get("classes", [])]:
        before.remove(code)
    return "/".join(found.groups())


def open_fold(writer: Any, node: fold) -> None:
    named = {"data-predict": node["predict"]} if node["predict"] else {}
    writer.body.append(writer.starttag(node, "details", CLASS="fold", **named))


def close_fold(writer: Any, node: fold) -> None:
    writer.body.append("</details>\n")


def open_summary(writer: Any, node: summary) -> None:
    writer.body.append(writer.starttag(node, "summary", ""))


def close_summary(writer: Any, node: summary) -> None:
    writer.body.append("</summary>\n")


def setup(app: Sphinx) -> dict:
    app.add_node(fold, html=(open_fold, close_fold))
    app.add_node(summary, html=(open_summary, close_summary))
    app.add_transform(Fold)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
