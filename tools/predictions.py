"""The rules for predictions: in a chapter's text, nothing shows what came out before a reader has answered.

A chapter whose folder has ``predictions.toml`` asks its questions with `widgets.Predict`. Other chapters still ask in a
block quote, ``> **Predict.** …``. `broken` lists the rules that the text of a chapter breaks; tests/test_predictions.py
calls it for every chapter, and for small texts that break one rule each.

Words and numbers are compared as they are written, so a paraphrase of an answer passes. A number counts from two
significant digits on: a "4" is in too many texts. Only next to its own fold does a shorter one count, in words, too.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Any

from markdown_it import MarkdownIt
from nbformat import NotebookNode

from glassformer.widgets.predict import Predict
from tools.derived import WORDS

MOST = 6
OLD_STYLE = re.compile(r"^\s*>\s*\*\*Predict\.?\*\*", re.MULTILINE)
LOAD = re.compile(r'(?:widgets\.)?Predict\.load\(\s*"([^"]*)",\s*"([^"]*)"\s*\)')
CAME_OUT = re.compile(r'\bPredict\.came_out\(\s*"([^"]*)",\s*"([^"]*)"')
HTML_HEADING = re.compile(r"<h[1-6]\b", re.IGNORECASE)
FOLD = 4  # the level of the headings that fold what follows them
# Words that are in too many texts to give anything away.
COMMON = frozenset(
    re.findall(
        r"\w+",
        "a about all an and any are as at be before but by can does each for from has have how in into is it its "
        "itself just more most much no none not of on one only or other same so than that the them then there they "
        "this those to two very what when where which who will with you",
    )
)


@dataclass
class Fold:
    """The cells that one heading of the fourth level folds.

    Attributes:
        heading: the words of the heading.
        loaded: the chapter and the name of the prediction before it, or two empty texts.
        cells: what is folded: all cells up to the next heading.
        above: the heading of the part of the page that the fold is in.
        after: the cell that begins with the next heading, or None at the end of the page.
        place: the index of the fold's own heading among the cells of the notebook.
    """

    heading: str
    loaded: tuple[str, str]
    above: str
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
    above, open_fold = "", None
    for place, cell in enumerate(cells):
        here = headings(cell)
        first = here[0] if here and cell.source.lstrip().startswith(("#", here[0][1])) else None
        if first and open_fold and 0 < first[0] <= FOLD:
            open_fold.after, open_fold = cell, None
        if first and first[0] == FOLD:
            before = cells[place - 1].source if place and cells[place - 1].cell_type == "code" else ""
            loads = LOAD.search(before)
            open_fold = Fold(first[1], (loads[1], loads[2]) if loads else ("", ""), above, place)
            found.append(open_fold)
        elif open_fold:
            open_fold.cells.append(cell)
        above = next((words for level, words in reversed(here) if 0 < level < FOLD), above)
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
    near = {"the heading of its fold": fold.heading, "the heading above it": fold.above}
    if fold.after is not None:
        [(_, near["the heading after its fold"]), *_] = headings(fold.after)
    for what, words in near.items():
        if _repeats(words, prediction, near=True):
            yield f"[{name}]: {what}, {words!r}, gives the answer away: {_shown(prediction)}"
    paragraph = _first_paragraph(fold.after) if fold.after is not None else ""
    if _repeats(paragraph, prediction, near=False):
        yield f"[{name}]: the text right after its fold repeats {_shown(prediction)}: {paragraph[:70]!r}"
    for place, cell in enumerate(cells):
        if id(cell) in hidden:
            continue
        for level, words in headings(cell):
            if 0 < level < FOLD and words not in near.values() and _repeats(words, prediction, near=False):
                said = _shown(prediction)
                yield f"[{name}]: the heading {words!r}, which the contents list shows, gives it away: {said}"
        if cell.cell_type != "code" or place >= fold.place:
            continue
        for text in _constants(cell.source):
            if _repeats(text, prediction, near=False):
                yield (
                    f"[{name}]: a title, a caption or an argument in an earlier cell gives it away, "
                    f"{_shown(prediction)}: {text[:70]!r}"
                )


def _shown(prediction: Predict) -> str:
    answer: Any = prediction.answer
    return " or ".join(sorted(_numbers(prediction))) or repr(prediction.options[answer[0]])


def _numbers(prediction: Predict) -> set[str]:
    """Returns the ways in which an answer on an axis is written."""
    if prediction.kind not in ("number", "point"):
        return set()
    value: Any = prediction.answer[0]
    ways = {f"{value:.{prediction.digits}f}", f"{value:,.{prediction.digits}f}"}
    if 0 < value < 1 and not prediction.unit:
        ways.add(f"{100 * value:.{max(prediction.digits - 2, 0)}f} %")
    return ways


def _repeats(text: str, prediction: Predict, *, near: bool) -> bool:
    """Returns whether a text has the answer's number, its words, or all words that only the answer has."""
    if not prediction.answer or prediction.kind == "order":
        return prediction.kind == "order" and _has_order(text, prediction)
    if prediction.kind == "choice":
        return _has_option(text, prediction)
    value: Any = prediction.answer[0]
    digits = f"{value:.{prediction.digits}f}".replace(".", "").lstrip("-0")
    if len(digits) < 2 and not near:
        return False
    spelt = {WORDS[int(value)]} if near and value == int(value) and 0 <= value < len(WORDS) else set()
    plain = text.replace("\N{NO-BREAK SPACE}", " ").replace("−", "-")
    return any(
        re.search(rf"(?<![\w.,-]){re.escape(way)}(?![\w%]|[.,]\d)", plain, re.IGNORECASE)
        or (way.endswith(" %") and re.search(rf"(?<![\w.,-]){re.escape(way[:-2])} ?%", plain))
        for way in _numbers(prediction) | spelt
    )


def _words(text: str) -> list[str]:
    return re.findall(r"[\w'’-]+", text.lower())


def _has_option(text: str, prediction: Predict) -> bool:
    options = [_words(option) for option in prediction.options]
    answer: Any = prediction.answer
    right = options.pop(answer[0])
    others = {word for option in options for word in option} | set(_words(prediction.question))
    phrase, written = " ".join(right), " ".join(_words(text))
    if len([word for word in right if word not in COMMON]) > 1 and f" {phrase} " in f" {written} ":
        return True
    own = {word for word in right if word not in others | COMMON and (len(word) > 2 or word.isdigit())}
    return bool(own) and own <= set(_words(text))


def _has_order(text: str, prediction: Predict) -> bool:
    """Returns whether a text names all options, one after another as they came out."""
    written = " ".join(_words(text))
    answer: Any = prediction.answer
    places = [written.find(" ".join(_words(prediction.options[i]))) for i in answer]
    return -1 not in places and [place for place, _ in groupby(sorted(places))] == places


def _first_paragraph(cell: NotebookNode) -> str:
    """Returns the first paragraph below the heading with which a cell begins."""
    _, _, rest = cell.source.partition("\n")
    return rest.lstrip("=-\n ").split("\n\n")[0]


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
