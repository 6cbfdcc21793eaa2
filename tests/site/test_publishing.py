"""Tests what a published site has besides its pages, and what its pages say about themselves."""

import re
from xml.etree import ElementTree

import pytest
from bs4 import BeautifulSoup
from hypothesis import given, strategies
from PIL import Image
from small_site import build

from glassformer.figures import style
from tools import book
from tools.extensions.clean_html import PLAIN, SHRINKS, tidy
from tools.shared.moved_pages import MOVED

HOME = "https://example-owner.github.io/glassformer/"
TEXT = (
    "# A page\n\nThe first paragraph is a sentence that says what this page is about, so it describes it.\n"
)


@pytest.mark.parametrize(
    ("repository", "expected"),
    [
        ("https://github.com/Example-Owner/glassformer", HOME),
        ("https://github.com/example-owner/glassformer.git", HOME),
        ("https://github.com/example-owner/glassformer/", HOME),
        ("https://github.com/example-owner/example-owner.github.io", "https://example-owner.github.io/"),
        ("https://gitlab.com/example-owner/glassformer", None),
    ],
)
def test_the_address_of_the_site_follows_from_that_of_the_repository(repository, expected):
    assert book.address(repository) == expected


def test_only_a_published_site_says_when_its_cells_were_last_compared():
    assert "was built with Python 3." in book.verified(None)
    assert "run and compared on" in book.verified("https://github.com/example-owner/glassformer")


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """Returns the folder of a site of one page, built as the publishing workflow does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GLASSFORMER_REPOSITORY", "https://github.com/example-owner/glassformer")
        root = tmp_path_factory.mktemp("published")
        return build(root, lambda root: (root / "page.md").write_text(TEXT, encoding="utf-8"))


def head(file):
    page = BeautifulSoup(file.read_text("utf-8"), "html.parser")
    said = {tag.get("property") or tag.get("name"): tag["content"] for tag in page.select("meta[content]")}
    return page, said


def test_a_page_says_what_it_is_and_where(published):
    page, said = head(published / "page.html")
    assert said["description"] == said["og:description"] == TEXT.splitlines()[2]
    assert said["og:title"] == "A page"
    assert said["og:url"] == page.select_one("link[rel=canonical]")["href"] == f"{HOME}page.html"
    assert said["og:image"] == f"{HOME}_static/card.png"
    with Image.open(published / "_static" / "card.png") as card:
        assert card.size == (1200, 630)


def test_the_address_that_people_share_says_what_it_leads_to(published):
    page, said = head(published / "page.html")
    door, says = head(published / "index.html")
    assert door.title.get_text() == page.title.get_text()
    del says[None]  # where it leads
    assert {name: value for name, value in said.items() if name in says} == says
    assert {"description", "og:title", "og:image", "twitter:card"} <= set(says)
    assert door.select_one("link[rel=canonical]")["href"] == f"{HOME}page.html"
    assert door.select_one("body a")["href"] == "page.html"
    assert "url=page.html" in door.select_one("meta[http-equiv]")["content"]


def test_an_address_that_has_moved_says_what_it_leads_to(site):
    for old, new in MOVED.items():
        door, says = head(site / f"{old}.html")
        page, said = head(site / f"{new}.html")
        assert door.title.get_text() == page.title.get_text()
        assert says["description"] == said["description"]
    assert not {*MOVED} & {*MOVED.values()}


@pytest.mark.parametrize(("door", "script"), [("http", True), ("file", True), ("file", False)])
def test_an_address_that_has_moved_leads_on_with_what_follows_it(visit, door, script):
    after = "?from=elsewhere#quiz" if script else ""
    arrived = visit(f"notebooks/exercises/03-attention.html{after}", door=door, java_script_enabled=script)
    arrived.page.wait_for_url("**/03-practice.html**")
    assert arrived.page.url == f"{arrived.home}notebooks/exercises/03-practice.html{after}"
    assert arrived.complaints == []


def test_search_engines_get_a_list_of_the_pages(published):
    found = ElementTree.parse(published / "sitemap.xml").getroot()
    assert [place.text for place in found.iter() if place.tag.endswith("loc")] == [f"{HOME}page.html"]
    assert f"Sitemap: {HOME}sitemap.xml" in (published / "robots.txt").read_text("utf-8")


def test_an_unknown_address_leads_back_from_any_folder(published):
    page, said = head(published / "404.html")
    assert page.base["href"] == "/glassformer/404.html"
    assert said["robots"] == "noindex"
    assert page.select_one("article h1").get_text() == "There is no such page"
    assert [link["href"] for link in page.select("article p a")] == ["page.html", "search.html"]


def test_a_copy_of_the_project_does_not_say_where_it_is(site):
    page, said = head(site / "notebooks" / "index.html")
    assert said["description"]
    assert not {"og:url", "og:image"} & set(said)
    assert not page.select("link[rel=canonical]")
    assert not (site / "sitemap.xml").exists()


def test_ids_of_drawings_are_unique_and_what_refers_to_them_still_does():
    drawing = '<svg><g id="figure_1"><path id="p"/><use xlink:href="#p"/><g clip-path="url(#p)"/></g></svg>'
    found = tidy(drawing + drawing)
    assert found == "".join(
        f'<svg><path id="d{i}-p"/><use xlink:href="#d{i}-p"/><g clip-path="url(#d{i}-p)"/></svg>'
        for i in (1, 2)
    )


def test_comments_and_groups_without_attributes_are_left_out():
    drawing = '<svg><g><!-- a <g> --><g fill="red"><g id="x"><path/></g></g><g/></g></svg>'
    assert tidy(drawing) == '<svg><g fill="red"><path/></g><g/></svg>'


def test_coordinates_of_drawings_are_written_in_hundredths():
    drawing = '<svg><path d="M 1.234567 -0.001234 C 20.5 3.999 1 2 3 4" transform="scale(0.015625)"/></svg>'
    assert tidy(drawing) == '<svg><path d="M 1.23 0 C 20.5 4 1 2 3 4" transform="scale(0.015625)"/></svg>'
    assert tidy("<p>1.234567</p>") == "<p>1.234567</p>"


def test_a_curve_is_written_as_the_way_from_each_point_to_the_next():
    drawing = (
        '<svg><path d="M 10 2.04 \nL 10.5 1.96 \nL 9.501234 12 \nz \nM 5 5 \nL 5 -6 \n" fill="none"/></svg>'
    )
    assert tidy(drawing) == '<svg><path d="M10 2l.5 0-1 10zM5 5l0-11" fill="none"/></svg>'
    drawing = (
        '<svg><text x="7" transform="rotate(-0 7 8)">a</text><text transform="rotate(-90 7 8)">b</text></svg>'
    )
    assert tidy(drawing) == '<svg><text x="7">a</text><text transform="rotate(-90 7 8)">b</text></svg>'


def test_a_drawing_shrinks_until_its_smallest_letters_are_just_readable():
    drawing = (
        '<svg viewBox="0 0 480 200" style="max-width: 100%; height: auto">'
        '<text style="font-size: 12px">a</text><text style="font-size: 8px">b</text></svg>'
    )
    assert tidy(drawing) == drawing.replace("100%", "max(100%, 480px)")
    with_exponent = drawing.replace("b<", 'b<tspan style="font-size: 4px">2</tspan><')
    assert tidy(with_exponent) == with_exponent.replace("100%", "max(100%, 480px)")
    assert "max(" not in tidy(drawing.replace("font-size", "font"))  # nothing is known of it


def test_the_figures_of_the_book_are_such_drawings():
    with style.drawing() as (drawn, axes):
        axes.set_xlabel("step", size=6)
        made = style.as_html(drawn, "A title", "In words")
    assert SHRINKS in made
    assert "max-width: max(100%, " in tidy(made)


COORDINATE = strategies.floats(-2000, 2000).map(lambda number: round(number, 6))
PIECES = strategies.lists(
    strategies.lists(strategies.tuples(COORDINATE, COORDINATE), min_size=2, max_size=60),
    min_size=1,
    max_size=4,
)


@given(PIECES)
def test_no_point_of_a_curve_moves_by_more_than_half_a_tenth(pieces):
    wanted = [point for piece in pieces for point in piece]
    written = "".join(
        " ".join(f"{'L' if i else 'M'} {x:f} {y:f} \n" for i, (x, y) in enumerate(piece)) for piece in pieces
    )
    found, here = [], (0.0, 0.0)
    line = re.search(' d="(.*?)"', tidy(f'<svg><path d="{written}"/></svg>'))[1]
    for command, numbers in re.findall(r"([Ml])([^Ml]*)", line):
        values = [float(number) for number in re.findall(r"-?(?:\d+(?:\.\d+)?|\.\d+)", numbers)]
        for x, y in zip(values[::2], values[1::2], strict=True):
            here = (x, y) if command == "M" else (here[0] + x, here[1] + y)
            found.append(here)
    assert len(found) == len(wanted)
    assert (
        max(abs(a - b) for to, at in zip(found, wanted, strict=True) for a, b in zip(to, at, strict=True))
        < 0.0501
    )


def test_an_empty_header_is_a_cell():
    page = '<th class="head" scope="col"><p></p></th><th>a</th><thead></thead>'
    assert tidy(page) == "<td></td><th>a</th><thead></thead>"


def test_elements_of_code_that_are_left_out_had_the_colour_of_the_text_around_them(site):
    css = (site / "_static" / "pygments.css").read_text("utf-8")
    for theme in ("light", "dark"):

        def colours(selector, theme=theme):
            rule = rf'html\[data-theme="{theme}"\] {re.escape(selector)} {{[^}}]*\bcolor: (#\w+)'
            return set(re.findall(rule, css))

        around = colours(".highlight")
        assert len(around) == 1
        for name in PLAIN:
            assert colours(f".highlight .{name}") == around, (theme, name)
