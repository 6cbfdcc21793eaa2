"""Opens pages of the built site in both ways that readers do: over http and from disk."""

import functools
import http.server
import os
import re
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from mounting import settle
from playwright.sync_api import Page
from serving import Quiet

# Fonts are there, views are drawn as soon as they are no more than a screen away, and what slides has arrived.
ARRIVED = """() => {
  const isNear = (host) => {
    const { top, bottom } = host.getBoundingClientRect();
    return host.checkVisibility() && top < 2 * innerHeight && bottom > -innerHeight;
  };
  return (
    document.fonts.status === "loaded" &&
    ![...document.querySelectorAll(".widget-host[data-state=waiting]")].some(isNear) &&
    document.getAnimations().every((each) => !Number.isFinite(each.effect.getComputedTiming().endTime))
  );
}"""


@pytest.fixture(scope="session")
def serve():
    """Provides serve(folder), which returns the two addresses of a folder. `handler` answers the requests."""
    servers = []

    def serve(folder, handler=Quiet):
        handler = functools.partial(handler, directory=folder)
        servers.append(http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        return {"http": f"http://127.0.0.1:{servers[-1].server_port}/", "file": folder.as_uri() + "/"}

    yield serve
    for server in servers:
        server.shutdown()


@pytest.fixture(scope="session")
def doors(site, serve):
    """Returns the two addresses of the site."""
    return serve(site)


@dataclass
class Visit:
    """One page in a tab of its own, with everything that it requested and complained about."""

    page: Page
    home: str
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self):
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on(
            "requestfailed",  # leaving a page aborts what it is still fetching
            lambda request: (
                request.failure != "net::ERR_ABORTED" and self.complaints.append(f"failed: {request.url}")
            ),
        )
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.on(
            "response",
            lambda answer: answer.status >= 400 and self.complaints.append(f"{answer.status}: {answer.url}"),
        )
        self.page.on(
            "console",
            lambda said: (
                said.type in ("error", "warning") and self.complaints.append(f"{said.type}: {said.text}")
            ),
        )

    def settle(self):
        """Waits for fonts, for sliding elements, and until nearby views have drawn everything that was requested."""
        settle(self.page, arrived=ARRIVED)

    def rest(self):
        """Waits until the views have also announced everything, as they do when the pointer comes to rest."""
        settle(self.page, told=True, arrived=ARRIVED)

    def open_everything(self):
        """Opens all folds and scrolls past every widget, as readers do."""
        self.page.evaluate(
            "() => document.querySelectorAll('article details').forEach((d) => (d.open = true))"
        )
        waiting = self.page.locator(".widget-host[data-state=waiting]")
        while waiting.count():
            host = waiting.first.element_handle()
            host.scroll_into_view_if_needed()
            self.page.wait_for_function("host => host.dataset.state !== 'waiting'", arg=host)
        self.page.evaluate("() => dispatchEvent(new Event('resize'))")
        self.settle()

    def elsewhere(self):
        """Returns the requests that went to addresses outside this site."""
        return [url for url in self.requests if not url.startswith((self.home, "blob:", "data:"))]

    def shoot(self, name):
        """Saves a picture in the folder GLASSFORMER_SCREENSHOTS, for people to look at."""
        if folder := os.environ.get("GLASSFORMER_SCREENSHOTS"):
            Path(folder).mkdir(parents=True, exist_ok=True)
            self.page.screenshot(
                path=Path(folder) / f"{re.sub('[^a-z0-9-]+', '-', name)}.png", full_page=True
            )


@pytest.fixture(scope="module")
def opened(browser, doors):
    """Provides opened("book/notation.html", door="file", theme="dark", width=360) -> Visit, in a new window.

    `home` is the address of another server than the doors'; `script` runs before the page's own scripts; other settings
    are those of Playwright's new_context.
    """
    windows = []

    def opened(path, *, door="http", home=None, theme="light", width=1280, script=None, **settings):
        window = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=theme, reduced_motion="reduce", **settings
        )
        windows.append(window)
        if script:
            window.add_init_script(script)
        arrived = Visit(window.new_page(), home or doors[door])
        arrived.page.goto(arrived.home + path)
        if settings.get("java_script_enabled", True):
            arrived.settle()
        return arrived

    opened.windows = windows
    yield opened
    for window in windows:
        window.close()


@pytest.fixture
def visit(opened):
    """Works as `opened`; the window is closed when the test is over."""
    already = len(opened.windows)
    yield opened
    while len(opened.windows) > already:
        opened.windows.pop().close()


@pytest.fixture(scope="module")
def stay(opened):
    """Works as `opened`, but all tests of a module share the page."""
    return functools.cache(opened)
