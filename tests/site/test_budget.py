"""Tests what a visit may cost besides bytes: nothing moves by itself, and views are drawn only when they come near."""

import pytest
from mounting import settle

from glassformer import shipped
from tools.extensions.model_weights import scripts, weights

LANDING, CHAPTER = "notebooks/index.html", "notebooks/04-putting-order-in.html"
PREDICTIONS = "notebooks/00-start-here.html"
AFTER_A_QUIZ = "notebooks/12-three-families.html"  # little follows its quiz

# Keeps count of how far things moved, from the page's first moment.
WATCH = """
window.seen = { moved: 0, what: [] };
new PerformanceObserver((list) => list.getEntries().forEach(({ hadRecentInput, value, sources }) => {
  if (hadRecentInput) return;
  seen.moved += value;
  seen.what.push([value, ...sources.map(({ node }) => node?.outerHTML?.slice(0, 80) ?? node?.textContent)]);
})).observe({ type: "layout-shift", buffered: true });
"""


@pytest.fixture
def watched(visit):
    """Provides visit(path, width=…), which keeps `seen` on the page."""
    return lambda path, **settings: visit(path, script=WATCH, **settings)


SCREENS = 200  # of 600 pixels: longer than any page


# The places of views, but for those that are folded away, such as below a prediction: nobody can see them yet.
HOSTS = """() => [...document.querySelectorAll(".widget-host")]
    .filter((host) => !host.closest("details:not([open])"))"""


def read_to_the_end(arrived):
    """Scrolls to the end, like a reader who wants to see how long the page is.

    The page itself scrolls: a turn of the wheel would go to whatever is under the mouse, which might never respond.
    """
    page = arrived.page
    for _ in range(SCREENS):
        page.evaluate("scrollBy({ top: 600, behavior: 'instant' })")
        settle(page)
        if page.evaluate("scrollY + innerHeight >= document.documentElement.scrollHeight - 1"):
            break
    else:
        pytest.fail(f"after {SCREENS} screens the page has no end")
    page.wait_for_function(f"() => ({HOSTS})().every(({{ dataset }}) => dataset.state !== 'waiting')")
    arrived.settle()


@pytest.mark.parametrize(("path", "width"), [(LANDING, 1280), (CHAPTER, 390), (PREDICTIONS, 390)])
def test_nothing_moves_that_the_reader_does_not_move(watched, path, width):
    arrived = watched(path, width=width)
    read_to_the_end(arrived)
    seen = arrived.page.evaluate("seen")
    assert seen["moved"] <= 0.02, sorted(seen["what"], reverse=True)[:5]


def test_a_reader_who_comes_back_to_answered_predictions_finds_nothing_that_moves(watched):
    arrived = watched(PREDICTIONS, width=390)
    read_to_the_end(arrived)
    cards = arrived.page.locator(".gf-predict")
    assert cards.count() > 2
    for card in cards.all():
        card.get_by_role("button", name="Just show me").press("Enter")
    arrived.page.evaluate("scrollTo({ top: 0, behavior: 'instant' })")
    arrived.page.reload()
    arrived.settle()
    read_to_the_end(arrived)
    seen = arrived.page.evaluate("seen")
    assert arrived.page.locator("details.fold[data-predict][open]").count() == cards.count()
    assert seen["moved"] <= 0.02, sorted(seen["what"], reverse=True)[:5]


@pytest.mark.parametrize("width", [1280, 390])
def test_a_link_past_a_quiz_leads_to_its_heading(visit, width):
    arrived = visit(AFTER_A_QUIZ, width=width)
    section = arrived.page.locator("article section[id]").last
    section.evaluate("section => (location.hash = section.id)")
    arrived.page.locator(".widget-host").last.locator(".gf-question").first.wait_for()
    arrived.settle()
    assert 0 <= section.bounding_box()["y"] < 900


@pytest.mark.parametrize("name", shipped.NAMES)
def test_the_weights_lie_beside_the_pages(site, name):
    folder = site / "_static" / "models"
    assert (folder / f"{name}.bin").read_bytes() == weights(name)
    for script, text in scripts(name, weights(name)).items():
        assert (folder / script).read_text("ascii") == text
