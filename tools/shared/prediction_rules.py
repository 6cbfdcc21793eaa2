"""The rules for predictions: in a chapter's text, nothing shows what came out before a reader has answered.

`broken` yields the rules that the text of a chapter breaks; tests/test_predictions.py calls it for every chapter, and
for small texts that break one rule each. An answer is looked for as it is written: as a number with two digits or more,
or as the words of the right option. A paraphrase passes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise, takewhile
from typing import Any, NamedTuple

from markdown_it import MarkdownIt
from nbformat import NotebookNode

from glassformer.widgets.predict import Predict

MOST = 6
LOAD = re.compile(r'(?:widgets\.)?Predict\.load\(\s*"([^"]*)",\s*"([^"]*)"\s*\)')
CAME_OUT = re.compile(r'\bPredict\.came_out\(\s*"([^"]*)",\s*"([^"]*)"')
FOLD = 4  # the level of the headings that fold what follows them


class Fold(NamedTuple):
    """The cells that one heading of the fourth level folds, and what comes after them: none at the end of a page."""

    heading: str
    cells: list[NotebookNode]
    after: list[NotebookNode]


def headings(cell: NotebookNode) -> list[tuple[int, str]]:
    """Returns the level and the words of each heading of a cell, also of those in quotes and lists."""
    tokens = MarkdownIt().parse(cell.source) if cell.cell_type == "markdown" else []
    return [
        (int(one.tag[1:]), words.content) for one, words in pairwise(tokens) if one.type == "heading_open"
    ]


def folds(cells: list[NotebookNode]) -> dict[int, Fold]:
    """Returns the folds of a chapter, whose cells are split as tools/notebooks.py does, by the place of the heading."""
    found = {}
    for place, cell in enumerate(cells):
        level, words = _begins_with(cell)
        if level == FOLD:
            rest = cells[place + 1 :]
            inside = list(takewhile(lambda one: not 0 < _begins_with(one)[0] <= FOLD, rest))
            found[place] = Fold(words, inside, rest[len(inside) :])
    return found


def _begins_with(cell: NotebookNode) -> tuple[int, str]:
    """Returns the heading with which a cell begins, or an empty one of level 0."""
    level, words = next(iter(headings(cell)), (0, ""))
    return (level, words) if level and cell.source.lstrip().startswith(("#", words)) else (0, "")


def broken(number: str, cells: list[NotebookNode], tables: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yields the rules that a chapter breaks, each with the prediction and the text that breaks it.

    Args:
        number: the number of the chapter.
        cells: the cells of its text, from `tools.notebooks.read_text`.
        tables: the predictions in its ``predictions.toml``, by name.
    """
    if len(tables) > MOST:
        yield f"too many: {len(tables)} predictions, but a chapter has at most {MOST}"
    loads = [
        (place, pair)
        for place, cell in enumerate(cells)
        if cell.cell_type == "code"
        for pair in LOAD.findall(cell.source)
    ]
    every = folds(cells)
    hidden = {id(cell) for fold in every.values() for cell in fold.cells}
    for name, table in tables.items():
        places = [place for place, pair in loads if pair == (number, name)]
        if len(places) != 1:
            yield f"[{name}]: its table is in predictions.toml, and {len(places)} cells load it, not one"
            continue
        cell, fold = cells[places[0]], every.get(places[0] + 1)
        if not LOAD.fullmatch(cell.source.strip()):
            yield f"[{name}]: its cell does more than load it: {cell.source[:60]!r}"
        if id(cell) in hidden:
            yield f"[{name}]: it is inside another fold, where nobody sees the question"
        if fold is None:
            yield f"[{name}]: the cell that loads it is not followed by a heading of the fourth level"
            continue
        prediction = Predict(table, name=name, chapter=number)
        yield from (f"[{name}]: {fault}" for fault in _faults_of(fold, prediction, (number, name)))
        said = _ways_to_write(prediction)
        before = [one for one in cells[: places[0]] if id(one) not in hidden]
        for what, text in _seen(fold, before, [one for one in cells if id(one) not in hidden]):
            plain = text.replace("\N{NO-BREAK SPACE}", " ").replace("−", "-")
            if any(re.search(rf"(?<![\w.,-]){re.escape(way)}(?![\w%]|[.,]\d)", plain, re.I) for way in said):
                yield f"[{name}]: {what} gives the answer away, {' or '.join(sorted(said))}: {text[:70]!r}"


def _faults_of(fold: Fold, prediction: Predict, names: tuple[str, str]) -> Iterator[str]:
    for cell in fold.cells:
        for _, words in headings(cell):
            yield f"the heading {words!r} is inside its fold"
    if not any(cell.cell_type == "markdown" for cell in fold.cells):
        yield "its fold has no comment, which must appear together with what came out"
    if not fold.after:
        yield "no heading ends its fold"
    held = [pair for cell in fold.cells if cell.cell_type == "code" for pair in CAME_OUT.findall(cell.source)]
    if prediction.answer and names not in held:
        yield f'no cell in its fold calls Predict.came_out("{names[0]}", "{names[1]}", …), which holds the answer'


def _ways_to_write(prediction: Predict) -> set[str]:
    """Returns the texts that would give an answer away: its number, also in per cent, or the words of its option."""
    answer: Any = prediction.answer
    if prediction.kind == "choice" and answer:
        return {prediction.options[answer[0]]}
    if prediction.kind not in ("number", "point") or not answer:
        return set()
    value, digits = answer[0], prediction.digits
    ways = {f"{value:.{digits}f}", f"{value:,.{digits}f}"}
    if 0 < value < 1 and not prediction.unit:
        ways |= {f"{100 * value:.{max(digits - 2, 0)}f}{space}%" for space in ("", " ")}
    return {way for way in ways if len(re.sub(r"\D", "", way).lstrip("0")) > 1}  # a "4" is in too many texts


def _seen(fold: Fold, before: list[NotebookNode], all_shown: list[NotebookNode]) -> Iterator[tuple[str, str]]:
    """Yields what a reader may see before opening a fold: headings, what follows it, and the code before it."""
    yield "the heading of its fold", fold.heading
    for cell in fold.after[:1]:
        yield "the text right after its fold", cell.source.partition("\n")[2].lstrip("=-\n ").split("\n\n")[0]
    for level, words in (heading for cell in all_shown for heading in headings(cell)):
        if level < FOLD:
            yield "a heading", words
    for cell in before:
        for text in _constants(cell.source) if cell.cell_type == "code" else ():
            yield "a title, a caption or an argument in an earlier cell", text


def _constants(source: str) -> Iterator[str]:
    """Yields the texts in a cell's code, and the numbers that it passes to views, as they are written."""
    for node in ast.walk(ast.parse(re.sub(r"^[%!].*$", "", source, flags=re.MULTILINE))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("widgets."):
            for value in [*node.args, *(word.value for word in node.keywords)]:
                if isinstance(value, ast.Constant) and isinstance(value.value, int | float):
                    yield ast.unparse(value)
