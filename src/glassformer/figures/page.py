"""Explains the one-page GPT line by line: what each line does, which chapter derives it, and the shapes it computes."""

import html
import io
import keyword
import sys
import tokenize
import tomllib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from IPython.display import HTML

from glassformer import contents, onepage, shipped
from glassformer.figures.machine import PARTS
from glassformer.figures.style import framed, variable

LINE = "A horse! a horse! my kingdom for a horse!"
_ROLE = {part.chapter: part.role for part in reversed(PARTS)}  # the first part that a chapter builds

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Told:
    """An explanation of some lines of the page."""

    first: int  # lines count from 1
    last: int
    chapter: str
    says: str
    makes: tuple[tuple[str, str], ...] = ()  # names with axes; "return" for the result


def told() -> tuple[Told, ...]:
    """Returns the explanations of the page's lines from assets/onepage.toml, in their order."""
    return tuple(
        Told(
            first=part["lines"][0],
            last=part["lines"][1],
            chapter=part["chapter"],
            says=part["says"],
            makes=tuple(_made(one) for one in part.get("makes", ())),
        )
        for part in _file()["part"]
    )


def source() -> list[str]:
    """Returns the lines of the page."""
    return Path(onepage.__file__).read_text(encoding="utf-8").splitlines()


def one_page(text: str = LINE) -> HTML:
    """Show `onepage.py`; pointing at a line, or moving to it with the Tab key, shows what it does.

    The explanation includes a link to the chapter that derives the line, and the shapes of its arrays when
    the page reads `text` and writes two characters. The links lead to notebooks, or on the site to its pages;
    a chapter that is not written yet has no link.

    Derived in chapter 08.

    Raises:
        ValueError: `text` is empty, too long for the model, or contains a character that the model does not
            know.
    """
    shapes = shapes_of(text)
    lines = _highlighted()
    groups, end = [], 0
    for part in told():
        groups += [_plain(lines[end : part.first - 1])]
        groups += [_group(part, lines[part.first - 1 : part.last], shapes)]
        end = part.last
    drawing = f'<div class="gf-onepage">{_STYLE}<div class="page">{"".join(groups)}</div></div>'
    return HTML(framed(drawing, "The whole model on one page: point at a line"))


def shapes_of(text: str = LINE) -> dict[int, Shapes]:
    """Returns, for the first run of each line, the shapes of its function's arrays after it, and of the result.

    Raises:
        ValueError: as for `one_page`.
    """
    page = onepage.GPT(shipped.PLACE / "shakespeare")
    room = page.config["context_length"]
    if not isinstance(text, str) or not 1 <= len(text) <= room - 2:
        raise ValueError(f"text={text!r:.40} must be a string of 1 to {room - 2} characters")
    if strange := sorted(set(text) - set(page.alphabet)):
        raise ValueError(f"text has {strange[0]!r}, which the model does not know")
    seen: dict[int, Shapes] = {}
    before: dict[FrameType, int] = {}  # the current line of each frame

    def look(frame: FrameType, event: str, value: Any) -> Any:
        if frame.f_code.co_filename != onepage.__file__ or frame.f_code.co_name.startswith("<"):
            return None
        if event != "call" and frame in before and before[frame] not in seen:
            known = {name: _shape(array) for name, array in frame.f_locals.items()}
            if event == "return":
                known["return"] = _shape(value)
            seen[before[frame]] = {name: shape for name, shape in known.items() if shape is not None}
        before[frame] = frame.f_lineno
        return look

    previous = sys.gettrace()
    sys.settrace(look)
    try:
        list(page.write(text, 2, seed=0))
    finally:
        sys.settrace(previous)
    return seen


def _file() -> dict[str, Any]:
    file = resources.files("glassformer") / "assets" / "onepage.toml"
    return tomllib.loads(file.read_text(encoding="utf-8"))


def _made(one: str) -> tuple[str, str]:
    name, axes = one.split(" ", 1)
    return name, axes


def _shape(value: Any) -> tuple[int, ...] | None:
    """Returns the shape of an array, of the first of several arrays, or of a list of numbers."""
    if isinstance(value, np.ndarray):
        return value.shape
    if isinstance(value, tuple | list) and value:
        return (len(value),) if isinstance(value[0], int) else _shape(value[0])
    return None


def _highlighted() -> list[str]:
    """Returns the lines as HTML with highlighting for keywords, strings, comments, and names where they are defined."""
    lines = source()
    marks: list[list[tuple[int, int, str]]] = [[] for _ in lines]
    text = "\n".join(lines) + "\n"
    before = ""
    for kind, string, (row, column), (end_row, end_column), _ in tokenize.generate_tokens(
        io.StringIO(text).readline
    ):
        style = {tokenize.STRING: "text", tokenize.COMMENT: "text"}.get(kind)
        if kind == tokenize.NAME:
            style = "word" if keyword.iskeyword(string) else "name" if before in ("def", "class") else None
            before = string
        if style:
            for line in range(row, end_row + 1):
                start = column if line == row else 0
                end = end_column if line == end_row else len(lines[line - 1])
                marks[line - 1].append((start, end, style))
    return [_marked(line, spans) for line, spans in zip(lines, marks, strict=True)]


def _marked(line: str, spans: list[tuple[int, int, str]]) -> str:
    pieces, at = [], 0
    for start, end, style in spans:
        pieces += [
            html.escape(line[at:start]),
            f'<span class="{style}">{html.escape(line[start:end])}</span>',
        ]
        at = end
    return "".join([*pieces, html.escape(line[at:])])


def _plain(lines: list[str]) -> str:
    return "".join(f'<div class="code">{line or " "}</div>' for line in lines)


def _group(part: Told, lines: list[str], shapes: dict[int, Shapes]) -> str:
    page = contents.chapter(part.chapter)
    where = f"Chapter {page.number}, {page.title}"
    made = "; ".join(_spelled(name, axes, _found(part, name, shapes)) for name, axes in part.makes)
    span = f"Line {part.first}" if part.first == part.last else f"Lines {part.first} to {part.last}"
    label = html.escape(f"{span}. {where}. {part.says} {made}".strip())
    chip = (
        f'<a class="chip" href="{page.name}.ipynb" aria-label="{label}">{page.number}</a>'
        if page.written
        else f'<span class="chip" role="note" tabindex="0" aria-label="{label}">{page.number}</span>'
    )
    note = (
        f'<div class="note" aria-hidden="true"><strong>{html.escape(where)}</strong> {html.escape(part.says)}'
        + (f'<div class="code">{html.escape(made)}</div>' if made else "")
        + "</div>"
    )
    colour = f"--part: {variable(_ROLE.get(part.chapter, 'residual'))}"
    return f'<div class="lines" tabindex="-1" style="{colour}">{chip}{_plain(lines)}{note}</div>'


def _found(part: Told, name: str, shapes: dict[int, Shapes]) -> tuple[int, ...]:
    """Returns the shape of an array that these lines make, after the last line that knows it."""
    if name == "return":
        return shapes[part.last]["return"]
    known = [shapes[line][name] for line in range(part.first, part.last + 1) if name in shapes.get(line, {})]
    if known:
        return known[-1]
    # Arguments, as the first line of the function's body finds them
    return next(found[name] for line, found in sorted(shapes.items()) if line > part.last)


def _spelled(name: str, axes: str, shape: tuple[int, ...]) -> str:
    title = "gives back" if name == "return" else name
    numbers = f"({', '.join(map(str, shape))})"
    return f"{title} {axes}" if axes == numbers else f"{title} {axes} = {numbers}"


_STYLE = """<style>
.gf-onepage { --note: #ffffff; overflow-x: auto; }
html[data-theme="dark"] .gf-onepage, body[data-jp-theme-light="false"] .gf-onepage { --note: #1a1d22; }
.gf-onepage .page { width: max-content; min-width: 100%; font-size: 12.5px; line-height: 1.55; }
.gf-onepage .page > .code, .gf-onepage .lines { position: relative; padding-left: 2.6rem;
  border-left: 3px solid transparent; }
.gf-onepage .lines { min-height: 24px; padding-block: 2.5px; border-left-color: var(--part); }
.gf-onepage .code { font-family: ui-monospace, "SF Mono", Menlo, Consolas, monospace; white-space: pre; }
.gf-onepage .lines:is(:hover, :focus-within) { background: color-mix(in srgb, var(--part) 18%,
  transparent); outline: none; }
.gf-onepage .chip { position: absolute; top: 0; left: .3rem; min-width: 24px; height: 24px; color: inherit;
  line-height: 24px; text-align: center; }
.gf-onepage .word { font-weight: 700; }
.gf-onepage .name { font-weight: 700; text-decoration: underline; text-underline-offset: 3px; }
.gf-onepage .text { font-style: italic; opacity: .8; }
.gf-onepage .note { position: absolute; z-index: 3; top: 100%; left: 2.2rem; width: min(34rem, 74vw);
  padding: .5rem .8rem;
  visibility: hidden; border: 1px solid var(--part); border-radius: 6px; background: var(--note);
  font: 14px/1.5
  system-ui, sans-serif; pointer-events: none; box-shadow: 0 4px 14px rgb(0 0 0 / 22%); }
.gf-onepage .note .code { margin-top: .2rem; font-size: 13px; white-space: normal; }
.gf-onepage .lines:nth-last-child(-n + 3) .note { top: auto; bottom: 100%; }
.gf-onepage .lines:is(:hover, :focus-within) .note { visibility: visible; }
.gf-onepage .page:has(.lines:hover) .lines:not(:hover) .note { visibility: hidden; }
.gf-onepage .chip:focus-visible { outline: 3px solid currentColor; outline-offset: 1px; }
</style>"""
_STYLE = " ".join(_STYLE.split())
