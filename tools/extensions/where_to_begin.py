"""A Sphinx extension for the page whose questions tell a reader where to begin.

It makes a form of book/where-to-begin.toml. Without JavaScript, readers can still go through the questions;
book/site/where-to-begin.js says what the answers mean.
"""

from __future__ import annotations

import json
import re
import tomllib
from html import escape
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

from glassformer import contents
from tools.extensions import raw_html
from tools.extensions.raw_html import place
from tools.shared.routes import ROOT

PAGE = "book/where-to-begin"
UNKNOWN = "I don’t know"
FORM = """\
<form class="begin">{questions}
<p><button type="submit">Where should I begin?</button>
<button type="reset">Start again</button></p>
<div class="begin-result" role="status" tabindex="-1"></div>
<script type="application/json">{data}</script>
</form>
<noscript><p>JavaScript is off in this browser, so it cannot add up your answers. Begin with the first chapter of the
book that has something new for you.</p></noscript>
"""
QUESTION = """
<fieldset><legend><span>{number}</span> {text}</legend>{options}<p class="practice-panel" hidden></p></fieldset>"""
OPTION = '<label><input type="radio" name="q{number}" value="{value}"> <span>{text}</span></label>'


def form() -> str:
    """Returns the form, and what its script needs to know."""
    table = tomllib.loads((ROOT / "book" / "where-to-begin.toml").read_text(encoding="utf-8"))["question"]
    written = ""
    for number, one in enumerate(table, 1):
        texts = [*enumerate(one["options"]), (-1, UNKNOWN)]
        options = "".join(OPTION.format(number=number, value=i, text=_with_code(text)) for i, text in texts)
        written += QUESTION.format(number=number, text=_with_code(one["text"]), options=options)
        chapter = contents.chapter(one["chapter"])
        one |= {"chapter": chapter.heading, "page": f"../notebooks/{chapter.name}.html"}
    return FORM.format(questions=written, data=json.dumps(table).replace("</", "<\\/"))


def _with_code(text: str) -> str:
    """Returns a text as HTML, with what is between backticks as code."""
    return re.sub("`(.+?)`", r"<code>\1</code>", escape(text))


def add_place(app: Sphinx, doctree: nodes.document) -> None:
    """Adds the form to the end of the page."""
    if app.env.docname == PAGE:
        next(doctree.findall(nodes.section)).append(place(html=form()))


def add_files(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Adds the script to this page alone."""
    if page == PAGE:
        raw_html.add_files(app, ["kept.js", "panel.js"])
        app.add_js_file("where-to-begin.js", loading_method="defer")


def setup(app: Sphinx) -> dict:
    app.setup_extension(raw_html.__name__)
    app.connect("doctree-read", add_place)
    app.connect("html-page-context", add_files)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
