"""Tests how readers find their way: parts, numbers, practice in the side bar, previous and next, links to chapters."""

import re

import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import expect

from glassformer import contents
from glassformer.chapter_links import mentioned
from tools.extensions.prev_next import neighbours
from tools.shared import chapter_facts

CHAPTERS = chapter_facts.written()
CHAPTER = "notebooks/04-putting-order-in.html"


@pytest.fixture(scope="module")
def page(site):
    """Provides page("notebooks/04-putting-order-in"), which is that page, parsed."""
    return lambda name: BeautifulSoup((site / f"{name}.html").read_text(encoding="utf-8"), "html.parser")


def around(found):
    """Returns what a page calls previous and next, and where they lead."""
    shown = [found.select_one(f".prev-next-area .{side}") for side in ("left-prev", "right-next")]
    for link, rel in zip(
        shown, ("prev", "next"), strict=True
    ):  # what the browser is told is what the reader sees
        told = found.select_one(f"link[rel={rel}]")
        assert (told and told["href"]) == (link and link["href"])
    return [link and (link.select_one(".prev-next-title").get_text(), link["href"]) for link in shown]


def test_the_side_bar_has_the_parts_and_each_practice_folded_under_its_chapter(page):
    bar = page("book/notation").select_one("nav.bd-links")
    captions = [caption.get_text(strip=True) for caption in bar.select("p.caption")]
    parts = contents.parts()
    assert captions == [*(part.heading for part in parts), "Experiments", "To look things up"]
    for part, caption in zip(parts, bar.select("p.caption"), strict=False):
        items = caption.find_next_sibling("ul").find_all("li", recursive=False)
        pages = [one for one in part.chapters if one.written]
        assert [item.a.get_text(strip=True) for item in items] == [one.heading for one in pages]
        for item, one in zip(items, pages, strict=True):
            [fold] = item.find_all("details")
            [below] = fold.select("li > a")
            assert not fold.has_attr("open")
            assert below.get_text(strip=True) == f"{one.number} · Practice"
            assert below["href"].endswith(f"/{one.practice_name}.html")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("place", range(len(CHAPTERS)), ids=[one.number for one in CHAPTERS])
@pytest.mark.parametrize("is_practice", [False, True], ids=["chapter", "practice"])
def test_a_page_has_its_number_its_open_fold_and_its_neighbours(page, place, is_practice):
    one = CHAPTERS[place]
    name, heading = (one.practice_name, one.practice_heading) if is_practice else (one.name, one.heading)
    found = page(f"notebooks/{name}")
    assert found.h1.find(string=True) == heading
    assert found.title.get_text(strip=True) == f"{heading} — Glassformer"

    folds = found.select("nav.bd-links details[open]")
    assert [fold.find_parent("li").a.get_text(strip=True) for fold in folds] == [one.heading]

    up = "../" if is_practice else ""
    chapters = [("Glassformer", "index.html")]
    chapters += [(each.heading, f"{each.name}.html") for each in CHAPTERS]
    chapters += [("A tournament of positions", "experiments/positions.html")]
    before, after = (chapters[place + 1] if is_practice else chapters[place]), chapters[place + 2]
    assert around(found) == [(title, up + address) for title, address in (before, after)]

    assert_mentions_are_links(found, None if is_practice else one.number)


def test_a_page_that_is_no_chapter_leads_to_its_neighbours(page):
    assert around(page("notebooks/index")) == [None, ("00 · Start here", "00-start-here.html")]
    assert around(page("notebooks/experiments/positions"))[0] == (
        CHAPTERS[-1].heading,
        f"../{CHAPTERS[-1].name}.html",
    )


def test_neighbours_go_past_every_practice():
    pages = [
        "notebooks/index",
        "notebooks/a",
        "notebooks/exercises/a",
        "notebooks/b",
        "notebooks/exercises/b",
    ]
    assert neighbours("notebooks/index", pages) == (None, "notebooks/a")
    assert neighbours("notebooks/exercises/a", pages) == ("notebooks/a", "notebooks/b")
    assert neighbours("notebooks/b", pages) == ("notebooks/a", None)
    assert neighbours("notebooks/exercises/b", pages) == ("notebooks/b", None)


def assert_mentions_are_links(found, own=None):
    """Asserts that every chapter that a page mentions, but its own, is a link to it; takes the page apart."""
    article = found.select_one("article")
    for code in article.select(
        "pre, code, script, .cell_input, .cell_output, .math, h1, h2, h3, h4, summary, .headerlink"
    ):
        code.decompose()
    for link in article.select("a[href]"):
        numbers = set(mentioned(link.get_text()))
        to = re.search(r"(\d\d)-[a-z-]+\.html", link["href"])
        assert not to or numbers <= {to[1]}, link
        link.decompose()
    assert set(mentioned(article.get_text())) <= {own}


@pytest.mark.parametrize(
    "name",
    ["notebooks/index", "notebooks/experiments/positions"]
    + [
        f"book/{name}"
        for name in ("api", "glossary", "notation", "reference", "claims", "pitfalls", "models", "parity")
    ],
)
def test_every_chapter_that_a_page_mentions_is_a_link_to_it(page, name):
    assert_mentions_are_links(page(name))


def test_the_glossary_leads_to_the_chapters(page):
    links = page("book/glossary").select("article a[href='../notebooks/04-putting-order-in.html']")
    assert "Chapter 04" in {link.get_text() for link in links}


# In a browser


@pytest.mark.parametrize(("width", "touch"), [(1280, False), (390, True)])
def test_a_practice_is_unfolded_by_keyboard_or_touch(visit, width, touch):
    arrived = visit(CHAPTER, width=width, has_touch=touch)
    tab = arrived.page
    if touch:
        tab.locator(".primary-toggle").first.tap()
        arrived.settle()
    bar = tab.get_by_role("navigation", name="Chapters")
    fold, practice = (
        bar.get_by_label("what belongs to 07 · The block"),
        bar.get_by_role("link", name="07 · Practice"),
    )
    expect(bar.get_by_role("link", name="04 · Practice")).to_be_visible()
    expect(practice).to_be_hidden()
    if touch:
        fold.tap()
    else:
        bar.get_by_role("link", name="07 · The block").focus()
        tab.keyboard.press("Tab")
        expect(fold).to_be_focused()
        tab.keyboard.press("Enter")
    expect(practice).to_be_visible()
    if touch:
        practice.tap()
    else:
        tab.keyboard.press("Tab")
        expect(practice).to_be_focused()
        tab.keyboard.press("Enter")
    tab.wait_for_url("**/notebooks/exercises/07-practice.html")
    expect(tab.locator("nav.bd-links [aria-current=page]")).to_have_text("07 · Practice")


def test_what_is_folded_is_not_on_the_way_of_the_keyboard(visit):
    arrived = visit(CHAPTER)
    bar = arrived.page.get_by_role("navigation", name="Chapters")
    bar.get_by_label("what belongs to 07 · The block").focus()
    arrived.page.keyboard.press("Tab")
    expect(bar.get_by_role("link", name="08 · A complete GPT")).to_be_focused()


def test_search_shows_numbers(visit):
    arrived = visit("search.html?q=bucket")
    found = arrived.page.locator("#search-results li a")
    expect(found.filter(has_text="04 · Practice: putting order in").first).to_be_visible()


def test_only_a_page_that_was_found_marks_the_words_of_a_search(visit):
    page = visit("search.html?q=bucket").page
    first = page.locator("#search-results li a").first
    first.wait_for()
    address = first.evaluate("link => link.href")
    page.goto(address)
    page.locator("article h1").wait_for()
    assert page.evaluate("CSS.highlights.size") == 0
    page.go_back()
    first.click()
    page.wait_for_function("CSS.highlights.size === 1")
