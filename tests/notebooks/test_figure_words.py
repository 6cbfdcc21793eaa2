"""Every number in a figure's title, alternative text and labels is one that the cells of its section assert or print.

Readers who cannot see a figure have only these words, and nobody else reads them, so a wrong number would stay.
"""

import ast
import re
from html import unescape
from itertools import chain

import nbformat
import pytest

from tools import notebooks
from tools.book_pages import claims

PAIRS = notebooks.pairs()
IDS = [notebook.relative_to(notebooks.ROOT / "notebooks").as_posix() for _, notebook in PAIRS]
# A digit in a name is no number: GPT-2, 7B, 1994-05-23.
NUMBER = re.compile(r"(?<![\w.])(?<!\w-)\d+(?:[.,]\d+)*(?:e-?\d+)?(?![\w-])")
LABELS = {"label", "xlabel", "ylabel", "title", "xticklabels", "yticklabels"}
WRITES = {"text", "annotate", "legend", "suptitle", "set_title"} | {
    f"set_{axis}{what}" for axis in "xy" for what in ("label", "ticks", "ticklabels")
}


def strings(tree):
    """Returns the strings in a part of the code, and what is written out of those that are filled."""
    formats = [node.format_spec for node in ast.walk(tree) if isinstance(node, ast.FormattedValue)]
    skipped = {part for found in formats if found for part in ast.walk(found)}
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in skipped
    ]


def said_by(cell, section):
    """Returns those strings of a cell, or of its section, that are in the titles and descriptions of its figures."""
    html = " ".join(str(output.get("data", {}).get("text/html", "")) for output in cell.outputs)
    shown = re.findall(
        r'<svg role="img" aria-label="([^"]*)"|<figcaption[^>]*>(.*?)</figcaption>', html, re.DOTALL
    )
    shown = [unescape(text) for text in chain.from_iterable(shown) if text]
    found = []
    for text in shown:
        for code in (cell, *section):
            inside = [
                s for s in strings(ast.parse(code.source)) if " " in s and re.search("[a-z]", s) and s in text
            ]
            found += inside
            if inside:
                break
    return found


def labels_in(cell):
    """Returns the strings with which a cell labels what it draws."""
    found = []
    for call in (node for node in ast.walk(ast.parse(cell.source)) if isinstance(node, ast.Call)):
        if getattr(call.func, "attr", "") in WRITES:
            found += chain.from_iterable(map(strings, call.args))
        found += chain.from_iterable(
            strings(keyword.value) for keyword in call.keywords if keyword.arg in LABELS
        )
    return found


def in_code(cell):
    """Returns the numbers of a cell's code, and those in the strings that it asserts."""
    tree = ast.parse(cell.source)
    asserted = [text for node in ast.walk(tree) if isinstance(node, ast.Assert) for text in strings(node)]
    constants = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    return {
        *(float(value) for value in constants if type(value) in (int, float)),
        *values(" ".join(asserted)),
    }


def printed(cell, *, figures=False):
    """Returns the numbers that a cell prints, and those in the labels of its figures if they are asked for."""
    outputs = [nbformat.from_dict(dict(output)) for output in cell.outputs]
    for output in outputs:
        if html := output.get("data", {}).get("text/html"):
            if "<svg" in html and not figures:
                html = ""
            html = re.sub(r"<figcaption[^>]*>.*?</figcaption>", "", html, flags=re.DOTALL)
            output["data"] = {**output["data"], "text/html": html}
    return values(claims.printed(nbformat.from_dict({**cell, "outputs": outputs})))


def values(text):
    """Returns the numbers in a text, without signs."""
    found = re.findall(r"\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?", text)
    return {float(number.replace(",", "")) for number in found}


def is_there(number, there):
    """Returns whether a number, or one that is rounded to it, is there, perhaps as a fraction for a percentage."""
    number = number.replace(",", "")
    if "e" in number:
        return float(number) in there
    decimals = len(number.partition(".")[2])
    digits = f"{float(number):.{decimals}f}"
    exact = there if decimals else {value for value in there if value == int(value)}
    return any(f"{value:.{decimals}f}" == digits for value in exact) or any(
        f"{100 * value:.{decimals}f}" == digits for value in there if 0 < value <= 1
    )


def unsupported(notebook):
    """Returns what a notebook's figures say with a number that no cell of the same section has."""
    sections = [[]]
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and re.search(r"^#{1,3} ", cell.source, re.MULTILINE):
            sections.append([])
        if cell.cell_type == "code":
            sections[-1].append(cell)
    found = []
    for section in sections:
        drawing = [cell for cell in section if '<svg role="img"' in str(cell.outputs)]
        there = set().union(*map(in_code, section), *map(printed, section)) if drawing else set()
        for cell in drawing:
            drawn = printed(cell, figures=True)
            for texts, known in ((said_by(cell, section), there | drawn), (labels_in(cell), there)):
                found += [
                    f"{number} in {text!r}"
                    for text in texts
                    for number in NUMBER.findall(text)
                    if not is_there(number, known)
                ]
    return found


@pytest.mark.parametrize("notebook", [notebook for _, notebook in PAIRS], ids=IDS)
def test_the_numbers_that_a_figure_says_are_asserted_or_printed(notebook):
    assert unsupported(nbformat.read(notebook, as_version=4)) == []


CELL = """with figures.figure(
    "A title", "The loss falls from 3.35 to 1.25, by 63 percent, in GPT-2 with 7B and 2,000 steps.",
) as ax:
    ax.plot(losses, "o-", label="seed 12")
assert f"{losses[0]:.2f} {losses[-1]:.3f}" == "3.35 1.249"
print(1 - losses[-1] / losses[0], 2000 * seeds[12])"""


def of(source, heading="Text.", printed="0.6272"):
    v4 = nbformat.v4
    title, alt, label = (re.search(rf'{before}"(.*?)"', source)[1] for before in ("\n    ", '", ', "label="))
    drawing = f'<figure><svg role="img" aria-label="{alt}"><text>{label}</text></svg>'
    outputs = [
        v4.new_output("stream", text=printed),
        v4.new_output("display_data", {"text/html": f"{drawing}<figcaption>{title}</figcaption></figure>"}),
    ]
    return v4.new_notebook(
        cells=[
            v4.new_code_cell("losses = [40.25, 77]"),
            v4.new_markdown_cell(heading),
            v4.new_code_cell(source, outputs=outputs),
        ]
    )


def test_a_number_is_supported_by_code_by_what_is_asserted_and_by_what_is_printed():
    assert unsupported(of(CELL)) == []
    assert unsupported(of(CELL.replace("3.35 to", "40.25 to"))) == []  # another cell of the section has it


@pytest.mark.parametrize(
    ("old", "new", "number"),
    [
        ("3.35 to", "3.36 to", "3.36"),
        ("63 percent", "64 percent", "64"),
        ("in GPT-2", "in 7 GPT-2", "7"),
        ("2,000 steps", "2,001 steps", "2,001"),
        ("A title", "3 titles", "3"),
        ("seed 12", "seed 13", "13"),
        ("assert", "#assert", "3.35"),
    ],
)
def test_a_number_that_nothing_supports_is_found(old, new, number):
    assert unsupported(of(CELL.replace(old, new)))[0].startswith(f"{number} in ")


def test_a_number_of_another_section_supports_nothing():
    found = unsupported(of(CELL.replace("3.35 to", "40.25 to"), heading="## Another"))
    assert [one.partition(" ")[0] for one in found] == ["40.25"]
