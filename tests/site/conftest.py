"""Pages of the built site, opened both ways that readers open them: over http and from disk."""

import functools
import http.server
import os
import re
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Page


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="session")
def serve():
    """serve(folder): the two addresses of a folder."""
    servers = []

    def serve(folder):
        handler = functools.partial(Quiet, directory=folder)
        servers.append(http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        return {"http": f"http://127.0.0.1:{servers[-1].server_port}/", "file": folder.as_uri() + "/"}

    yield serve
    for server in servers:
        server.shutdown()


@pytest.fixture(scope="session")
def doors(site, serve):
    """The site's two addresses."""
    return serve(site)


@dataclass
class Visit:
    """One page in a tab of its own, with all that it asked for and complained of."""

    page: Page
    home: str
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self):
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("requestfailed", lambda request: self.complaints.append(f"failed: {request.url}"))
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
        """Wait for formulas, for the widgets that are near, and for whatever frame they asked for."""
        self.page.evaluate("() => window.MathJax?.startup?.promise")
        self.page.wait_for_function(
            "() => [...document.querySelectorAll('.widget-host:not([data-state=waiting])')]"
            ".every((host) => host.childElementCount)"
        )
        self.page.evaluate(
            "() => new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)))"
        )

    def open_everything(self):
        """Unfold what is folded and go past every widget, because readers will."""
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
        """What it asked for that is not of this site."""
        return [url for url in self.requests if not url.startswith((self.home, "blob:", "data:"))]

    def shoot(self, name):
        """Save a picture where GLASSFORMER_SCREENSHOTS says, for people to look at."""
        if folder := os.environ.get("GLASSFORMER_SCREENSHOTS"):
            Path(folder).mkdir(parents=True, exist_ok=True)
            self.page.screenshot(
                path=Path(folder) / f"{re.sub('[^a-z0-9-]+', '-', name)}.png", full_page=True
            )


@pytest.fixture(scope="module")
def opened(browser, doors):
    """opened("book/notation.html", door="file", theme="dark", width=360) -> Visit, in a window of its own.

    A script is run before the page's own; other settings are those of Playwright's new_context.
    """
    windows = []

    def opened(path, *, door="http", theme="light", width=1280, script=None, **settings):
        window = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=theme, reduced_motion="reduce", **settings
        )
        windows.append(window)
        if script:
            window.add_init_script(script)
        arrived = Visit(window.new_page(), doors[door])
        arrived.page.goto(doors[door] + path)
        if settings.get("java_script_enabled", True):
            arrived.settle()
        return arrived

    opened.windows = windows
    yield opened
    for window in windows:
        window.close()


@pytest.fixture
def visit(opened):
    """As `opened`; the window is closed when the test is over."""
    already = len(opened.windows)
    yield opened
    while len(opened.windows) > already:
        opened.windows.pop().close()


@pytest.fixture(scope="module")
def stay(opened):
    """As `opened`, but a page that one test of a module has opened is there for the next."""
    return functools.cache(opened)
