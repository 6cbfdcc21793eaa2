"""A Sphinx extension that sets formulas when the site is built, in MathML, which current browsers draw by themselves.

latex2mathml converts the TeX. Browsers implement MathML Core, which has fewer attributes than the converter writes and
other spaces around operators than TeX, so the result is repaired here: for both Chromium and Firefox, by comparing all
formulas of the book with MathJax's. What belongs to it is in book/site/glassformer.css, under "Formulas".
"""

from __future__ import annotations

import re
from typing import Any
from xml.etree.ElementTree import Element, SubElement, fromstring, tostring

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx

THIN = "0.167em"
FUNCTIONS = {"ln", "log", "exp", "sin", "cos", "tanh", "max", "min"}
THINGS = set("∞⊤…⋯⋮")  # converted to operators, but there is no space around these
TIGHT = set("/|‖.")  # operators with no space around them, as in TeX
CLOSING = set(")]}|‖")
SIGNS = set("−+")
OVERLINE = "―"
SCRIPTS = {"msub", "msup", "msubsup", "munder", "munderover"}
ROWS = {"math", "mrow", "mtd", "msqrt", "mstyle"}


def mathml(tex: str, *, display: bool = False) -> str:
    """Returns a formula as MathML: one in a line of text, or with `display` one that has a line of its own.

    Raises:
        ValueError: something in the formula was not converted.
    """
    known = re.sub(r"(?<=[\w)}])\s*\\operatorname", r"\\,\\operatorname", tex)
    known = re.sub(
        r"\\(?:operatorname|mathrm|mathtt)(?=\{[^}]{2,}\})", r"\\text", known
    )  # a word, and not its letters
    known = known.replace("{aligned}", "{align*}")
    known = re.sub(r"\\\\\[[^]]*\]", r"\\\\", known)  # the stylesheet decides how far rows are apart
    converted = convert(known, xmlns="", display="block" if display else "inline")
    if "\\" in re.sub(r"\\_", "", converted) or "<mi>&</mi>" in converted:
        raise ValueError(f"the formula {tex!r} has something that is not converted: {converted}")
    math = fromstring(converted)
    for row in math.iter():
        _repair(row, display)
    _set_space(math)
    math.attrib.clear()
    if display:  # but as wide as it is, and at the left
        math.set("displaystyle", "true")
    return tostring(math, encoding="unicode", short_empty_elements=False)


def _repair(element: Element, display: bool) -> None:
    """Repairs one element."""
    text = element.text or ""
    if element.tag == "mo" and (text in THINGS or text.isalpha()):
        element.tag = "mi"
    elif element.tag == "mo" and text in ("⊙", "⊗"):
        element.set("largeop", "false")
    elif element.tag == "mi" and "Α" <= text <= "Ω":
        element.set("mathvariant", "normal")
    elif (
        element.tag == "mtext" and text.strip()
    ):  # space to MathML, so that operators beside it would have none
        element.tag, element.text = "mi", text.replace("\\_", "_")
        if len(text) == 1:
            element.set("mathvariant", "normal")
    elif element.tag == "msub" and display and element[0].text in ("max", "min"):
        element.tag = "munder"
    elif element.tag == "mover" and element[1].text == OVERLINE:  # no font has one of every width
        over = Element("mrow", {"class": "over"})
        over.append(element[0])
        element[0] = over
    elif element.tag == "mtable":
        if any([cell.attrib.pop("columnalign", None) for cell in element.iter("mtd")]):
            element.set("class", "aligned")
        for name in ("rowspacing", "columnspacing"):
            element.attrib.pop(name, None)


def _set_space(element: Element, *, in_script: bool = False) -> None:
    """Sets the space around signs and the names of functions as TeX does, and none in indices and powers."""
    if element.tag in ROWS:
        _space_names(element)
    before = None
    for i, child in enumerate(element):
        is_script = in_script or (element.tag in SCRIPTS and i > 0)
        if child.tag == "mo" and element.tag in ROWS and child.text in SIGNS and _awaits(before):
            child.set("form", "prefix")
        is_alone = len(element) == 1 and element.tag == "mrow"  # {,} in a large number
        if child.tag == "mo" and (is_script or is_alone or child.text in TIGHT):
            child.attrib |= {"lspace": "0", "rspace": "0"}
        if child.tag == "mo" and child.text in TIGHT:
            child.set("stretchy", "false")
        _set_space(child, in_script=is_script)
        before = child


def _space_names(row: Element) -> None:
    """Adds a thin space beside the name of a function, and removes negative ones, which MathML has no need of."""
    kept = [child for child in row if child.get("width") != "negativethinmathspace"]
    row[:] = []
    for before, child in zip([None, *kept], kept, strict=False):
        follows = before is not None and before.tag not in ("mo", "mspace")
        if follows and (_is_function(child) or (_is_function(before) and _first(child).tag != "mo")):
            SubElement(row, "mspace", width=THIN)
        row.append(child)


def _awaits(element: Element | None) -> bool:
    """Returns whether what follows an element begins something: a minus there is a sign."""
    return element is None or element.tag == "mspace" or (element.tag == "mo" and element.text not in CLOSING)


def _first(element: Element | None) -> Element:
    while element is not None and len(element):
        element = element[0]
    return element if element is not None else Element("none")


def _is_function(element: Element | None) -> bool:
    """Returns whether an element is the name of a function, with or without an index or a power."""
    is_name = element is not None and (element.tag == "mi" or element.tag in SCRIPTS)
    return is_name and _first(element).text in FUNCTIONS


def write_inline(writer: Any, node: nodes.math) -> None:
    """Writes a formula within a sentence."""
    writer.body.append(f'<span class="math">{mathml(node.astext())}</span>')
    raise nodes.SkipNode


def write_block(writer: Any, node: nodes.math_block) -> None:
    """Writes a formula that has a line of its own."""
    writer.body.append(f'<div class="math">{mathml(node.astext(), display=True)}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict:
    app.add_html_math_renderer("mathml", (write_inline, None), (write_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
