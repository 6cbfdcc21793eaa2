"""Every page of the site: complete, silent, self-contained, accessible, and at home on a phone."""

from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest
import yaml
from bs4 import BeautifulSoup

from tools.browser import WCAG, axe_violations

ROOT = Path(__file__).resolve().parents[2]


def pages():
    """The pages that the table of contents lists, and the search page."""
    contents = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))

    def walk(entry):
        if "file" in entry:
            yield entry["file"] + ".html"
        for part in ("parts", "chapters", "sections"):
            for inner in entry.get(part, []):
                yield from walk(inner)

    return [contents["root"] + ".html", *walk(contents), "search.html"]


PAGES = pages()


@pytest.mark.parametrize("door", ["http", "file"])
@pytest.mark.parametrize("path", PAGES)
def test_it_asks_for_nothing_from_elsewhere_and_complains_of_nothing(visit, path, door):
    arrived = visit(path, door=door)
    arrived.open_everything()
    arrived.page.keyboard.press("End")
    arrived.settle()
    assert arrived.requests
    assert arrived.elsewhere() == []
    assert arrived.complaints == []


@pytest.mark.parametrize("width", [1280, 360])
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("path", PAGES)
def test_it_is_accessible(visit, path, theme, width):
    arrived = visit(path, theme=theme, width=width)
    arrived.shoot(f"{path.removesuffix('.html')}-{theme}-{width}")
    arrived.open_everything()
    assert arrived.page.locator("html").get_attribute("data-theme") == theme
    # All that the dark theme changes is colours.
    rules = WCAG if theme == "light" else ["color-contrast"]
    assert axe_violations(arrived.page, rules) == []


@pytest.mark.parametrize("path", PAGES)
def test_nothing_is_wider_than_a_phone(visit, path):
    arrived = visit(path, width=360)
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert arrived.page.evaluate(wide) == 0
    arrived.open_everything()
    assert arrived.page.evaluate(wide) == 0


def test_the_front_door_leads_to_the_landing_page(visit):
    for door in ("http", "file"):
        arrived = visit("book/notation.html", door=door)
        arrived.page.goto(arrived.home + "index.html", wait_until="commit")
        arrived.page.wait_for_url("**/notebooks/index.html")


def test_the_colours_can_be_chosen_and_are_remembered(visit):
    arrived = visit("book/notation.html", theme="light")
    switch = arrived.page.get_by_role("button", name="Colours")
    seen = []
    for _ in range(3):
        switch.press("Enter")
        seen.append(
            (
                arrived.page.locator("html").get_attribute("data-mode"),
                arrived.page.locator("html").get_attribute("data-theme"),
            )
        )
    assert sorted(seen) == [("auto", "light"), ("dark", "dark"), ("light", "light")]
    while arrived.page.locator("html").get_attribute("data-mode") != "dark":
        switch.press("Enter")
    arrived.page.reload()
    assert arrived.page.locator("html").get_attribute("data-theme") == "dark"


@pytest.mark.parametrize("door", ["http", "file"])
def test_search_finds_a_word(visit, door):
    arrived = visit("search.html?q=permutation", door=door)
    arrived.page.locator("#search-results li a").first.wait_for()
    found = arrived.page.locator("#search-results li a").all_inner_texts()
    assert any("Glossary" in title for title in found)
    assert arrived.elsewhere() == []
    assert arrived.complaints == []


def test_the_keyboard_comes_first_to_a_link_past_the_navigation(visit):
    arrived = visit("book/notation.html")
    arrived.page.keyboard.press("Tab")
    focused = arrived.page.evaluate("document.activeElement.textContent.trim()")
    assert focused == "Skip to main content"


# --- read as files ---


@pytest.fixture(scope="module")
def documents(site):
    """Every page, parsed. (The theme leaves templates in _static; they are no pages.)"""
    paths = (path for path in site.rglob("*.html") if "_static" not in path.parts)
    return {path: BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser") for path in paths}


def test_every_page_is_built(site):
    for path in PAGES:
        assert (site / path).exists(), path


def test_no_link_within_the_site_is_broken(site, documents):
    anchors = {path: {tag["id"] for tag in page.select("[id]")} for path, page in documents.items()}
    broken = []
    for path, document in documents.items():
        for tag in document.select("[href], [src]"):
            address, anchor = urldefrag(tag.get("href") or tag.get("src") or "")
            if "://" in address or address.startswith(("mailto:", "data:")):
                continue
            target = (path.parent / unquote(address.partition("?")[0])).resolve() if address else path
            if not target.is_file() or (
                anchor and target in anchors and unquote(anchor) not in anchors[target]
            ):
                broken.append(f"{path.relative_to(site)}: {tag.get('href') or tag.get('src')}")
    assert broken == []


def test_links_elsewhere_are_secure_and_only_links(site, documents):
    for path, document in documents.items():
        for tag in document.select("[href*='://'], [src*='://']"):
            assert tag.name == "a", f"{path.relative_to(site)}: {tag}"
            assert tag["href"].startswith("https://"), f"{path.relative_to(site)}: {tag}"


def test_every_picture_says_what_it_shows(site, documents):
    for path, document in documents.items():
        for picture in document.select("article img"):
            assert picture.get("alt", "").strip(), f"{path.relative_to(site)}: {picture}"
            assert "png" not in picture["alt"], f"{path.relative_to(site)}: {picture}"
        for drawing in document.select("article svg, article [role=img]"):
            labelled = drawing if drawing.get("role") == "img" else drawing.find_parent(attrs={"role": "img"})
            name = labelled and (
                labelled.get("aria-label") or labelled.get("aria-labelledby") or labelled.find("title")
            )
            hidden = drawing.get("aria-hidden") == "true"
            assert name or hidden, f"{path.relative_to(site)}: {str(drawing)[:200]}"


def test_without_a_repository_no_button_leads_nowhere(documents):
    for path, document in documents.items():
        assert not document.select("[href*='mybinder'], [href*='colab.research'], [href*='/issues/new']"), (
            path
        )
