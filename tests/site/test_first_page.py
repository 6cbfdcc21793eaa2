"""Tests the first minute of a stranger: the first page writes by itself, all of it can be seen, and nothing jumps."""

import re

import pytest
from playwright.sync_api import expect

PAGE = "notebooks/index.html"
WATCH = """
window.moved = 0;
new PerformanceObserver((list) => {
  for (const { hadRecentInput, value } of list.getEntries()) if (!hadRecentInput) window.moved += value;
}).observe({ type: "layout-shift", buffered: true });
"""
PARTS = [
    "h1",
    "h1 + p",
    "textarea",
    ".gf-live-written",
    ".gf-live-chances",
    "input[type=range]",
    ".gf-live-main",
]
PHONE, LAPTOP = {"width": 390, "height": 844}, {"width": 1280, "height": 800}


@pytest.fixture
def stranger(visit):
    """Provides stranger(door, size) -> Visit: a first visit by somebody who minds no motion."""

    def stranger(door, size):
        arrived = visit(PAGE, door=door, script=WATCH)
        arrived.page.set_viewport_size(size)
        arrived.page.emulate_media(reduced_motion="no-preference")
        arrived.page.reload()
        return arrived

    return stranger


@pytest.mark.sampled(2)
@pytest.mark.parametrize("door", ["http", "file"])
@pytest.mark.parametrize("size", [PHONE, LAPTOP], ids=["phone", "laptop"])
def test_it_writes_by_itself_and_all_of_it_is_above_the_fold(stranger, door, size):
    arrived = stranger(door, size)
    arrived.page.locator(".gf-live-main").wait_for()
    article = arrived.page.locator("article")
    for part in PARTS:
        box = article.locator(part).first.bounding_box()
        assert box["y"] + box["height"] <= size["height"], part
    view = article.locator(".gf-widget").first
    expect(view.locator(".gf-live-written")).to_have_text(re.compile(r"\w{2}"))
    expect(view.locator(".gf-live-source")).to_have_text("live, in your browser")
    view.get_by_role("button", name="Pause").click()
    arrived.settle()
    written = view.locator(".gf-live-written").text_content()
    arrived.settle()
    assert view.locator(".gf-live-written").text_content() == written
    assert arrived.page.evaluate("moved") <= 0.02
    assert arrived.complaints == arrived.elsewhere() == []
