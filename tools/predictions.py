"""The rules for predictions: in a chapter's text, nothing shows what came out before a reader has answered.

A chapter whose folder has ``predictions.toml`` asks its questions with `widgets.Predict`. Other chapters still ask in a
block quote, ``> **Predict.** …``. `broken` lists the rules that the text of a chapter breaks; tests/test_predictions.py
calls it for every chapter, and for small texts that break one rule each.

An answer is looked for as it is written: as a number with two digits or more, or as the words of the right option. A
paraphrase passes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from markdown_it import MarkdownIt
from nbformat import NotebookNode

from glassformer.widgets.predict import Predict

MOST = 6
OLD_STYLE = re.compile(r"^\s*>\s*\*\*Predict\.?\*\*", re.MULTILINE)
LOAD = re.compile(r'(?:widgets\.)?Predict\.load\(\s*"([^"]*)",\s*"([^"]*)"\s*\)')
CAME_OUT = re.compile(r'\bPredict\.came_out\(\s*"([^"]*)",\s*"([^"]*)"')
HTML_HEADING = re.compile(r"<h[1-6]\b", re.IGNORECASE)
FOLD = 4  # the level of the headings that fold what follows them


@dataclass
class Fold:
    """The cells that one heading of the fourth level folds.

    Attributes:
        heading: the words of the heading.
        cells: what is folded: all cells up to the next heading.
        after: the cell that begins with the next heading, or None at the end of the page.
        place: the index of the fold's own heading among the cells of the notebook.
    """

    heading: str
    place: int
    cells: list[NotebookNode] = field(default_factory=list)
    after: NotebookNode | None = None


def headings(cell: NotebookNode) -> list[tuple[int, str]]:
    """Returns the level and the words of each heading of a cell, also of those in quotes and lists."""
    if cell.cell_type != "markdown":
        return []
    tokens = MarkdownIt().parse(cell.source)
    found = [
        (int(token.tag[1:]), words.content)
        for token, words in pairwise(tokens)
        if token.type == "heading_open"
    ]
    return found + [(0, line) for line in cell.source.splitlines() if HTML_HEADING.search(line)]


def folds(cells: list[NotebookNode]) -> list[Fold]:
    """Returns the folds of a chapter, whose cells are split as tools/notebooks.py does."""
    found: list[Fold] = []
    open_fold = None
    for place, cell in enumerate(cells):
        here = headings(cell)
        first = here[0] if here and cell.source.lstrip().startswith(("#", here[0][1])) else None
        if first and open_fold and 0 < first[0] <= FOLD:
            open_fold.after, open_fold = cell, None
        if first and first[0] == FOLD:
            open_fold = Fold(first[1], place)
            found.append(open_fold)
        elif open_fold:
            open_fold.cells.append(cell)
    return found


def broken(number: str, cells: list[NotebookNode], tables: dict[str, dict[str, Any]]) -> list[str]:
    """Returns the rules that a chapter breaks, each with the prediction and the text that breaks it.

    Args:
        number: the number of the chapter.
        cells: the cells of its text, from `tools.notebooks.read_text`.
        tables: the predictions in its ``predictions.toml``, by name.
    """
    return list(_broken(number, cells, tables))


def _broken(number: str, cells: list[NotebookNode], tables: dict[str, dict[str, Any]]) -> Iterator[str]:
    for cell in cells:
        if cell.cell_type == "markdown" and OLD_STYLE.search(cell.source):
            yield f"old style: a chapter with predictions.toml asks with widgets.Predict, not {cell.source[:60]!r}"
    if len(tables) > MOST:
        yield f"too many: {len(tables)} predictions, but a chapter has at most {MOST}"
    loads = [
        (place, *pair)
        for place, cell in enumerate(cells)
        if cell.cell_type == "code"
        for pair in LOAD.findall(cell.source)
    ]
    for _, chapter, name in loads:
        if chapter != number:
            yield f"[{name}]: chapter {number} loads it from chapter {chapter!r}"
    loaded = [name for _, _, name in loads]
    for name in sorted(set(loaded) - set(tables)):
        yield f"[{name}]: it is loaded, but predictions.toml has no such table"
    for name in tables:
        if loaded.count(name) != 1:
            yield f"[{name}]: its table is in predictions.toml, and {loaded.count(name)} cells load it, not one"
    by_place = {fold.place: fold for fold in folds(cells)}
    hidden = {id(cell) for fold in by_place.values() for cell in fold.cells}
    for place, _, name in loads:
        if name not in tables:
            continue
        if not LOAD.fullmatch(cells[place].source.strip()):
            yield f"[{name}]: its cell does more than load it: {cells[place].source[:60]!r}"
        fold = by_place.get(place + 1)
        if fold is None:
            yield f"[{name}]: the cell that loads it is not followed by a heading of the fourth level"
            continue
        if id(cells[place]) in hidden:
            yield f"[{name}]: it is inside another fold, where nobody sees the question"
        prediction = Predict(tables[name], name=name, chapter=number)
        yield from _fold_breaks(number, name, prediction, fold)
        yield from _given_away(name, prediction, fold, cells, hidden)


def _fold_breaks(number: str, name: str, prediction: Predict, fold: Fold) -> Iterator[str]:
    for cell in fold.cells:
        for _, words in headings(cell):
            yield f"[{name}]: the heading {words!r} is inside its fold"
    if not any(cell.cell_type == "markdown" for cell in fold.cells):
        yield f"[{name}]: its fold has no comment, which must appear together with what came out"
    if fold.after is None:
        yield f"[{name}]: no heading ends its fold"
    held = [pair for cell in fold.cells if cell.cell_type == "code" for pair in CAME_OUT.findall(cell.source)]
    if prediction.answer and (number, name) not in held:
        yield f'[{name}]: no cell in its fold calls Predict.came_out("{number}", "{name}", …), which holds the answer'
    if not prediction.answer and held:
        yield f"[{name}]: it has no answer that Predict.came_out could compare"


def _given_away(
    name: str, prediction: Predict, fold: Fold, cells: list[NotebookNode], hidden: set[int]
) -> Iterator[str]:
    """Yields each text that a reader sees before the answer and that repeats it."""
    said = _ways_to_write(prediction)
    for what, text in [("the heading of its fold", fold.heading), *_seen(fold, cells, hidden)]:
        plain = text.replace("\N{NO-BREAK SPACE}", " ").replace("−", "-")
        if any(
            re.search(rf"(?<![\w.,-]){re.escape(way)}(?![\w%]|[.,]\d)", plain, re.IGNORECASE) for way in said
        ):
            yield f"[{name}]: {what} gives the answer away, {' or '.join(sorted(said))}: {text[:70]!r}"


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


def _seen(fold: Fold, cells: list[NotebookNode], hidden: set[int]) -> Iterator[tuple[str, str]]:
    """Yields what a reader may see before opening a fold: headings, what follows it, and the code before it."""
    if fold.after is not None:
        _, _, rest = fold.after.source.partition("\n")
        yield "the text right after its fold", rest.lstrip("=-\n ").split("\n\n")[0]
    for place, cell in enumerate(cells):
        if id(cell) in hidden:
            continue
        for level, words in headings(cell):
            if 0 < level < FOLD:
                yield "a heading", words
        if cell.cell_type == "code" and place < fold.place:
            for text in _constants(cell.source):
                yield "a title, a caption or an argument in an earlier cell", text


def _constants(source: str) -> Iterator[str]:
    """Yields the texts in a cell's code, and the numbers that it passes to views, as they are written."""
    try:
        tree = ast.parse(re.sub(r"^[%!].*$", "", source, flags=re.MULTILINE))
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("widgets."):
            for value in [*node.args, *(word.value for word in node.keywords)]:
                if isinstance(value, ast.Constant) and isinstance(value.value, int | float):
                    yield ast.unparse(value)
