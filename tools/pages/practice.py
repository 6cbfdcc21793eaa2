"""A Sphinx extension that lets readers do the exercises on the practice pages, without a kernel.

On a practice page, a cell that calls ``check("attention.scores", scores)`` gets a place with a field and buttons::

    <div class="practice" data-exercise="attention.scores" data-loads="" data-keep>

The field holds the cell's code without the call of ``check``. ``data-keep`` says that a later cell of the notebook
keeps the function in the reader's file, and ``data-loads`` names the shipped models that the judge loads. The hints and
the book's answer lie beside the field, as JSON, so they can be had without Python. book/site/practice/practice.js makes
the place work, and practice.css shows it instead of the cell where there is JavaScript. Without JavaScript the page is
as it would be without this extension.

An exercise about a library that a page cannot run gets a sentence that leads to JupyterLab instead.
"""

from __future__ import annotations

import ast
import contextlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

from glassformer.exercises import catalogue, commands
from glassformer.exercises.exercise import Exercise
from tools.pages import places
from tools.pages.order import PRACTICE
from tools.pages.places import place

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks" / "exercises"
CHAPTER = re.compile(rf"{PRACTICE}(\d\d)-")
SCRIPTS = ("kept.js", "panel.js", "python.js", "results.js", "exercise.js", "practice.js")
LIBRARIES = {"torch": "PyTorch"}
_PROGRESS = "../../book/progress.html"
KEEP_ALONE = re.compile(r"\s*keep\(\w+\)\s*")
MORE_LINES = 3  # of a field, below its stub: room to write

PAGE = """\
<div class="practice-page" data-chapter="{chapter}" data-setup="{setup}">
<p>You can do the exercises right here. Write your code in the fields below and press <strong>Check</strong>: your \
browser runs Python itself, and what you write stays in your browser. <a href="{progress}">Your progress</a> lists \
what you have done. The commands below are those of JupyterLab.</p>
<p id="practice-keys">In a field, <kbd>Ctrl</kbd> + <kbd>Enter</kbd> checks your code, and <kbd>Tab</kbd> indents a \
line. To leave the field by keyboard, press <kbd>Esc</kbd> and then <kbd>Tab</kbd>.</p>
<div class="practice-buttons">
<button type="button" data-do="download">Download my_transformer.py</button>
<button type="button" data-do="open">Open a my_transformer.py</button>
</div>
</div>
"""
FIELD = """\
<div class="practice" data-exercise="{name}" data-loads="{loads}"{keep}>
<textarea class="practice-field" rows="{rows}" wrap="off" autocomplete="off" autocapitalize="off" spellcheck="false" \
aria-label="{label}" aria-describedby="practice-keys">{stub}</textarea>
<div class="practice-buttons">
<button type="button" data-do="check">Check</button>
<button type="button" data-do="try">Try it</button>
<button type="button" data-do="hint">Hint</button>
<button type="button" data-do="reveal">Show the answer</button>
<button type="button" data-do="restart">Start over</button>
</div>
<script type="application/json" class="practice-help">{help}</script>
</div>
"""
ELSEWHERE = """\
<div class="practice"><p>This exercise is about {library}, which does not run in a browser. Open this notebook in \
JupyterLab to do it: <code>make lab</code> in the folder of the book starts JupyterLab.</p></div>
"""


@dataclass(frozen=True)
class Task:
    """An exercise that a cell asks for: its name, the name of its function, and the cell's code without the check."""

    name: str
    function: str
    stub: str


def task(code: str) -> Task | None:
    """Returns what a cell's code asks for, or None if it checks nothing."""
    for statement in ast.parse(code).body:
        call = getattr(statement, "value", None)
        match call:
            case ast.Call(ast.Name("check"), [ast.Constant(str(name)), ast.Name(function)]):
                lines = code.splitlines()
                del lines[statement.lineno - 1 : statement.end_lineno]
                return Task(name, function, "\n".join(lines).rstrip() + "\n")
    return None


def kept(codes: Sequence[str]) -> set[str]:
    """Returns the names of the functions that cells keep."""
    return {name for code in codes for name in re.findall(r"^keep\((\w+)\)", code, re.MULTILINE)}


def add_places(app: Sphinx, doctree: nodes.document) -> None:
    """Adds the places to a practice page that has been read."""
    found = CHAPTER.match(app.env.docname)
    cells = list(_cells(doctree)) if found else []
    tasks = [(cell, task(code)) for cell, code in cells]
    if found is None or not any(asked for _, asked in tasks):
        return
    keeps = kept([code for _, code in cells])
    first, setup = cells[0]
    top = place(html=PAGE.format(chapter=found[1], setup=escape(setup), progress=_PROGRESS))
    first.parent.insert(first.parent.index(_commands(first)), top)
    for (cell, code), (_, asked) in zip(cells, tasks, strict=True):
        if KEEP_ALONE.fullmatch(code):  # the page keeps a right answer by itself
            cell["classes"].append("practice-cell")
        if asked is None:
            continue
        exercise = catalogue.find(asked.name)
        needs = [LIBRARIES[library] for library in exercise.needs]
        if needs:
            _after(cell, ELSEWHERE.format(library=" and ".join(needs)))
        else:
            cell["classes"].append("practice-cell")
            _after(cell, _field(asked, exercise, title=cell.parent[0].astext(), keep=asked.function in keeps))


def _commands(first: nodes.container) -> nodes.Node:
    """Returns the sentence that introduces a notebook's commands, or the first cell if no list of them is above it."""
    for sentence, listed in pairwise(first.parent.children):
        if isinstance(listed, nodes.bullet_list):
            return sentence
    return first


def _cells(doctree: nodes.document) -> Iterator[tuple[Any, str]]:
    """Yields the cells of a page with their code."""
    for cell in doctree.findall(nodes.container):
        if cell.get("nb_element") == "cell_code":
            yield cell, "\n".join(block.astext() for block in cell[0].findall(nodes.literal_block))


def _field(asked: Task, exercise: Exercise, *, title: str, keep: bool) -> str:
    return FIELD.format(
        name=escape(asked.name),
        loads=" ".join(exercise.loads),
        keep=" data-keep" * keep,
        rows=asked.stub.count("\n") + MORE_LINES,
        label=escape(f"Your code for exercise {title}"),
        stub=escape(asked.stub),
        help=json.dumps(_help(exercise)).replace("</", "<\\/"),
    )


def _help(exercise: Exercise) -> dict[str, Any]:
    """Returns the panels that `hint` and `reveal` show, with links as in a practice notebook."""
    with contextlib.chdir(NOTEBOOKS):
        hints = [panel.data() for panel in commands.hints(exercise.prose)]
        return {"hints": hints, "answer": commands.answer(exercise).data()}


def _after(cell: Any, html: str) -> None:
    cell.parent.insert(cell.parent.index(cell) + 1, place(html=html))


def add_files(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Adds the scripts and the style to pages that have such a place, and to no others."""
    if page.startswith(PRACTICE) and doctree is not None and any(doctree.findall(place)):
        places.add_files(app, SCRIPTS)


def setup(app: Sphinx) -> dict:
    app.setup_extension(places.__name__)
    app.connect("doctree-read", add_places)
    app.connect("html-page-context", add_files)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
