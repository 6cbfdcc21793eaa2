"""A Sphinx extension that repairs what libraries leave in pages, and leaves out what says nothing.

Each drawing of matplotlib numbers its parts from 1, so two drawings on a page have the same ids. What refers to an id
gets one of its own, and the other ids, which nothing uses, are left out. Headers of tables without words become
cells. In code, Pygments puts names, punctuation and blanks into elements of their own, which have the colour of all
other text, and in signatures Sphinx does, twice; it also makes lists of arguments there, but without terms.

Matplotlib writes coordinates to a millionth of a point. Here they have hundredths, and those of curves have tenths and
say how far each point is from the one before it. A screen shows no difference, and a page with many drawings is a
fifth smaller. Rotations by 0, comments and groups without attributes are left out. On a narrow page, a drawing
shrinks only as far as its words can be read; from then on it scrolls.
"""

from __future__ import annotations

import re

from sphinx.application import Sphinx

from tools.extensions.built_pages import rewriting

DRAWING = re.compile(r"<svg\b.*?</svg>", re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
GROUP = re.compile(r"<g\b([^>]*)(?<!/)>|</g>")
ID = re.compile(r'\sid="([^"]*)"')
REFERENCE = re.compile(r'(url\(#|href="#)([^")]+)')
COORDINATES = re.compile(r'\s(?:d|points|x|y|x1|y1|x2|y2|cx|cy)="[^"]*"')
LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}")
POINT = r" -?\d+(?:\.\d+)? -?\d+(?:\.\d+)? "
CURVE = re.compile(rf'(?<=\sd=")\s*((?:M{POINT}(?:L{POINT})+(?:z )?)+)\s*(?=")')  # straight pieces only
PIECE = re.compile("[MLz][^MLz]*")
NEEDLESS = re.compile(r" (?=-)|(?<![\d.])0(?=\.)")  # in SVG, 1 -0.5 may be written 1-.5
READABLE = 8  # pixels, for the smallest letters of a drawing, except in exponents
WIDTH = re.compile(r'\sviewBox="0 0 ([\d.]+) ', re.IGNORECASE)
LETTERS = re.compile(r"<text\b[^>]*\bfont-size: ([\d.]+)px")
# The style of a drawing, as src/glassformer/figures/style.py writes it
SHRINKS = '"max-width: 100%; height: auto"'
NO_ROTATION = re.compile(r' transform="rotate\(-?0 [^"]*\)"')
SEARCH_FIELD = re.compile(r'\sid="search-input"')  # the search page has two; nothing uses the id
PLAIN = ("n", "p", "w")  # Pygments' classes of names, punctuation and blanks
PLAIN_CODE = re.compile(rf'<span class="(?:{"|".join(PLAIN)})">([^<]*)</span>')
SIGNATURE = re.compile(r'<dt class="sig .*?</dt>', re.DOTALL)
WITHIN_SIGNATURE = re.compile(r'<span class="pre">([^<]*)</span>')
LINES = re.compile("<(/?)d[ld]")  # a list within a term: book/site/glassformer.css shows it as lines
LINE_BREAK = re.compile(r"\s*\n\s*")
EMPTY_HEADER = re.compile(r"<th\b[^>]*>\s*(?:<p>\s*</p>)?\s*</th>")


def tidy(page: str) -> str:
    """Returns the text of a page with unique ids in its drawings, empty cells for empty headers, and leaner code."""
    count = 0

    def renamed(found: re.Match[str]) -> str:
        nonlocal count
        count += 1
        used = {name for _, name in REFERENCE.findall(found[0])}
        with_ids = ID.sub(lambda one: f' id="d{count}-{one[1]}"' if one[1] in used else "", found[0])
        own = REFERENCE.sub(rf"\1d{count}-\2", with_ids)
        lean = _without_bare_groups(COMMENT.sub("", NO_ROTATION.sub("", _readable(own))))
        lines = CURVE.sub(_steps, LINE_BREAK.sub(" ", lean))
        return COORDINATES.sub(lambda one: LONG_NUMBER.sub(_hundredths, one[0]), lines)

    page = EMPTY_HEADER.sub("<td></td>", SEARCH_FIELD.sub("", DRAWING.sub(renamed, page)))
    page = SIGNATURE.sub(lambda one: LINES.sub(r"<\1span", WITHIN_SIGNATURE.sub(r"\1", one[0])), page)
    return PLAIN_CODE.sub(r"\1", page)


def _readable(drawing: str) -> str:
    """Returns a drawing that becomes no narrower than its smallest letters allow."""
    width, letters = WIDTH.search(drawing), LETTERS.findall(drawing)
    if width is None or not letters:
        return drawing
    least = READABLE * float(width[1]) / min(map(float, letters))
    return drawing.replace(SHRINKS, f'"max-width: max(100%, {least:.0f}px); height: auto"', 1)


def _without_bare_groups(drawing: str) -> str:
    bare = []  # of the groups that are open

    def kept(found: re.Match[str]) -> str:
        if found[0] == "</g>":
            return "" if bare.pop() else found[0]
        bare.append(not found[1].strip())
        return "" if bare[-1] else found[0]

    return GROUP.sub(kept, drawing)


def _hundredths(number: re.Match[str]) -> str:
    text = f"{float(number[0]):.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _steps(curve: re.Match[str]) -> str:
    """Returns a curve as its first point and the way from each point to the next, in tenths of a point."""
    text, before, here = "", "", (0, 0)
    for command, *numbers in (piece.split() for piece in PIECE.findall(curve[1])):
        if command == "z":
            text += "z"
        else:
            there = [round(10 * float(number)) for number in numbers]
            way = there if command == "M" else [to - since for to, since in zip(there, here, strict=True)]
            text += " " if command == before == "L" else {"M": "M", "L": "l"}[command]
            text += " ".join(f"{tenths / 10:g}" for tenths in way)
            here = there
        before = command
    return NEEDLESS.sub("", text)


def setup(app: Sphinx) -> dict:
    app.connect("build-finished", rewriting(tidy))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
