"""Tests the routes through the book: their table, the pages on a route, and the questions that tell where to begin."""

import json
import tomllib
from functools import cache
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import expect

from glassformer import contents
from tools.shared import routes
from tools.shared.browser import axe_violations, contrast_violations

ROUTES = {one.name: one for one in routes.routes()}
EVENING = ROUTES["evening"].stops
QUESTIONS = tomllib.loads((routes.ROOT / "book" / "where-to-begin.toml").read_text("utf-8"))["question"]
CHAPTER = EVENING[4]  # of which sections are read


@cache
def parsed(file):
    return BeautifulSoup(file.read_text("utf-8"), "html.parser")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ROUTES)
def test_every_page_and_section_of_a_route_exists(site, name):
    stops = ROUTES[name].stops
    assert len({stop.page for stop in stops}) == len(stops)
    for stop in stops:
        page = parsed(site / f"{stop.page}.html")
        for heading, anchor in stop.sections:
            assert page.select_one(f"section#{anchor} > h2").find(string=True, recursive=False) == heading


def test_times_are_sums_and_parts_of_chapters():
    for one in ROUTES.values():
        assert one.minutes == sum(stop.minutes for stop in one.stops)
    chapters = [one for one in contents.chapters() if one.written]
    assert ROUTES["book"].minutes == sum(one.minutes for one in chapters)
    assert 90 <= ROUTES["evening"].minutes <= 135


def test_a_section_takes_its_share_of_words_and_views():
    text = "one two\n## A\nx x\nwidgets.View()\n```\n## no heading\n```\n## B\ny\n### C\nz"
    assert routes._sizes(text) == {"": 2, "A": 10 + routes.A_VIEW, "B": 6}
    with pytest.raises(KeyError, match="No such"):
        routes._stop(chapter="00", sections=("No such",))


def test_a_route_to_a_missing_page_is_left_out(monkeypatch, tmp_path):
    (tmp_path / "book").mkdir()
    for name in ("routes.toml", "chapters"):
        (tmp_path / "book" / name).symlink_to(routes.ROOT / "book" / name)
    monkeypatch.setattr(routes, "ROOT", tmp_path)
    assert {"2023", "words"} & {one.name for one in routes.routes()} == set()
    (tmp_path / "book" / "words.md").touch()
    assert "words" in {one.name for one in routes.routes()}


def test_links_of_the_first_page_begin_routes(site):
    page = BeautifulSoup((site / "notebooks/index.html").read_text("utf-8"), "html.parser")
    items = page.select("#ways-through-the-book > ul > li")
    begun = [item.select_one("strong a") for item in items]
    assert [link.get_text() for link in begun] == [one.title for one in ROUTES.values()]
    assert [link["href"].partition("?")[2] for link in begun] == [f"route={name}" for name in ROUTES]
    path = [link["href"] for link in items[0].select("p:nth-of-type(3) a")]
    addresses = [f"{Path(stop.page).name}.html?route=evening" for stop in EVENING[1:]]
    assert [Path(address).name for address in path] == ["index.html?route=evening", *addresses]
    assert "All chapters" in page.select_one("#what-is-in-it").get_text()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("door", ["http", "file"])
def test_next_and_previous_lead_along_a_route(visit, door):
    page = visit("notebooks/index.html", door=door).page
    page.locator("#ways-through-the-book li strong a").first.click()
    for place, stop in list(enumerate(EVENING))[1:]:
        page.wait_for_url(f"**/{stop.page}.html?route=evening")
        said = f"One evening · {place + 1} of {len(EVENING)} · {stop.minutes} min"
        expect(page.locator("nav.route strong")).to_have_text(said)
        before = page.locator(".left-prev")
        expect(before).to_have_attribute("href", f"{before.evaluate('link => link.pathname')}?route=evening")
        assert before.evaluate("link => link.pathname").endswith(f"{EVENING[place - 1].page}.html")
        page.locator(".right-next").click()
    page.wait_for_url("**/notebooks/index.html#ways-through-the-book")
    expect(page.locator("nav.route")).to_have_count(0)


def test_sections_lead_on_and_links_keep_the_route_until_it_is_left(visit):
    arrived = visit(f"{CHAPTER.page}.html?route=evening#{CHAPTER.sections[1][1]}", width=360)
    page = arrived.page
    on = page.locator("p.route a")
    expect(on).to_have_text([CHAPTER.sections[1][0], EVENING[5].title])
    on.first.evaluate("link => link.click()")
    page.wait_for_url(f"**?route=evening#{CHAPTER.sections[1][1]}")
    hrefs = page.locator("article a[href*='02-tokens']").evaluate_all("all => all.map((link) => link.search)")
    assert hrefs
    assert set(hrefs) == {"?route=evening"}
    assert set(
        page.locator("article a[href*='glossary']").evaluate_all("all => all.map((l) => l.search)")
    ) == {""}
    assert page.evaluate("localStorage['glassformer.route: evening']") == "4"
    page.get_by_role("link", name="Leave this route").click()
    page.wait_for_url(f"**/{CHAPTER.page}.html#*")
    expect(page.locator(".route")).to_have_count(0)
    expect(page.locator(".right-next .prev-next-title")).to_have_text(contents.chapter("04").heading)
    assert page.evaluate("localStorage['glassformer.route: evening']") is None
    assert arrived.complaints == []


@pytest.mark.sampled(4)
@pytest.mark.parametrize("query", ["?route=weekly", "?route=toString", "?route=2023", ""])
def test_a_page_without_such_a_route_is_as_it_is(visit, query):
    arrived = visit(f"{CHAPTER.page}.html{query}")
    page = arrived.page
    expect(page.locator(".right-next .prev-next-title")).to_have_text(contents.chapter("04").heading)
    expect(page.locator(".route")).to_have_count(0)
    assert arrived.complaints == []


# Where to begin


def answer(page, choices):
    """Chooses an option for each question, by keyboard, and asks."""
    for number, choice in enumerate(choices, 1):
        page.locator(f"input[name=q{number}][value='{choice}']").press("Space")
    page.get_by_role("button", name="Where should I begin?").press("Enter")
    return page.locator(".begin-result")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("door", ["http", "file"])
def test_the_first_gap_tells_where_to_begin(visit, door):
    page = visit("book/where-to-begin.html", door=door, width=360).page
    right = [one["right"] for one in QUESTIONS]
    for gap, one in enumerate(QUESTIONS):
        said = answer(page, [-1 if i == gap else choice for i, choice in enumerate(right)])
        expect(said).to_contain_text(
            f"Begin with {contents.chapter(one['chapter']).heading}. This chapter {one['teaches']}."
        )
        expect(said.locator("a")).to_have_count(1)
    expect(answer(page, right)).to_contain_text("You know all of this already.")
    wrong = answer(page, [-1 for _ in right])
    expect(wrong.locator("a")).to_have_count(len({one["chapter"] for one in QUESTIONS}))
    expect(wrong).to_contain_text(f"Begin with {contents.chapter('00').heading}.")
    expect(wrong).to_be_focused()
    page.reload()
    expect(page.locator("input:checked")).to_have_count(len(QUESTIONS))  # the answers are kept
    page.get_by_role("button", name="Start again").click()
    expect(page.locator("input:checked")).to_have_count(0)
    answer(page, right)
    page.goto(page.url.replace("where-to-begin", "progress"))
    expect(page.locator(".progress-next")).to_contain_text(
        "Choose a way through the book"
    )  # nothing was done


def test_the_form_is_accessible_and_fits_a_phone(visit):
    page = visit("book/where-to-begin.html", width=360).page
    expect(answer(page, [-1 for _ in QUESTIONS])).not_to_be_empty()
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
    assert axe_violations(page) == []
    for theme in ("light", "dark"):
        page.evaluate("theme => (document.documentElement.dataset.theme = theme)", theme)
        assert contrast_violations(page) == []


def test_progress_shows_the_place_on_a_route(visit):
    kept = json.dumps({"glassformer.route: evening": "4", "glassformer.route: book": "99"})
    script = f"for (const [key, text] of Object.entries({kept})) localStorage[key] = text"
    page = visit("book/progress.html", script=script).page
    first = page.locator(".progress-next li").first
    left = sum(stop.minutes for stop in EVENING[4:])
    expect(first).to_have_text(
        f"One evening: you are on page 5 of {len(EVENING)}, {CHAPTER.title}. "
        f"About {left} of {ROUTES['evening'].minutes} minutes lie ahead."
    )
    expect(page.locator(".progress-next .bar")).to_have_count(1)
    first.locator("a").click()
    page.wait_for_url(f"**/{CHAPTER.page}.html?route=evening")
