"""The room that a page keeps for a view before it is drawn is the room that the view takes."""

import pytest

from glassformer import widgets

# How wide the page's column is in windows of 320, 360, 390, 600, 650, 1280, 768, 1024 and 1440 pixels.
COLUMNS = [288, 328, 358, 568, 618, 710, 736, 752, 782]
VIEWS = [name for name in widgets.__all__ if name != "Quiz"]  # as long as its questions


@pytest.mark.parametrize("name", VIEWS)
def test_the_room_kept_is_the_room_taken(mount, name):
    widget = getattr(widgets, name)()
    kept = dict(widget._room)
    view = mount(widget)
    view.page.evaluate("document.documentElement.style.fontSize = '17px'")  # as on the pages of the book
    taken = {}
    for column in COLUMNS:
        view.root.evaluate("(root, width) => (root.style.width = `${width}px`)", column)
        view.rest()
        taken[column] = round(view.root.locator(".gf-widget").bounding_box()["height"])
    # Another machine has other letters, and a line may break elsewhere.
    assert kept == pytest.approx(taken, rel=0.08), f"{name}: room={taken}"
