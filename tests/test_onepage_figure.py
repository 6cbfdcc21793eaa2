"""Tests the figure of the one page: it explains every line correctly, and responds to pointer and keys."""

import hashlib
import re

import pytest
from bs4 import BeautifulSoup

from glassformer import figures
from glassformer.contents import chapter
from glassformer.figures import page
from tools.shared.browser import axe_violations, contrast_violations

LINE = page.LINE
SIZES = {"T": 41, "S": 41, "D": 128, "H": 4, "K": 32, "K/2": 16, "F": 344, "V": 65, "20": 20}


@pytest.fixture(scope="module")
def shapes():
    return page.shapes_of(LINE)


@pytest.fixture(scope="module")
def shown():
    return figures.one_page().data


def test_what_is_said_is_said_of_the_page_as_it_is():
    code = "\n".join(line.rstrip() for line in page.source())
    assert hashlib.sha256(code.encode()).hexdigest()[:16] == page._file()["digest"], (
        "onepage.py has changed: read assets/onepage.toml again, lines and sentences, then put this digest into it"
    )


def test_every_line_of_code_is_told_once():
    lines = page.source()
    told = [line for part in page.told() for line in range(part.first, part.last + 1)]
    assert told == sorted(set(told))
    assert {i for i, line in enumerate(lines, 1) if line.strip()} <= set(told)
    assert max(told) <= len(lines)


def test_chapters_are_those_that_the_page_names():
    """A function's mark, # [05], is the chapter of the line that it is on."""
    marks = {
        i: found[1] for i, line in enumerate(page.source(), 1) if (found := re.search(r"# \[(\d\d)\]", line))
    }
    of_line = {line: part.chapter for part in page.told() for line in range(part.first, part.last + 1)}
    assert len(marks) >= 10
    assert {i: of_line[i] for i in marks} == marks
    assert all(chapter(part.chapter) for part in page.told())


def test_every_shape_is_that_of_its_axes(shapes):
    made = [(part, name, axes) for part in page.told() for name, axes in part.makes]
    assert len(made) > 30
    for part, name, axes in made:
        letters = axes.strip("()").split(", ")
        assert page._found(part, name, shapes) == tuple(SIZES[letter] for letter in letters), (
            part.first,
            name,
        )
    for part in page.told():  # what a function gives back is told where it does so
        if page.source()[part.last - 1].strip().startswith("return"):
            assert part.makes[-1][0] == "return"


def test_shapes_follow_the_text():
    other = page.shapes_of("To be")
    assert other[61]["scores"] == (4, 5, 5)
    assert other[80]["return"] == (5, 65)


def test_written_chapters_are_linked_and_read_aloud(shown):
    drawn = BeautifulSoup(shown, "html.parser")
    chips = drawn.select(".chip")
    assert [chip.get_text() for chip in chips] == [part.chapter for part in page.told()]
    for chip, part in zip(chips, page.told(), strict=True):
        assert chip.get("href") == (
            f"{chapter(part.chapter).name}.ipynb" if chapter(part.chapter).written else None
        )
        assert part.says in chip["aria-label"]
    assert len(shown) < 60_000


@pytest.mark.parametrize(("text", "message"), [("", "1 to 126"), ("a" * 127, "1 to 126"), ("é", "'é'")])
def test_a_text_that_it_cannot_read(text, message):
    with pytest.raises(ValueError, match=message):
        figures.one_page(text)


def test_a_line_answers_to_the_pointer_and_to_the_tab_key(browser, shown):
    tab = browser.new_page(viewport={"width": 780, "height": 900})
    tab.set_content(
        f'<!doctype html><html lang="en" data-theme="light"><title>A page</title><main><h1>A page</h1>{shown}</main>'
    )

    def notes():
        return tab.locator(".note").evaluate_all(
            "notes => notes.filter((n) => getComputedStyle(n).visibility === 'visible').map((n) => n.textContent)"
        )

    rows = tab.locator(".page > .code, .lines > .code").all_text_contents()
    assert [row.rstrip() for row in rows] == page.source()
    assert notes() == []
    tab.get_by_text("scores = q @ k").hover()
    assert notes() == [
        "Chapter 03, Attention The dot product of every query with every key, multiplied by the scale."
        "scores (H, T, S) = (4, 41, 41)"
    ]
    tab.mouse.move(0, 0)
    assert notes() == []
    seen = []
    for _ in range(3):
        tab.keyboard.press("Tab")
        seen += notes()
    assert [note[:10] for note in seen] == ["Chapter 00", "Chapter 00", "Chapter 03"]
    assert axe_violations(tab) + contrast_violations(tab) == []
    tab.set_viewport_size({"width": 360, "height": 800})
    assert tab.evaluate("document.documentElement.scrollWidth") <= 360
    tab.close()
