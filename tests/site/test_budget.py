"""What a visit may cost, beside bytes: a page that moves under the eyes, a browser that does not answer.

Times are bounded loosely, for slow machines that do other things too; `pytest -rP` prints what was measured.
"""

import pytest

from glassformer import shipped
from tools.pages.weights import script

LANDING, CHAPTER = "notebooks/index.html", "notebooks/04-putting-order-in.html"

# Keeps count from the page's first moment: of how far things moved, of tasks that take long, of the first view's time.
WATCH = """
window.seen = { moved: 0, what: [], tasks: [0], usable: null };
const watch = (type, each) =>
  new PerformanceObserver((list) => list.getEntries().forEach(each)).observe({ type, buffered: true });
watch("layout-shift", ({ hadRecentInput, value, sources }) => {
  if (hadRecentInput) return;
  seen.moved += value;
  seen.what.push([value, ...sources.map(({ node }) => node?.outerHTML?.slice(0, 80) ?? node?.textContent)]);
});
watch("longtask", ({ duration }) => seen.tasks.push(duration));
const look = () => {
  if (document.querySelector(".widget-host > .gf-widget")) seen.usable = performance.now();
  else requestAnimationFrame(look);
};
look();
"""


@pytest.fixture
def watched(visit):
    """visit(path, width=…), with `seen` kept on the page."""
    return lambda path, **settings: visit(path, script=WATCH, **settings)


SCREENS = 200  # of 600 pixels: longer than any page


def read_to_the_end(arrived):
    """Scroll, as a reader does who wants to see how long it is.

    The page is told to: a wheel's turn goes to whatever stands under the mouse, and its answer may never come.
    """
    page = arrived.page
    for _ in range(SCREENS):
        page.evaluate("scrollBy({ top: 600, behavior: 'instant' })")
        page.wait_for_timeout(50)
        if page.evaluate("scrollY + innerHeight >= document.documentElement.scrollHeight - 1"):
            break
    else:
        pytest.fail(f"after {SCREENS} screens the page has no end")
    page.wait_for_function("document.querySelector('.widget-host[data-state=waiting]') === null")
    arrived.settle()


@pytest.mark.parametrize(("path", "width"), [(LANDING, 1280), (CHAPTER, 390)])
def test_nothing_moves_that_the_reader_does_not_move(watched, path, width):
    arrived = watched(path, width=width)
    read_to_the_end(arrived)
    seen = arrived.page.evaluate("seen")
    print(f"{path} at {width}: moved {seen['moved']:.4f}, longest task {max(seen['tasks']):.0f} ms")
    assert seen["moved"] <= 0.02, sorted(seen["what"], reverse=True)[:5]
    assert max(seen["tasks"]) <= 3000


@pytest.mark.parametrize("name", shipped.NAMES)
def test_the_weights_lie_beside_the_pages(site, name):
    assert (site / "_static" / "models" / f"{name}.js").read_text("ascii") == script(name)


def test_views_are_drawn_when_they_come_near_and_not_before(watched):
    arrived = watched(CHAPTER)
    hosts = """() => [...document.querySelectorAll(".widget-host")].map((host) =>
        [host.dataset.state, host.getBoundingClientRect().top / innerHeight])"""
    states = arrived.page.evaluate(hosts)
    assert {state for state, _ in states} == {"mounted", "waiting"}
    for state, screens in states:
        assert (state == "mounted") == (screens <= 2), f"{state}, {screens:.1f} screens from the top"
    read_to_the_end(arrived)
    assert {state for state, _ in arrived.page.evaluate(hosts)} == {"mounted"}


def test_the_first_page_answers_soon(watched):
    arrived = watched(LANDING)
    usable = arrived.page.evaluate("seen.usable")
    print(f"{LANDING}: its view can be used after {usable:.0f} ms; wanted: 1500 on a quiet machine")
    assert usable <= 10_000
