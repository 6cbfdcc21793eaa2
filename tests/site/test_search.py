"""Tests search as the reader types, the marks on a page that was found, and the definitions that terms show."""

import json
import re

import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import expect

from tools.shared.browser import axe_violations, contrast_violations

CHAPTER = "notebooks/04-putting-order-in.html"
MARKED = "() => CSS.highlights.get('found')?.size ?? 0"
FOUND = """(queries) => queries.map((query) => {
  const field = document.querySelector("main input");
  field.value = query;
  field.dispatchEvent(new Event("input"));
  return [...document.querySelectorAll(".found a")].map((link) => link.getAttribute("href"));
})"""
SPELLINGS = [
    ["fine-tuning", "Fine tuning", "finetuning", "(FINE-TUNINGS)", "the fíne‑tuning?"],
    ["RMSNorm", "RMS norm", "rms-norms", "rms_norm"],
    ["max tokens", "max_tokens"], ["forget", "forgot", "forgotten"],
]  # fmt: skip
KINDS = ["/glossary.html#", "/notebooks/0", "/api.html#glassformer-"]  # the last are not single objects


def texts(site, name):
    return json.loads((site / f"_static/texts/{name}.js").read_text("ascii").split(" = ", 1)[1])


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("door", "theme", "width"), [("http", "dark", 360), ("file", "light", 1280)])
def test_what_is_typed_is_found_opened_by_keyboard_and_marked_until_escape(visit, door, theme, width):
    arrived = visit(CHAPTER, door=door, theme=theme, width=width)
    page = arrived.page
    assert not [url for url in arrived.requests if re.search("search|texts", url)]
    page.keyboard.press("Control+K")
    field = page.locator(".search-button__search-container input")
    field.press_sequentially("context window")
    expect(page.get_by_role("status")).to_have_text(re.compile(r"^Places found: \d+\.$"))
    links = page.locator(".found a")
    expect(links.first).to_have_text("context length")
    for place in page.locator(".found li").all():
        place.scroll_into_view_if_needed()
        expect(place.locator("p")).not_to_be_empty()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert arrived.elsewhere() == arrived.complaints == []
    if door == "http":  # from disk, axe may not read stylesheets
        assert axe_violations(page) == contrast_violations(page) == []
    for key, focused in (("ArrowDown", links.first), ("ArrowDown", links.nth(1)), ("Escape", field)):
        page.keyboard.press(key)
        expect(focused).to_be_focused()
    links.first.press("Enter")
    page.wait_for_url("**/book/glossary.html#context-length")
    page.wait_for_function(f"({MARKED})() > 0")
    page.locator("body").press("Escape")
    page.wait_for_function(f"({MARKED})() === 0")
    page.reload()
    arrived.settle()
    assert page.evaluate(MARKED) == 0


def test_marks_are_whole_words_and_go_when_the_reader_goes_on(visit):
    assert visit(f"{CHAPTER}?highlight=rag").page.evaluate(MARKED) == 0  # although averages are there
    page = visit(f"{CHAPTER}?highlight=averag*").page
    assert page.evaluate(MARKED) > 0
    page.evaluate("location.hash = 'rotation'")
    page.wait_for_function(f"({MARKED})() === 0")


@pytest.fixture
def found(visit):
    """Provides found(queries): for each of them, the addresses that are found."""
    page = visit("search.html?q=word").page
    page.locator(".found a").first.wait_for()
    return lambda queries: page.evaluate(FOUND, queries)


@pytest.mark.weekly
def test_every_name_in_the_glossary_is_found_by_all_and_by_most_of_its_words(site, found):
    entries, aliases = texts(site, "glossary").values()
    for more in ("", " zebrafish"):
        names = [name + more for name in aliases]
        for name, entry, hrefs in zip(names, aliases.values(), found(names), strict=True):
            terms = [href.partition("#")[2] for href in hrefs if "/glossary.html#" in href]
            assert entry in terms[:2], name
            assert not [term for term in terms if entries[term] in entries], name


def test_hyphens_case_accents_and_forms_make_no_difference(found):
    for spellings in SPELLINGS:
        assert len({hrefs[0] for hrefs in found(spellings)}) == 1, spellings


def test_terms_come_before_chapters_and_the_package_comes_last_unless_it_is_named(found):
    for hrefs in found(["rank", "checkpoint", "adapter"]):
        first = [next(at for at, href in enumerate(hrefs) if kind in href) for kind in KINDS]
        assert first == sorted(first)
    assert "#glassformer" in found(["KeyValueCache"])[0][0]


def test_a_word_is_found_by_its_beginning_but_not_by_its_end(visit):
    page = visit("search.html?q=verage").page
    expect(page.get_by_role("status")).to_contain_text("The book does not have every word")
    page.locator("main input").fill("avera")  # as while it is being typed
    expect(page.locator(".found a", has_text="average").first).to_be_visible()


def test_every_section_has_an_excerpt_that_answers_no_prediction(site):
    folds = {}
    for page in (site / "notebooks").glob("*.html"):
        said = texts(site, f"notebooks-{page.stem}")
        assert all(said.values())
        document = BeautifulSoup(page.read_text("utf-8"), "html.parser")
        folds |= {fold["id"]: said[fold["id"]] for fold in document.select("details[data-predict]")}
    assert set(folds.values()) == {"Decide first: this comes after a prediction."}


def test_definitions_are_those_of_the_glossary(site):
    entries, aliases = texts(site, "glossary").values()
    assert len(entries) == (site / "_sources/book/glossary.md").read_text("utf-8").count("\n## ")
    assert not [said for said in entries.values() if "<a" in said or "()" in said]
    assert entries["kv-cache"] == aliases["KV cache"] == "key-value-cache"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("door", "theme", "width"), [("http", "light", 1280), ("file", "dark", 360)])
def test_a_term_shows_its_definition(visit, door, theme, width):
    arrived = visit(CHAPTER, door=door, theme=theme, width=width, has_touch=width < 500)
    page, card = arrived.page, arrived.page.locator("#definition")
    link = page.locator("article a[href$='glossary.html#key']").first  # at the end of a line
    link.evaluate("link => link.focus({ focusVisible: true })")
    expect(card).to_contain_text("The vector by which")
    expect(link).to_have_attribute("aria-describedby", "definition")
    page.keyboard.press("Escape")
    expect(card).to_be_hidden()
    link.evaluate("link => link.blur()")
    link.tap() if width < 500 else link.hover()
    expect(card).to_be_visible()
    assert 0 <= card.bounding_box()["x"] <= width - card.bounding_box()["width"]
    assert arrived.elsewhere() == arrived.complaints == []
    assert axe_violations(page) == contrast_violations(page) == []
    if width < 500:
        card.get_by_role("link", name="Open the glossary").tap()
        page.wait_for_url("**/book/glossary.html#key")
    else:
        page.clock.install()
        card.hover()
        page.clock.run_for(1000)
        expect(card).to_be_visible()
        page.locator("article h1").first.hover()
        expect(card).to_be_hidden()
