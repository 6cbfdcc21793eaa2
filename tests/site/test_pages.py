"""Tests every page of the site: complete, silent, self-contained, accessible, and readable on a phone."""

import collections
import gzip
import io
import itertools
import re
from dataclasses import dataclass
from urllib.parse import quote, unquote, urldefrag, urlsplit

import numpy as np
import pytest
from bs4 import BeautifulSoup
from markup import shown, written
from PIL import Image
from playwright.sync_api import expect

from tools import notebooks
from tools.assets.math_font import CHARACTERS
from tools.notebooks import ROOT
from tools.shared import chapter_facts
from tools.shared.browser import axe_violations, contrast_violations


def pages():
    """Returns the pages that the table of contents lists, and the search page."""
    contents = chapter_facts.table_of_contents()

    def walk(entry):
        if "file" in entry:
            yield entry["file"] + ".html"
        for part in ("parts", "chapters", "sections"):
            for inner in entry.get(part, []):
                yield from walk(inner)

    return [contents["root"] + ".html", *walk(contents), "search.html"]


PAGES = pages()
PRACTICES = [path for path in PAGES if "/exercises/" in path]
# Every run examines a page of each kind, and every week all are examined.
KINDS = {
    "notebooks/index.html", "notebooks/09-loss-and-the-way-back.html", "notebooks/exercises/03-practice.html",
    "book/notation.html", "search.html",
}  # fmt: skip


def of_each_kind(paths):
    return [path if path in KINDS else pytest.param(path, marks=pytest.mark.weekly) for path in paths]


# What is wider than its box: cut off, or to be scrolled without a shadow to say so. (A field scrolls as one types.)
UNSEEN = """() => {
  const style = (element) => getComputedStyle(element);
  const wide = [...document.querySelectorAll("main *:not(span.math, math, math *, input)")].filter(
    (box) => box.clientWidth && box.scrollWidth > box.clientWidth + 1 && style(box).overflowX !== "visible",
  );
  const silent = wide.filter((box) => !style(box).backgroundImage.includes("gradient"));
  const formulas = [...document.querySelectorAll("span.math:not(.wide)")].filter(
    (formula) =>
      formula.getBoundingClientRect().right > formula.closest("p, td, li, dd, div").getBoundingClientRect().right + 1,
  );
  return { scrolling: wide.length, unseen: [...silent, ...formulas].map((box) => box.outerHTML.slice(0, 200)) };
}"""

# One token of each kind is enough for axe: half of a chapter's 10,000 elements are coloured words of code.
ONE_OF_EACH_TOKEN = """() => {
  const seen = new Set();
  for (const token of document.querySelectorAll(".highlight span")) {
    if (seen.has(token.className)) token.replaceWith(...token.childNodes);
    else seen.add(token.className);
  }
}"""


# The models of the views that are drawn.
NEAR_MODELS = """() => {
  const stored = document.querySelector("script[type='application/vnd.jupyter.widget-state+json']");
  const states = JSON.parse(stored?.textContent ?? '{ "state": {} }').state;
  return [...document.querySelectorAll(".widget-host[data-state=mounted]")]
    .map((host) => states[JSON.parse(host.previousElementSibling.textContent).model_id].state)
    .filter((state) => state._digest)
    .map((state) => state.model);
}"""


@dataclass
class Read:
    """What one visit to a page found; all tests of the page share it."""

    path: str
    asked: set[str]  # before anything was touched
    near: list[str]  # the models of the views that were drawn by then
    elsewhere: list[str]
    complaints: list[str]
    views: dict[str, int]


@pytest.fixture(scope="module", params=[*(p for p in PAGES if p not in PRACTICES), *of_each_kind(PRACTICES)])
def read(opened, request):
    """Reads a page to its end on a screen."""
    path = request.param
    arrived = opened(path)
    page = arrived.page
    asked = {url for url in arrived.requests if url.startswith(arrived.home)}
    near = page.evaluate(NEAR_MODELS)
    arrived.open_everything()
    page.keyboard.press("End")
    arrived.settle()
    arrived.shoot(f"{path.removesuffix('.html')}-1280")
    views = {
        state: page.locator(selector).count()
        for state, selector in {
            "asked": "script[type='application/vnd.jupyter.widget-view+json']",
            "mounted": ".widget-host[data-state=mounted] > .gf-widget",
        }.items()
    }
    opened.windows.pop().close()
    return Read(path, asked, near, arrived.elsewhere(), arrived.complaints, views)


@pytest.fixture(scope="module", params=of_each_kind(PAGES))
def examined(opened, request):
    """Opens a page on a phone, and checks it with axe there and on a screen, in light and dark mode.

    Returns by how much it is too wide, with its folds closed and open, what cannot be seen, and what axe finds.
    """
    path = request.param
    arrived = opened(path, width=360)
    page = arrived.page
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    too_wide = [page.evaluate(wide)]
    arrived.open_everything()
    too_wide.append(page.evaluate(wide))
    found = page.evaluate(UNSEEN)
    print(f"{path}: {found['scrolling']} boxes scroll")
    arrived.shoot(f"{path.removesuffix('.html')}-360")

    page.evaluate(ONE_OF_EACH_TOKEN)
    page.evaluate("scrollTo({ top: 0, behavior: 'instant' })")  # or the page's bar may lie on half a button
    inaccessible = {"on a phone": axe_violations(page, ["target-size", "scrollable-region-focusable"])}
    page.set_viewport_size({"width": 1280, "height": 900})
    arrived.settle()
    inaccessible["on a screen"] = axe_violations(page)
    for theme in ("light", "dark"):
        page.evaluate("theme => (document.documentElement.dataset.theme = theme)", theme)
        arrived.settle()
        inaccessible[theme] = contrast_violations(page)
    opened.windows.pop().close()
    return too_wide, found["unseen"], inaccessible


def test_it_asks_for_nothing_from_elsewhere_and_complains_of_nothing(read):
    assert read.asked
    assert read.elsewhere == []
    assert read.complaints == []


def test_no_view_is_left_asleep(read):
    assert read.views["mounted"] == read.views["asked"]


@pytest.mark.sampled(2)
def test_nothing_is_wider_than_a_phone_and_everyone_can_use_it(examined):
    too_wide, unseen, inaccessible = examined
    assert too_wide == [0, 0]
    assert unseen == []
    assert len(inaccessible) == 4
    assert {where: found for where, found in inaccessible.items() if found} == {}


# Kilobytes and requests. Most requests are for the small modules of views, which the browser keeps for the next page.
# A practice has an editor.
BUDGETS = {
    "notebooks/index.html": (184, 56),  # with what runs experts in the page, 1.7 kB
    "notebooks/04-putting-order-in.html": (210, 54),
    "notebooks/09-loss-and-the-way-back.html": (260, 74),
    "notebooks/10-training.html": (272, 70),
    "notebooks/13-real-models.html": (260, 64),  # with the tables of 141 families, and 32 files
}
OTHERS, WITH_AN_EDITOR = (260, 64), (550, 40)


def test_a_first_visit_is_light(read, doors, site):
    others = WITH_AN_EDITOR if read.path in PRACTICES else OTHERS
    kilobytes, requests = BUDGETS.get(read.path, others)
    early = {url for url in read.asked if "/models/" in url}  # fetched ahead, after everything else
    files = {url: site / unquote(urlsplit(url).path).lstrip("/") for url in read.asked - early}
    sizes = {file.name: len(gzip.compress(file.read_bytes())) / 1000 for file in files.values()}
    print(f"{read.path}: {sum(sizes.values()):.0f} kB in {len(sizes)} requests")
    assert sum(sizes.values()) <= kilobytes, sorted(sizes.items(), key=lambda size: -size[1])[:8]
    assert len(sizes) <= requests, sorted(sizes)
    # No weights but those of a view that the reader is about to see.
    assert {url.rpartition("/")[2] for url in early} <= {f"{model}.bin" for model in read.near}


# Chapters, which have views, are opened from disk in test_widgets.py.
@pytest.mark.parametrize("path", of_each_kind(path for path in PAGES if not re.match(r"notebooks/\d", path)))
def test_from_disk_too_it_asks_for_nothing_from_elsewhere(visit, path):
    arrived = visit(path, door="file")
    assert arrived.elsewhere() == []
    assert arrived.complaints == []


def test_the_front_door_leads_to_the_landing_page(visit):
    for door in ("http", "file"):
        arrived = visit("book/notation.html", door=door)
        arrived.page.goto(arrived.home + "index.html", wait_until="commit")
        arrived.page.wait_for_url("**/notebooks/index.html")


def test_the_colours_can_be_chosen_and_are_remembered(visit):
    arrived = visit("book/notation.html", theme="light")
    switch = arrived.page.get_by_role("button", name="Colours")
    root = arrived.page.locator("html")
    seen = []
    for _ in range(3):
        before = root.get_attribute("data-mode")
        switch.press("Enter")
        expect(root).not_to_have_attribute("data-mode", before)
        seen.append((root.get_attribute("data-mode"), root.get_attribute("data-theme")))
    assert sorted(seen) == [("auto", "light"), ("dark", "dark"), ("light", "light")]
    for mode, _ in seen:  # round once more, as far as to dark
        switch.press("Enter")
        expect(root).to_have_attribute("data-mode", mode)
        if mode == "dark":
            break
    arrived.page.reload()
    expect(root).to_have_attribute("data-theme", "dark")


def test_where_a_page_may_store_nothing_the_switch_works_and_no_view_says_that_it_keeps_something(visit):
    blocked = """Object.defineProperty(window, "localStorage", {
      configurable: true,
      get() { throw new DOMException("", "SecurityError") },
    })"""
    arrived = visit("notebooks/00-start-here.html", script=blocked)
    root = arrived.page.locator("html")
    before = root.get_attribute("data-mode")
    arrived.page.get_by_role("button", name="Colours").press("Enter")
    expect(root).not_to_have_attribute("data-mode", before)
    arrived.open_everything()
    assert arrived.page.locator(".gf-predict").count()
    assert "in this browser" not in arrived.page.locator("article").inner_text()
    assert arrived.complaints == []


SEARCHES = [
    ("temprature", "Temperature", "The book does not have every word of “temprature”."),
    ("how does attention work?", "03 · Attention", ""),
    ("validation_loss", "glassformer.train.validation_loss", "Places found"),  # a name of the package
    ("softmax", "Glossary", "Places found"),  # what it is comes before the package's function
    ("softmx", "softmax", "The book does not have every word of “softmx”."),
    ("atention", "Attention", "The book does not have every word of “atention”."),  # a part of “latent”
    ("temprture", "Temperature", "The book does not have every word of “temprture”."),  # two slips
    ("msak", "mask", "The book does not have every word of “msak”."),  # two letters in the wrong order
    ("LoRA zebrafish", "LoRA", "No place of the book has all words of “LoRA zebrafish”."),
    ("how does it work", "", "Places found"),  # only such words: then they are looked for
]
NOWHERE = "No place of the book has any of these words."


def test_search_finds_a_word_from_disk(visit):
    arrived = visit("search.html?q=permutation", door="file")
    hits = arrived.page.locator("#search-results li")
    expect(hits.filter(has_text="Glossary").first).to_contain_text("permutation")
    assert arrived.elsewhere() == arrived.complaints == []


def test_search_understands_questions_and_slips_and_says_if_there_is_nothing(visit):
    arrived = visit("search.html")
    results = arrived.page.locator("#search-results")
    for query, first, says in SEARCHES:
        arrived.page.goto(f"{arrived.home}search.html?q={quote(query)}")
        expect(results.locator("li").first).to_contain_text(first, ignore_case=True)
        expect(results).to_contain_text(says)
    for word in ("zebrafish", "__proto__"):
        arrived.page.goto(f"{arrived.home}search.html?q={word}")
        expect(results).to_contain_text(NOWHERE)
    # The text of an excerpt may still be on its way when the page is left.
    assert [said for said in arrived.complaints if "/_static/texts/" not in said] == []


@pytest.mark.parametrize("door", ["http", "file"])
def test_what_is_found_is_a_section(visit, door):
    arrived = visit("search.html?q=bucket", door=door)
    # By keyboard: summaries, which come in one by one, move the links under a mouse.
    arrived.page.get_by_role("link", name="A penalty on distance", exact=True).press("Enter")
    arrived.page.wait_for_url("**/notebooks/04-putting-order-in.html#a-penalty-on-distance")
    assert arrived.elsewhere() == arrived.complaints == []
    heading = arrived.page.get_by_role("heading", name="A penalty on distance")
    arrived.page.wait_for_function(
        "heading => { const { top } = heading.getBoundingClientRect(); return top > 0 && top < innerHeight / 2 }",
        arg=heading.element_handle(),
    )


def test_the_magnifier_does_not_lie_on_what_is_searched_for(visit):
    arrived = visit("search.html?q=permutation", width=390)
    beside = """() => {
      const [icon, field] = ["i", "input"].map((name) => document.querySelector(`main .bd-search ${name}`));
      const { left } = field.getBoundingClientRect();
      return left + parseFloat(getComputedStyle(field).paddingLeft) - icon.getBoundingClientRect().right;
    }"""
    assert arrived.page.evaluate(beside) >= 4


def lit(arrived):
    """Returns how many pixels the focus changes on the screen."""
    arrived.settle()
    focused = arrived.page.screenshot(animations="disabled")
    element = arrived.page.evaluate_handle("document.activeElement")
    element.evaluate("element => element.blur()")
    plain = arrived.page.screenshot(animations="disabled")
    element.evaluate("element => element.focus({ preventScroll: true, focusVisible: true })")
    one, other = (
        np.asarray(Image.open(io.BytesIO(shot)).convert("L"), dtype=int) for shot in (focused, plain)
    )
    return int((abs(one - other) > 40).sum())


@pytest.mark.parametrize(
    ("path", "width", "theme", "stops"),
    [
        ("notebooks/04-putting-order-in.html", 1280, "light", 8),
        ("notebooks/index.html", 390, "dark", 6),
        ("search.html", 1280, "dark", 10),
    ],
)
def test_where_the_keyboard_is_can_be_seen(visit, path, width, theme, stops):
    arrived = visit(path, width=width, theme=theme)
    unlit = []
    for _ in range(stops):
        arrived.page.keyboard.press("Tab")
        if lit(arrived) < 60:
            unlit.append(arrived.page.evaluate("document.activeElement.outerHTML.slice(0, 200)"))
    assert unlit == []


def test_a_chapter_can_be_taken_away(visit):
    arrived = visit("notebooks/04-putting-order-in.html")
    arrived.page.get_by_role("button", name="Download this page").press("Enter")
    link = arrived.page.get_by_role("link", name=".ipynb")
    expect(link).to_have_attribute("download", "")  # whatever type a server says that it has
    with arrived.page.expect_download() as taken:
        link.click()
    assert taken.value.suggested_filename == "04-putting-order-in.ipynb"


def test_from_disk_where_browsers_do_not_download_the_page_says_how(visit):
    arrived = visit("notebooks/04-putting-order-in.html", door="file")
    note = arrived.page.get_by_text("Save it from there")
    expect(note).to_be_hidden()
    arrived.page.get_by_role("button", name="Download this page").press("Enter")
    note.wait_for()


def test_without_javascript_a_page_says_what_is_missing_and_is_light(visit, site, documents):
    for path in PAGES[:2]:
        arrived = visit(path, java_script_enabled=False, theme="dark")
        said = arrived.page.locator(".scriptless").all_inner_texts()
        instead = ("move with your hands", "Decide, then open what follows")
        assert sum(any(part in words for part in instead) for words in said) == len(
            documents[site / path].select("script[type='application/vnd.jupyter.widget-view+json']")
        )
        colours = "getComputedStyle(document.body).backgroundColor"
        assert arrived.page.evaluate(colours) == "rgb(255, 255, 255)"


@pytest.mark.parametrize("width", [1280, 390])
def test_the_menu_of_downloads_opens_and_closes(visit, width):
    page = visit("notebooks/03-attention.html", width=width).page
    button, menu = page.get_by_role("button", name="Download this page"), page.locator(".dropdown-menu")
    first = menu.get_by_role("link").first
    for close in (
        lambda: page.keyboard.press("Escape"),
        lambda: page.locator("article h1").first.click(position={"x": 5, "y": 5}),  # beside the menu
        lambda: page.keyboard.press("Shift+Tab") or page.keyboard.press("Shift+Tab"),
        lambda: button.press("Enter"),
    ):
        expect(menu).to_be_hidden()
        button.press("Enter")
        expect(button).to_have_attribute("aria-expanded", "true")
        page.keyboard.press("Tab")
        expect(first).to_be_focused()
        box = menu.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= page.viewport_size["width"]
        close()
    expect(menu).to_be_hidden()
    expect(button).to_have_attribute("aria-expanded", "false")


def test_the_contents_mark_the_section_that_is_read(visit):
    page = visit("notebooks/03-attention.html").page
    links = page.locator(".bd-toc-nav a.nav-link")
    current = page.locator(".bd-toc-nav [aria-current]")
    tops = links.evaluate_all(
        "links => links.map((a) => document.getElementById(a.hash.slice(1)).getBoundingClientRect().top)"
    )
    alone = [
        i
        for i, (top, below) in enumerate(itertools.pairwise(tops))
        if below - top > page.viewport_size["height"]
    ]
    assert len(alone) > 3
    for i in (alone[2], alone[-1], alone[0]):
        links.nth(i).evaluate(
            "a => document.getElementById(a.hash.slice(1)).scrollIntoView({ behavior: 'instant' })"
        )
        expect(current).to_have_text(links.nth(i).inner_text())
        expect(links.nth(i)).to_have_class(re.compile(r"\bactive\b"))


def test_the_keyboard_goes_past_the_buttons_that_copy_code(visit):
    arrived = visit("notebooks/01-the-whole-machine.html")
    buttons = arrived.page.locator(".copybtn")
    expect(buttons.first).to_have_attribute("tabindex", "-1")
    assert buttons.count() == arrived.page.locator(".copybtn[tabindex='-1']").count() > 20


def test_the_keyboard_comes_first_to_a_link_past_the_navigation(visit):
    arrived = visit("book/notation.html")
    arrived.page.keyboard.press("Tab")
    expect(arrived.page.locator(":focus")).to_have_text("Skip to main content")


# --- read as files ---


@pytest.fixture(scope="module")
def documents(site):
    """Returns every page, parsed but for the colours of code. (Templates of the theme in _static are not pages.)"""
    texts = {p: p.read_text(encoding="utf-8") for p in site.rglob("*.html") if "_static" not in p.parts}
    code = re.compile(r'<span class="[a-z]\w{0,2}">([^<]*)</span>')  # a third of all elements
    return {path: BeautifulSoup(code.sub(r"\1", text), "html.parser") for path, text in texts.items()}


def test_formulas_are_set_in_the_page_once_and_in_characters_of_their_font(documents):
    seen = 0
    for path, document in documents.items():
        for formula in document.select(".math"):
            assert [child.name for child in formula.contents] == ["math"], f"{path}: {formula}"
            assert not formula.select("annotation, [alttext]"), f"{path}: {formula}"
            assert set(formula.get_text()) <= set(CHARACTERS), f"{path}: {formula}"
            seen += 1
    assert seen > 900


def test_ids_are_unique_and_headers_have_words(documents):
    for path, document in documents.items():
        ids = collections.Counter(tag["id"] for tag in document.select("[id]"))
        assert not [name for name, count in ids.items() if count > 1], path
        assert not [header for header in document.select("th") if not header.get_text(strip=True)], path


@pytest.mark.sampled(3)
@pytest.mark.parametrize("path", [path for path in PAGES if path != "search.html"])
def test_a_page_shows_the_headings_lists_tables_and_footnotes_of_its_text(site, documents, path):
    text = ROOT / path.replace("notebooks/", "book/chapters/").replace(".html", ".md")
    markdown = text.read_text(encoding="utf-8")
    if path.startswith("notebooks/"):
        cells = notebooks.read_text(text).cells
        markdown = "\n\n".join(cell.source if cell.cell_type == "markdown" else "```\n```" for cell in cells)
    found = written(markdown)
    assert found.headings
    assert shown(documents[site / path].select_one("article")) == found


def test_a_formula_begins_at_the_left_and_scrolls_where_it_is_too_wide(visit):
    for width, least in ((1280, 20), (390, 0)):  # on a phone, formulas need the width
        page = visit("notebooks/09-loss-and-the-way-back.html", width=width).page
        lefts = page.evaluate(
            """() => [...document.querySelectorAll("div.math")].filter((box) => box.checkVisibility()).map((box) =>
                box.firstChild.getBoundingClientRect().left - box.getBoundingClientRect().left)"""
        )
        assert len(lefts) > 3
        assert all(least <= left < 50 for left in lefts)


def test_no_heading_leaves_out_a_level(documents):
    """The build does not warn about this, because folds may leave out levels: tools/extensions/folds.py."""
    for path, document in documents.items():
        levels = [int(heading.name[1]) for heading in document.select("article :is(h1, h2, h3, h4, h5, h6)")]
        for above, below in itertools.pairwise(levels):
            assert below <= above + 1, f"{path}: h{below} after h{above}"


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


def test_without_a_repository_no_button_leads_nowhere_and_the_foot_says_where_copies_are(documents):
    for path, document in documents.items():
        if not document.select("meta[http-equiv=refresh]"):  # an old address
            assert "make lab" in document.select_one("footer.bd-footer-content").get_text(), path
        assert not document.select("[href*='mybinder'], [href*='colab.research'], [href*='/issues/new']"), (
            path
        )
