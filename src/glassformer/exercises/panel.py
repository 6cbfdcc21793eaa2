"""Writes what the learner sees: as text, as HTML for a notebook, and as data for a page that draws it itself.

The HTML takes its text and background colours from the page around it, so it is readable in JupyterLab and in the
book, in light and dark themes. Its only colour of its own is a bar at the side, which repeats what a mark and a word
already say.
"""

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from glassformer import chapter_links

# Okabe–Ito green, vermillion and a grey. Each has a contrast of at least 3:1 against white and against the
# backgrounds of the dark themes.
BAR = {"good": "#009E73", "bad": "#D55E00", "plain": "#808080"}

# A link to a notebook or the reader's file, [words](address): the only kind of link that a sentence may have.
_LINK = re.compile(r"\[([^\][]+)\]\(((?:\.\.?/)*\w[\w.-]*(?:/\w[\w.-]*)*\.(?:ipynb|py))\)")

# Pygments' short names of tokens, or their first letters, and what JupyterLab's themes call these kinds
KINDS = {
    "k": "keyword", "ow": "keyword", "m": "number", "s": "string", "c": "comment", "nf": "def",
}  # fmt: skip

_BOX = "border-left: 4px solid {bar}; padding: 0.2em 0 0.2em 0.9em; margin: 0.4em 0; line-height: 1.5"
_CODE = "color: inherit; background: none; border: 0; padding: 0"


class Span(NamedTuple):
    """A part of a sentence: plain words, code, or a link to a notebook."""

    text: str
    code: bool = False
    link: str = ""

    def html(self) -> str:
        """Returns it as HTML."""
        text = html.escape(self.text)
        if self.code:
            return f'<code style="{_CODE}">{text}</code>'
        return f'<a href="{self.link}">{text}</a>' if self.link else text

    def data(self) -> dict[str, Any]:
        """Returns it as JSON has it, without what is empty."""
        return {name: value for name, value in self._asdict().items() if value}


@dataclass(frozen=True)
class Panel:
    """A headline, lines below it, and perhaps code. A notebook shows it as HTML; elsewhere it is text.

    Attributes:
        headline: one sentence. Backticks mark code, here and in the lines; [words](page.ipynb) is a link.
        lines: (mark, sentence) pairs; the mark is one character, such as ✓, or empty.
        code: source text to show below the lines.
        python: whether the code is Python, to show in colours.
        more: a folded part below: its title and its Python code.
        mood: the kind of bar: "good", "bad" or "plain".
    """

    headline: str
    lines: Sequence[tuple[str, str]] = ()
    code: str = ""
    mood: str = "plain"
    python: bool = False
    more: tuple[str, str] = ("", "")

    def __repr__(self) -> str:
        lines = [self.headline.replace("`", "")]
        for mark, sentence in self.lines:
            said = _LINK.sub(r"\1", sentence)
            lines.append(f"  {mark} {said}" if mark else f"  {said}")
        if self.code:
            lines += ["", self.code.rstrip()]
        if self.more[1]:
            lines += ["", self.more[0], "", self.more[1].rstrip()]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        parts = [f"<strong>{_inline(self.headline)}</strong>"]
        parts += [f"<div>{f'{mark}&nbsp;' if mark else ''}{_inline(line)}</div>" for mark, line in self.lines]
        if self.code:
            parts.append(_block(self._pieces()))
        title, code = self.more
        if code:
            parts.append(f"<details><summary>{_inline(title)}</summary>{_block(_coloured(code))}</details>")
        return f'<div style="{_BOX.format(bar=BAR[self.mood])}">{"".join(parts)}</div>'

    def data(self) -> dict[str, Any]:
        """Returns it as JSON has it, with every sentence in spans, and coloured code in (kind, text) pairs."""
        title, code = self.more
        more = {"more": {"title": _data(title), "code": _coloured(code)}} if code else {}
        return {
            "kind": "panel",
            "mood": self.mood,
            "headline": _data(self.headline),
            "lines": [[mark, _data(sentence)] for mark, sentence in self.lines],
            "code": self._pieces() if self.python else self.code.rstrip(),
            **more,
        }

    def _pieces(self) -> list[tuple[str, str]]:
        return _coloured(self.code) if self.python else [("", self.code.rstrip())]


@dataclass(frozen=True)
class Table:
    """A caption, column heads, rows of text and one closing line, shown as HTML or as aligned text."""

    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    closing: str = ""

    def __repr__(self) -> str:
        grid = [list(self.heads), *(list(row) for row in self.rows)]
        widths = [max(len(cell) for cell in column) for column in zip(*grid, strict=True)]
        body = [
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in grid
        ]
        return "\n".join([self.caption, *body, *([self.closing] if self.closing else [])])

    def _repr_html_(self) -> str:
        left = 'style="text-align: left; white-space: nowrap; padding: 0.15em 1em 0.15em 0"'
        head = "".join(
            f'<th scope="col" {left}>{html.escape(cell)}</th>' if cell else "<td></td>" for cell in self.heads
        )
        body = "".join(
            "<tr>" + "".join(f"<td {left}>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in self.rows
        )
        closing = f"<div>{_inline(self.closing)}</div>" if self.closing else ""
        return (
            f'<div style="{_BOX.format(bar=BAR["plain"])}; overflow-x: auto" tabindex="0">'
            f'<table style="color: inherit; font-size: 0.85em"><caption {left}>{html.escape(self.caption)}</caption>'
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{closing}</div>"
        )

    def data(self) -> dict[str, Any]:
        """Returns it as JSON has it, with the closing line in spans."""
        return {"kind": "table", **asdict(self), "closing": _data(self.closing)}


def _coloured(code: str) -> list[tuple[str, str]]:
    """Returns Python code in pieces: what kind of piece each is, one of `KINDS` or "", and its text."""
    from pygments.lexers.python import PythonLexer
    from pygments.token import STANDARD_TYPES

    def kind(piece: tuple[Any, str]) -> str:
        name = STANDARD_TYPES[piece[0]]
        return KINDS.get(name) or KINDS.get(name[:1], "")

    pieces = groupby(PythonLexer(stripnl=False, ensurenl=False).get_tokens(code.rstrip()), kind)
    return [(kind, "".join(text for _, text in some)) for kind, some in pieces]


def _block(pieces: Sequence[tuple[str, str]]) -> str:
    """Returns the HTML of code, in the colours that JupyterLab's theme has for it, if this is JupyterLab."""
    said = [
        f'<span style="color: var(--jp-mirror-editor-{kind}-color, inherit)">{html.escape(text)}</span>'
        if kind
        else html.escape(text)
        for kind, text in pieces
    ]
    # tabindex: long lines scroll sideways, and the keyboard must be able to scroll them
    pre = f'<pre tabindex="0" style="{_CODE}; overflow-x: auto">'
    return f'{pre}<code style="{_CODE}">{"".join(said)}</code></pre>'


def _inline(sentence: str) -> str:
    """Returns the HTML of one sentence."""
    return "".join(span.html() for span in _spans(sentence))


def _data(sentence: str) -> list[dict[str, Any]]:
    """Returns one sentence as JSON has it."""
    return [span.data() for span in _spans(sentence)]


def _spans(sentence: str) -> Iterator[Span]:
    """Yields a sentence in spans: text between backticks as code, and links to notebooks as links."""
    parts = sentence.split("`")
    if len(parts) % 2 == 0:  # a backtick without its partner is only a backtick
        yield Span(sentence)
        return
    for i, part in enumerate(parts):
        found = [Span(part, code=True)] if i % 2 else _linked(part)
        yield from (span for span in found if span.text)


def _linked(words: str) -> Iterator[Span]:
    """Yields words in spans: links as they are, and in the book's notebooks also to chapters that are mentioned."""
    at = 0
    for link in _LINK.finditer(words):
        yield from (*_with_chapters(words[at : link.start()]), Span(link[1], link=link[2]))
        at = link.end()
    yield from _with_chapters(words[at:])


def _with_chapters(words: str) -> Iterator[Span]:
    up = {"notebooks": "", "exercises": "../"}.get(Path.cwd().name)
    if up is not None:
        words = chapter_links.linked(words, lambda chapter: f"{up}{chapter.name}.ipynb")
    text, *links = _LINK.split(words)  # in turn words, and the two parts of a link
    yield Span(text)
    for said, to, text in zip(links[::3], links[1::3], links[2::3], strict=True):
        yield from (Span(said, link=to), Span(text))
