"""A Sphinx extension that repairs what libraries leave in pages, and leaves out what says nothing.

Each drawing of matplotlib numbers its parts from 1, so two drawings on a page have the same ids. What refers to an id
gets one of its own, and the other ids, which nothing uses, are left out. Headers of tables without words become
cells. Matplotlib also writes coordinates to a millionth of a point; here they have hundredths, which no screen can
show, and a page with many drawings is a tenth smaller. In code, Pygments puts names, punctuation and blanks into
elements of their own, which have the colour of all other text.
"""

from __future__ import annotations

import re

from sphinx.application import Sphinx

from tools.pages.finished import rewriting

DRAWING = re.compile(r"<svg\b.*?</svg>", re.DOTALL)
ID = re.compile(r'\sid="([^"]*)"')
REFERENCE = re.compile(r'(url\(#|href="#)([^")]+)')
COORDINATES = re.compile(r'\s(?:d|points|x|y|x1|y1|x2|y2|cx|cy)="[^"]*"')
LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}")
SEARCH_FIELD = re.compile(r'\sid="search-input"')  # the search page has two; nothing uses the id
PLAIN = ("n", "p", "w")  # Pygments' classes of names, punctuation and blanks
PLAIN_CODE = re.compile(rf'<span class="(?:{"|".join(PLAIN)})">([^<]*)</span>')
LINE_BREAK = re.compile(r"\s*\n\s*")
EMPTY_HEADER = re.compile(r"<th((?: [^>]*)?)>\s*(?:<p>\s*</p>)?\s*</th>")


def tidy(page: str) -> str:
    """Returns the text of a page with unique ids in its drawings, empty cells for empty headers, and leaner code."""
    count = 0

    def renamed(found: re.Match[str]) -> str:
        nonlocal count
        count += 1
        used = {name for _, name in REFERENCE.findall(found[0])}
        with_ids = ID.sub(lambda one: f' id="d{count}-{one[1]}"' if one[1] in used else "", found[0])
        own = REFERENCE.sub(rf"\1d{count}-\2", with_ids)
        return LINE_BREAK.sub(" ", COORDINATES.sub(lambda one: LONG_NUMBER.sub(_hundredths, one[0]), own))

    page = EMPTY_HEADER.sub(r"<td\1></td>", SEARCH_FIELD.sub("", DRAWING.sub(renamed, page)))
    return PLAIN_CODE.sub(r"\1", page)


def _hundredths(number: re.Match[str]) -> str:
    text = f"{float(number[0]):.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def setup(app: Sphinx) -> dict:
    app.connect("build-finished", rewriting(tidy))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
