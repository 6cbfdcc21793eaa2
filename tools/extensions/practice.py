"""A Sphinx extension that lets readers do the exercises on the practice pages, without a kernel.

On a practice page, a cell that calls ``check("attention.scores", scores)`` gets a place with a field and buttons::

    <div class="practice" data-exercise="attention.scores" data-loads="" data-keep>

The field holds the cell's code without the call of ``check``. ``data-keep`` says that a later cell of the notebook
keeps the function in the reader's file, and ``data-loads`` names the shipped models that the judge loads. The hints and
the book's answer lie beside the field, as JSON, so they can be had without Python. book/site/practice/practice.js makes
the place work, and practice.css shows it instead of the cell where there is JavaScript. Without JavaScript the page is
as it would be without this extension.

An exercise about a library that a page cannot run gets a sentence that leads to JupyterLab instead.

The capstone's page has one field, in the place of the class ``Mine``, and a place with buttons for each cell that calls
``capstone.check`` or ``capstone.built``. These are about the code in the field.
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

from glassformer.chapters.ch15.capstone import commands as capstone
from glassformer.chapters.ch15.capstone.judge import STAGES
from glassformer.exercises import catalogue, messages
from glassformer.exercises.desk import ADAPTER
from glassformer.exercises.exercise import Exercise
from tools.extensions import browser_package, raw_html
from tools.extensions.prev_next import PRACTICE
from tools.extensions.raw_html import place
from tools.shared import where_to_run

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks" / "exercises"
CHAPTER = re.compile(rf"{PRACTICE}(\d\d)-")
SCRIPTS = (
    "kept.js", "panel.js", "python.js", "results.js", "field.js", "exercise.js", "capstone.js", "practice.js",
)  # fmt: skip
LIBRARIES = {"torch": "PyTorch"}
_PROGRESS = "../../book/progress.html"
START = "# capstone.start()"  # a cell, which a button stands for
HAS_BUTTON = re.compile(r"\s*(keep\(\w+\)|progress\(.*\))\s*")  # the page keeps a right answer by itself
STUCK = " · stuck? "  # as tools/shared/chapter_facts.py writes it
MORE_LINES = 3  # of a field, below its stub: room to write

PAGE = """\
<div class="practice-page" data-chapter="{chapter}" data-setup="{setup}"{python}>
<p class="practice-here">{here}</p>
<p>What you write stays in your browser. On this page, buttons take the place of JupyterLab’s commands: if a text says \
<code>hint(…)</code>, press <strong>Hint</strong>.</p>
<p id="practice-keys">In a field, {enter}<kbd>Tab</kbd> indents a line. To leave the field by keyboard, press \
<kbd>Esc</kbd> and then <kbd>Tab</kbd>.</p>
<div class="practice-buttons">
<button type="button" data-do="download">Download my_transformer.py</button>
<button type="button" data-do="open">Open a my_transformer.py</button>
</div>
</div>
"""
# What a reader can do on a page, by whether the site has Python for it
EXERCISES = {
    True: "You can do the exercises right here: your browser runs Python itself. Write your code in the fields below "
    f'and press <strong>Check</strong>. <a href="{_PROGRESS}">Your progress</a> lists what you have done.',
    False: "This copy of the book has no Python for its pages, so it cannot run or check your code. You can still "
    "write in the fields below and ask for hints and answers. To have your code checked, {elsewhere}.",
}
DESIGN = {
    True: "You can write your GPT right here, in NumPy: your browser runs Python itself. Put all of its code into the "
    "one field below, and press <strong>Check</strong> at the stage that you are working on. PyTorch does not run in a "
    "browser: to use it, and to train on a text of your own, {elsewhere}.",
    False: "This copy of the book has no Python for its pages, so it cannot run or check your code. You can still "
    "write your GPT in the field below and ask for hints. To have it checked, {elsewhere}.",
}
ENTER = "<kbd>Ctrl</kbd> + <kbd>Enter</kbd> {} your code, and "  # where the page has Python
ON_BINDER = '<a href="{}">open this notebook on Binder</a>, or in '
HERE = "open this notebook in "
IN_A_COPY = "JupyterLab, which <code>make lab</code> starts in a copy of the project"
TO_ADD_PYTHON = (
    " (If this copy is yours, <code>make python-for-the-page</code> and <code>make book</code> add it.)"
)
TEXTAREA = """\
<textarea class="practice-field" rows="{rows}" wrap="off" autocomplete="off" autocapitalize="off" spellcheck="false" \
aria-label="{label}" aria-describedby="practice-keys">{stub}</textarea>
"""
FIELD = """\
<div class="practice" data-exercise="{name}" data-loads="{loads}"{keep}>
{textarea}<div class="practice-buttons">
<button type="button" data-do="check">Check</button>
<button type="button" data-do="try">Try it</button>
<button type="button" data-do="hint">Hint</button>
<button type="button" data-do="reveal">Show the answer</button>
<button type="button" data-do="restart">Start over</button>
</div>
<script type="application/json" class="practice-help">{help}</script>
</div>
"""
CAPSTONE = """\
<div class="practice practice-design" data-loads="{loads}">
{textarea}<div class="practice-buttons">
<button type="button" data-do="try">Try it</button>
<button type="button" data-do="start">Begin with my own functions</button>
<button type="button" data-do="rules">What may I import?</button>
<button type="button" data-do="restart">Start over</button>
</div>
<script type="application/json" class="practice-help">{help}</script>
</div>
"""
STAGE = """\
<div class="practice" data-stage="{stage}">
{title}<div class="practice-buttons">
<button type="button" data-do="check">{check}</button>
{hint}</div>
<script type="application/json" class="practice-help">{help}</script>
</div>
"""
TITLE = "<p><strong>{number} · {stage}</strong>: {title}</p>\n"
HINT = '<button type="button" data-do="hint">Hint</button>\n'
BUILT = """\
<div class="practice" data-built>
<div class="practice-buttons">
<button type="button" data-do="built">Show what I have built</button>
</div>
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


def call_of_capstone(code: str) -> tuple[str, str] | None:
    """Returns the command that a cell calls for the reader's design, and the stage that it names, or ""."""
    match ast.parse(code).body:
        case [ast.Expr(ast.Call(ast.Attribute(ast.Name("capstone"), command), [ast.Name(name)]))]:
            return (command, "") if name == ADAPTER else None
        case [
            ast.Expr(ast.Call(ast.Attribute(ast.Name("capstone"), command), [ast.Constant(str(stage)), _]))
        ]:
            return command, stage
    return None


def add_places(app: Sphinx, doctree: nodes.document) -> None:
    """Adds the places to a practice page that has been read."""
    found = CHAPTER.match(app.env.docname)
    cells = list(_cells(doctree)) if found else []
    if found is None:
        return
    if any(task(code) for _, code in cells):
        _add_top(app, found[1], cells[0], EXERCISES, "checks")
        _add_exercises(cells)
    elif any(call_of_capstone(code) for _, code in cells):
        _add_top(app, found[1], cells[0], DESIGN, "runs")
        _add_capstone(cells)


def what_is_possible(words: dict[bool, str], repository: str | None, page: str, *, has_python: bool) -> str:
    """Returns the sentences at the top of a practice page, in HTML: what a reader of this very site can do there.

    Args:
        words: the sentences with and without Python in the page.
        repository: the address of the repository, or None if the project is not published.
        page: the name of the page, such as ``notebooks/exercises/03-practice``.
        has_python: whether the site has Python for its practice pages.
    """
    where = ON_BINDER.format(escape(where_to_run.binder(repository, f"{page}.ipynb"))) if repository else HERE
    said = words[has_python].format(elsewhere=where + IN_A_COPY)
    return said if has_python or repository else said + TO_ADD_PYTHON


def _add_top(app: Sphinx, chapter: str, first: tuple[Any, str], words: dict[bool, str], enter: str) -> None:
    cell, setup = first
    repository = app.config.html_theme_options.get("repository_url")
    has_python = browser_package.python() is not None
    here = what_is_possible(words, repository, app.env.docname, has_python=has_python)
    python = " data-python" * has_python
    enter = ENTER.format(enter) * has_python
    html = PAGE.format(chapter=chapter, setup=escape(setup), here=here, enter=enter, python=python)
    commands = _commands(cell)
    for one in commands:
        one["classes"].append("practice-cell")
    at = commands[0] if commands else cell
    at.parent.insert(at.parent.index(at), place(html=html))


def _add_capstone(cells: Sequence[tuple[Any, str]]) -> None:
    code_before = ""
    for cell, code in cells[1:]:
        called = call_of_capstone(code)
        if code == START:
            cell["classes"].append("practice-cell")
            # the sentences about it
            cell.parent[cell.parent.index(cell) - 1]["classes"].append("practice-cell")
        elif code.startswith(f"class {ADAPTER}:"):
            cell["classes"].append("practice-cell")
            textarea = _textarea(f"{code_before}\n\n\n{code}\n", "Your code for your GPT")
            help = _json({"rules": capstone.rules_panel().data()})
            _after(
                cell,
                CAPSTONE.format(loads=" ".join(browser_package.CAPSTONE_LOADS), textarea=textarea, help=help),
            )
        elif called is not None:
            cell["classes"].append("practice-cell")
            command, stage = called
            _after(cell, BUILT if command == "built" else _stage(stage))
        elif not code_before:  # where the notebook has the reader's own code
            cell["classes"].append("practice-cell")
            code_before = code


def _stage(stage: str) -> str:
    if not stage:
        return STAGE.format(stage="", title="", check="Check all stages", hint="", help=_json({"hints": []}))
    title = TITLE.format(number=capstone.number(stage), stage=stage, title=escape(STAGES[stage].words.title))
    with contextlib.chdir(NOTEBOOKS):
        help = _json({"hints": [panel.data() for panel in capstone.hints(stage)]})
    return STAGE.format(stage=stage, title=title, check="Check", hint=HINT, help=help)


def _add_exercises(cells: Sequence[tuple[Any, str]]) -> None:
    keeps = kept([code for _, code in cells])
    for cell, code in cells:
        asked = task(code)
        if HAS_BUTTON.fullmatch(code):
            cell["classes"].append("practice-cell")
        elif re.search(r"^keep\(", code, re.MULTILINE):  # what it showed was about the book's own function
            for output in cell[1:]:
                output["classes"].append("practice-cell")
        if asked is None:
            continue
        exercise = catalogue.find(asked.name)
        needs = [LIBRARIES[library] for library in exercise.needs]
        if needs:
            _after(cell, ELSEWHERE.format(library=" and ".join(needs)))
        else:
            cell["classes"].append("practice-cell")
            _after(cell, _field(asked, exercise, title=cell.parent[0].astext(), keep=asked.function in keeps))
            _hide_command(cell.parent, asked.name)


def _hide_command(section: nodes.Element, name: str) -> None:
    """Hides the command for a hint, which ends the line below an exercise's title, where a button takes its place."""
    for command in section.findall(nodes.literal):
        before: Any = command.parent[command.parent.index(command) - 1]
        if command.astext() == f'hint("{name}")' and before.astext().endswith(STUCK):
            before.parent.replace(before, nodes.Text(before.astext().removesuffix(STUCK)))
            hidden = nodes.inline("", STUCK, classes=["practice-cell"])
            command.replace_self(hidden)
            hidden.append(command)
            return


def _commands(first: nodes.container) -> list[Any]:
    """Returns the list of a notebook's commands above its first cell, after the sentence that introduces it."""
    for sentence, listed in pairwise(first.parent.children):
        if isinstance(listed, nodes.bullet_list) and "check(" in listed[0].astext():
            return [sentence, listed]
    return []


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
        textarea=_textarea(asked.stub, f"Your code for exercise {title}"),
        help=_json(_help(exercise)),
    )


def _textarea(stub: str, label: str) -> str:
    return TEXTAREA.format(rows=stub.count("\n") + MORE_LINES, label=escape(label), stub=escape(stub))


def _json(help: dict[str, Any]) -> str:
    """Returns data as JSON that can stand in a page."""
    return json.dumps(help).replace("</", "<\\/")


def _help(exercise: Exercise) -> dict[str, Any]:
    """Returns the panels that `hint` and `reveal` show, with links as in a practice notebook."""
    with contextlib.chdir(NOTEBOOKS):
        hints = [panel.data() for panel in messages.hints(exercise.prose)]
        return {"hints": hints, "answer": messages.answer(exercise).data()}


def _after(cell: Any, html: str) -> None:
    cell.parent.insert(cell.parent.index(cell) + 1, place(html=html))


def add_files(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Adds the scripts and the style to pages that have such a place, and to no others."""
    if page.startswith(PRACTICE) and doctree is not None and any(doctree.findall(place)):
        raw_html.add_files(app, SCRIPTS)


def setup(app: Sphinx) -> dict:
    app.setup_extension(raw_html.__name__)
    app.connect("doctree-read", add_places)
    app.connect("html-page-context", add_files)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
