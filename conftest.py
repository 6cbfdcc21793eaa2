"""Provides what all tests share: a browser and the built site.

It is above tests/ and notebooks/ because pytest must read it before it collects either, on every worker. So it imports
at the top only what every test needs: a browser and what builds the site take seconds.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tools.shared import browser as browsers

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

IN_CI = os.environ.get("CI", "").lower() in ("1", "true")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Starts headless Chromium once. If there is none, these tests are skipped; in CI they fail."""
    from playwright.sync_api import expect, sync_playwright

    path = browsers.find()
    if path is None:
        reason = "there is no Chromium or Chrome here"
        pytest.fail(reason) if IN_CI else pytest.skip(reason)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=browsers.FLAGS)
        expect.set_options(timeout=1000 * browsers.PATIENCE)
        chromium.new_context, chromium.new_page = patient(chromium.new_context), patient(chromium.new_page)
        yield chromium
        chromium.close()


def patient(make: Callable[..., BrowserContext | Page]) -> Callable[..., BrowserContext | Page]:
    """Returns the same way of making a window, whose windows wait as long as `PATIENCE` says."""

    def made(**settings: object) -> BrowserContext | Page:
        window = make(**settings)
        window.set_default_timeout(1000 * browsers.PATIENCE)
        return window

    return made


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of the site, which the first worker that needs it builds from the stored notebooks."""
    from filelock import FileLock

    from tools import book

    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    with FileLock(shared / "site.lock"):
        built = shared / "site" / "_build" / "html"
        report = shared / "site-failed.txt"
        if not built.exists() and not report.exists():
            try:
                book.build(shared / "site", quiet=True)
            except subprocess.CalledProcessError as error:
                report.write_text(error.output, encoding="utf-8")
    if report.exists():
        pytest.fail("`make book` failed:\n" + report.read_text(encoding="utf-8"), pytrace=False)
    return built


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    """Switches off progress bars in a notebook's kernel, as when the notebook was executed to be stored."""
    with pytest.MonkeyPatch.context() as patch:
        if type(item).__name__ == "IPyNbCell":  # of nbval
            patch.setenv("TQDM_DISABLE", "1")
        yield
