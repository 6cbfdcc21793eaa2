"""Finds or installs the Chromium that the browser tests use, and runs its accessibility checks.

python tools/shared/browser.py     install one if there is none, and say where it is
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

# A headless shell comes first: the same engine without a browser's windows opens a page in a fifth of the time.
SHELL = "chromium-headless-shell"
NAMES = [
    SHELL, "chrome-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome",
    "msedge", "microsoft-edge",
]  # fmt: skip
PLACES = [
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
    r"C:\Program Files\Google\Chrome\Application\chrome.exe",
    r"C:\Program Files (x86)\Microsoft\Edge\Application\msedge.exe",
]
# Seconds that a browser, a server or another program may take to do what it was asked. On a quiet machine, everything
# is there in a hundredth of this time; beside ten busy processes, it takes many times as long. Only a test that fails
# waits so long: set GLASSFORMER_PATIENCE=10 before you break code on purpose.
PATIENCE = int(os.environ.get("GLASSFORMER_PATIENCE", "300"))
# Switch off the browser's own network traffic, so that every request comes from the page.
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


def candidates() -> Iterator[str | None]:
    """Yields the paths where a browser may be, the requested one first."""
    yield os.environ.get("GLASSFORMER_BROWSER")
    yield from map(shutil.which, NAMES)
    yield from PLACES
    try:
        from playwright.sync_api import sync_playwright

        with sync_playwright() as playwright:
            whole = Path(playwright.chromium.executable_path)
    except Exception:  # Playwright is missing or cannot start, so it has no browser for us either
        return
    yield from map(str, whole.parents[2].glob("chromium_headless_shell-*/*/*headless*shell*"))
    yield str(whole)


def starts(path: str | None) -> bool:
    """Returns whether this browser runs here. Ubuntu's chromium may be only a stub that asks for a snap."""
    if not path or not Path(path).is_file():
        return False
    if os.name == "nt":
        return True  # prints no version there
    try:
        return subprocess.run([path, "--version"], capture_output=True, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def find() -> str | None:
    """Returns the path of a browser that starts, or None."""
    return next(filter(starts, candidates()), None)


def ensure() -> str | None:
    """Returns the path of a browser: the system's, else what apt installs if we are root, else Playwright's download.

    In CI, a headless shell is installed even beside another browser, unless that one was asked for.
    """
    in_ci = os.environ.get("CI", "").lower() in ("1", "true")
    attempts: list[list[str]] = []
    found = find()
    will_do = found and (not in_ci or _is_shell(found) or found == os.environ.get("GLASSFORMER_BROWSER"))
    if not will_do:
        # Debian's packages include the libraries that Playwright's needs and that a bare machine lacks.
        # Without what they recommend: printing, avatars and half a desktop.
        install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends"]
        is_root = shutil.which("apt-get") and getattr(os, "geteuid", lambda: 1)() == 0
        if is_root:
            attempts += [["apt-get", "update", "-qq"], [*install, SHELL]]
        if not found or not is_root:
            attempts += [[sys.executable, "-m", "playwright", "install", "--only-shell", "chromium"]]
        if not found and is_root:
            attempts += [[*install, "chromium"]]
    for command in attempts:
        if found and _is_shell(found):
            break
        print("There is no headless browser for the tests yet. Running:", *command[-3:], flush=True)
        try:
            subprocess.run(command, timeout=600, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            print(error)
        found = find()
    return found


def _is_shell(path: str) -> bool:
    return re.search("headless.shell", Path(path).name) is not None


# WCAG 2.2 AA, and what axe recommends beyond it: tables' headers that are not empty, landmarks of different names.
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@cache
def axe() -> str:
    """Returns axe-core's source."""
    from axe_playwright_python.sync_playwright import Axe

    return Axe().axe_script


# One element for each style of text: texts of the same style have the same contrast.
LOOKS = """() => {
  const seen = new Set();
  for (const old of document.querySelectorAll("[data-look]")) old.removeAttribute("data-look");
  const behind = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) {
      const { backgroundColor, backgroundImage, opacity } = getComputedStyle(at);
      layers.push(backgroundColor, backgroundImage, opacity);
      if (backgroundColor.startsWith("rgb(") && backgroundImage === "none") break;
    }
    return layers;
  };
  for (const element of document.body.querySelectorAll("*")) {
    if (![...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim())) continue;
    if (!element.checkVisibility({ visibilityProperty: true })) continue;
    const { color, fontSize, fontWeight } = getComputedStyle(element);
    const look = [color, fontSize, fontWeight, ...behind(element)].join();
    if (seen.has(look)) continue;
    seen.add(look);
    element.dataset.look = seen.size;
  }
  return seen.size;
}"""


RUN = """([where, options]) =>
  axe.run(where, { ...options, resultTypes: ["violations"] }).then(({ violations }) => violations)"""


def axe_violations(page: Page, rules: list[str] = RULES) -> list[str]:
    """Lists what axe finds on a page, by rules or by tags of rules: what is wrong, where, and how to fix it.

    It leaves out contrast, which takes as long as everything else together: see `contrast_violations`.
    """
    return _found(page, {"exclude": []}, {"runOnly": rules, "rules": {"color-contrast": {"enabled": False}}})


def contrast_violations(page: Page) -> list[str]:
    """Lists texts with too little contrast, in the form of `axe_violations`, checking one text of each style."""
    page.evaluate(LOOKS)
    return _found(page, {"include": [["[data-look]"]]}, {"runOnly": ["color-contrast"]})


def _found(page: Page, where: dict, options: dict) -> list[str]:
    if page.evaluate("typeof axe === 'undefined'"):
        page.evaluate(axe())
    found = page.evaluate(RUN, [where, options])
    return [f"{v['id']}: {node['html'][:300]} {node['failureSummary']}" for v in found for node in v["nodes"]]


if __name__ == "__main__":
    path = ensure()
    print(path or "No Chromium or Chrome was found, and none could be installed.")
    sys.exit(path is None)
