"""A Sphinx extension for the page that shows readers what they have done: it puts all exercises there, as JSON.

book/site/practice/progress.js draws them with the marks that the browser keeps, as `progress()` does in a notebook.
"""

from __future__ import annotations

import json
import tomllib
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

from glassformer import contents
from glassformer.chapters.ch15.capstone.judge import STAGES
from glassformer.exercises.catalogue import of_chapter
from glassformer.widgets.predict import names
from tools.extensions import raw_html
from tools.extensions.raw_html import place

PAGE = "book/progress"
SCRIPTS = ("kept.js", "panel.js", "progress.js")

PLACE = """\
<div class="practice-progress">
<p>JupyterLab keeps a record of its own, in the file <code>progress.json</code>. You find it in
<code>~/.local/share/glassformer</code> on Linux, in <code>~/Library/Application Support/glassformer</code> on a Mac,
and in <code>%LOCALAPPDATA%\\glassformer</code> on Windows. Open that file here to add what you did there. The other
way round, download this browser’s record and put it in that folder.</p>
<div class="practice-buttons">
<button type="button" data-do="open">Open a progress.json</button>
<button type="button" data-do="download">Download progress.json</button>
</div>
<script type="application/json">{data}</script>
</div>
<noscript><p>Your progress is shown by JavaScript, which is off in this browser.</p></noscript>
"""


def chapters() -> list[dict[str, Any]]:
    """Returns every chapter with its exercises, the names of its predictions and its quiz."""
    return [
        {
            "number": page.number,
            "title": page.title,
            "minutes": page.minutes,
            "page": f"../notebooks/{page.name}.ipynb",
            "practice": f"../notebooks/{page.practice_name}.ipynb",
            "exercises": [
                {"name": one.name, "title": one.title, "stars": one.stars, "minutes": one.minutes}
                for one in of_chapter(page.number).values()
            ],
            "predictions": names(page.number),
            "quiz": _quiz(page.number),
        }
        for page in contents.chapters()
        if page.written
    ]


def stages() -> list[str]:
    """Returns the names under which a record has the stages of the capstone."""
    return [f"capstone.{stage}" for stage in STAGES]


def _quiz(number: str) -> dict[str, Any] | None:
    """Returns what is right in a chapter's quiz, and the question under which a browser keeps the answers.

    A chapter without a quiz has None.
    """
    file = contents.folder(number) / "quiz.toml"
    if not file.is_file():
        return None
    questions = tomllib.loads(file.read_text(encoding="utf-8"))["question"]
    right = [[i for i, one in enumerate(each["option"]) if one.get("correct")] for each in questions]
    return {"first": questions[0]["text"], "right": right}


def add_place(app: Sphinx, doctree: nodes.document) -> None:
    """Adds the place to the end of the page."""
    if app.env.docname == PAGE:
        data = json.dumps({"chapters": chapters(), "stages": stages()}).replace("</", "<\\/")
        next(doctree.findall(nodes.section)).append(place(html=PLACE.format(data=data)))


def add_files(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Adds the scripts and the style to this page alone."""
    if page == PAGE:
        raw_html.add_files(app, SCRIPTS)


def setup(app: Sphinx) -> dict:
    app.setup_extension(raw_html.__name__)
    app.connect("doctree-read", add_place)
    app.connect("html-page-context", add_files)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
