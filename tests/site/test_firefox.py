"""Tests that every view of every page is drawn in Firefox, too, without an error."""

import json

import pytest
from test_widgets import VIEWS

from tools.shared import firefox

pytestmark = pytest.mark.weekly

# Brings one view after another near, waits until it is drawn or has failed, and returns their states.
DRAWN = """async () => {
  for (const fold of document.querySelectorAll("details")) fold.open = true;
  const hosts = [...document.querySelectorAll(".widget-host")];
  for (const host of hosts) {
    host.scrollIntoView();
    while (host.dataset.state === "waiting") await new Promise((then) => setTimeout(then, 20));
  }
  return JSON.stringify(hosts.map((host) => host.dataset.state));
}"""


@pytest.fixture(scope="module")
def window(tmp_path_factory):
    path = firefox.find()
    if path is None:
        pytest.fail("there is no Firefox here")
    window = firefox.Firefox(path, tmp_path_factory.mktemp("firefox"))
    yield window
    window.close()


@pytest.mark.parametrize("page", dict.fromkeys(page for page, *_ in VIEWS))
def test_every_view_of_a_page_is_drawn_in_firefox(window, doors, page):
    window.goto(doors["http"] + page)
    states = json.loads(window.evaluate(DRAWN, None))
    assert states == ["mounted"] * sum(where == page for where, *_ in VIEWS)
    assert window.errors == []
