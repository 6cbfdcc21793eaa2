"""Tests what a heading of the fourth level folds, on a small book of one page, built like the real book."""

import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import expect
from small_site import build

PAGE = """
# Marbles

## Ask

> **Predict.** How many?

#### Then `count` them

There are forty, says the prose.

(inside)=
So it is.

```python
print("40")
```

### Below

This is seen: [how many](#inside)

#### Then look again

Still forty.

## After

Zinnias.
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Builds the page above with the book's own settings, style and scripts, and returns the folder of its site."""
    root = tmp_path_factory.mktemp("small")
    return build(root, lambda folder: (folder / "page.md").write_text(PAGE, encoding="utf-8"))


@pytest.fixture
def page(small, browser):
    """Opens the page in a window of its own."""
    window = browser.new_context(viewport={"width": 1280, "height": 600}, color_scheme="dark")
    page = window.new_page()
    page.goto((small / "page.html").as_uri())
    yield page
    window.close()


def test_all_up_to_the_next_heading_is_folded_and_nothing_else(small):
    document = BeautifulSoup((small / "page.html").read_text(encoding="utf-8"), "html.parser")
    first, second = document.select("details.fold")
    assert [fold.summary.get_text() for fold in (first, second)] == ["Then count them", "Then look again"]
    assert first.summary.code.get_text() == "count"
    assert all(words in first.get_text() for words in ("There are forty", "So it is", 'print("40")'))
    assert "Still forty" in second.get_text()
    outside = document.select_one("article")
    for fold in (first, second):
        assert not fold.has_attr("open")
        assert not fold.select("h1, h2, h3, h4, h5, details")
        fold.extract()
    assert all(words in outside.get_text() for words in ("How many?", "This is seen", "Zinnias"))
    assert "forty" not in outside.get_text()
    listed = [link.get_text() for link in document.select(".page-toc a, #jb-print-toc a")]
    assert "Ask" in " ".join(listed)
    assert "Then" not in " ".join(listed)


def test_the_keyboard_opens_it_and_the_words_of_the_fold_say_so(page):
    fold = page.locator("details.fold").first
    inside = page.get_by_text("There are forty")
    expect(inside).to_be_hidden()
    fold.locator("summary").press("Enter")
    expect(inside).to_be_visible()
    fold.locator("summary").press("Space")
    expect(inside).to_be_hidden()


def test_a_link_inside_opens_it_however_often(page):
    inside = page.get_by_text("So it is.")
    for _ in range(2):
        page.get_by_role("link", name="how many").click()
        inside.wait_for()
        page.wait_for_function("document.querySelector('#inside').getBoundingClientRect().top < innerHeight")
        page.locator("details.fold summary").first.press("Enter")
        expect(inside).to_be_hidden()


def test_who_comes_with_a_link_inside_finds_it_open(page, small):
    page.goto("about:blank")
    page.goto((small / "page.html").as_uri() + "#inside")
    page.get_by_text("So it is.").wait_for()
    expect(page.locator("details.fold[open]")).to_have_count(1)


def test_search_leads_to_the_fold_and_opens_it(page, small):
    page.goto((small / "search.html").as_uri() + "?q=prose")
    page.get_by_role("link", name="Ask: Then count them").click()
    page.get_by_text("There are forty").wait_for()


def test_on_paper_it_is_open_and_light_and_then_as_it_was(page):
    page.evaluate("""() => {
        window.seen = [];
        const { dataset } = document.documentElement;
        const look = () => seen.push([dataset.theme, document.querySelectorAll(".fold[open]").length]);
        look();
        addEventListener("beforeprint", look);
        addEventListener("afterprint", () => setTimeout(look));
    }""")
    page.pdf()
    page.wait_for_function("seen.length === 3")
    assert page.evaluate("seen") == [["dark", 0], ["light", 2], ["dark", 0]]
