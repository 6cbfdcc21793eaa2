"""Measure practice in the page: from the press of a button to the verdict, what is downloaded, and the tab's memory.

    python benchmarks/practice.py [--megabits 10] [--visits 3]

The site must have been built with Python for its practice pages (`make python-for-the-page`, then `make book`). It is
served from this machine, compressed as a web host does it, and at most as fast as `--megabits` says. Every visit is a
new window of headless Chromium, so nothing is cached at first. What a page does is divided by what the same code takes
outside a browser, in the same run: to start and judge one answer, and to judge it again.

To see how a slow device does, run this with less processor time. On Linux, for example, in a control group:

    systemd-run --scope -p CPUQuota=50% python benchmarks/practice.py --megabits 10
"""

from __future__ import annotations

import argparse
import functools
import gzip
import http.server
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median

from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # for tools
from tools.shared import browser  # noqa: E402

SITE = ROOT / "_build" / "html"
PAGE = "notebooks/exercises/03-practice.html"
SETUP = "import numpy as np"
RIGHT = "def scores(query, keys):\n    return keys @ query / np.sqrt(len(query))\n"
LOOP = "def scores(query, keys):\n    while True:\n        pass\n"
ROWS = (
    "first verdict", "the next", "an endless loop", "the check after it", "first verdict after a reload"
)  # fmt: skip

ANOTHER = "before => !before?.isConnected && document.querySelector('.practice-panel')"

# The same outside a browser: seconds from a new process to the first verdict, and to the next.
OUTSIDE = """
import json, sys, time
from pathlib import Path
from glassformer.exercises.desk import Desk
desk = Desk("03", sys.argv[1], Path(sys.argv[2]), lambda told: None)
asked = {"do": "check", "exercise": "attention.scores", "code": sys.argv[3], "earlier": {}, "keep": "no", "files": {}}
for _ in range(2):
    began = time.perf_counter()
    assert json.loads(desk.ask(json.dumps(asked)))["right"]
print(time.perf_counter() - began)
"""


class Host(http.server.SimpleHTTPRequestHandler):
    """Serves the site at a limited speed, all connections together, and counts the bytes."""

    protocol_version = "HTTP/1.1"
    bytes_per_second = float("inf")
    sent = 0
    free_at = 0.0  # when the line has sent everything so far
    lock = threading.Lock()

    def do_GET(self) -> None:
        """Sends a file."""
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            return self.send_error(404)
        data = compressed(path)
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(str(path)))
        if data is not None:
            self.send_header("Content-Encoding", "gzip")
        data = data or path.read_bytes()
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        for start in range(0, len(data), 16384):
            self.send(data[start : start + 16384])
        return None

    def send(self, chunk: bytes) -> None:
        """Sends some bytes as soon as the line is free."""
        with Host.lock:
            Host.sent += len(chunk)
            Host.free_at = max(Host.free_at, time.monotonic()) + len(chunk) / Host.bytes_per_second
            wait = Host.free_at - time.monotonic()
        time.sleep(max(wait, 0))
        self.wfile.write(chunk)

    def log_message(self, *_: object) -> None:
        """Prints nothing."""


@functools.cache
def compressed(path: Path) -> bytes | None:
    """Returns the bytes that a web host would send for a text, or None for what it sends as it is."""
    return (
        gzip.compress(path.read_bytes()) if path.suffix in (".html", ".css", ".js", ".mjs", ".json") else None
    )


def seconds_to_verdict(page: Page, code: str | None) -> float:
    """Returns the seconds from the press of Check to the verdict on this code; None leaves the code as it is."""
    place = page.locator(".practice").first
    if code is not None:
        place.locator("textarea, .cm-content").first.click()
        place.locator(".cm-content").wait_for()
        page.keyboard.press("Control+a")
        page.keyboard.insert_text(code)
    before = page.query_selector(".practice-panel")
    began = time.perf_counter()
    place.get_by_role("button", name="Check", exact=True).click()
    page.wait_for_function(ANOTHER, arg=before, timeout=120_000)
    return time.perf_counter() - began


def visit(chromium: Browser, address: str) -> tuple[list[float], int]:
    """Returns the seconds of each row, and the bytes that the first verdict needed."""
    page = chromium.new_context().new_page()
    page.goto(address)
    page.wait_for_load_state("networkidle")
    sent = Host.sent
    found = [seconds_to_verdict(page, RIGHT)]
    sent = Host.sent - sent
    found += [seconds_to_verdict(page, code) for code in (f"{RIGHT}# again\n", LOOP, RIGHT)]
    page.reload()
    page.wait_for_load_state("networkidle")
    found.append(seconds_to_verdict(page, None))
    return found, sent


def outside() -> tuple[float, float]:
    """Returns the seconds from a new process to the first verdict, and to the next one, in this Python."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        program = [sys.executable, "-c", OUTSIDE, SETUP, folder, RIGHT]
        said = subprocess.run(program, capture_output=True, text=True, check=True)
        return time.perf_counter() - began, float(said.stdout)


def megabytes_of_renderers() -> float:
    """Returns the memory of the browser's largest tab in MB (its proportional set size), on Linux."""
    sizes = [0.0]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if b"--type=renderer" in (process / "cmdline").read_bytes():
                rollup = (process / "smaps_rollup").read_text()
                sizes.append(int(rollup.partition("Pss:")[2].split()[0]) / 1024)
        except OSError:  # it has ended
            continue
    return max(sizes)


def main() -> None:
    """Reads the command line, serves the site and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabits", type=float, help="the speed of the line (default: no limit)")
    parser.add_argument("--visits", type=int, default=3, help="how many visits (default: 3)")
    options = parser.parse_args()
    if not (SITE / "_static" / "python" / "files.json").is_file():
        sys.exit(f"{SITE} has no Python for its pages: run `make python-for-the-page`, then `make book`")
    if options.megabits:
        Host.bytes_per_second = options.megabits * 1e6 / 8
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Host, directory=SITE))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/{PAGE}"
    visits, memory = [], []
    with sync_playwright() as playwright:
        for _ in range(options.visits):
            chromium = playwright.chromium.launch(executable_path=browser.find(), args=browser.FLAGS)
            visits.append(visit(chromium, address))
            memory.append(megabytes_of_renderers())
            chromium.close()
    first, again = (median(times) for times in zip(*(outside() for _ in range(options.visits)), strict=True))
    about = json.loads((SITE / "_static" / "python" / "files.json").read_text())
    print(f"Pyodide {about['version']}, {about['numpy']}")
    print(f"{'seconds':<32}{'median':>8}{'longest':>9}{'÷ outside':>11}")
    beside = {"first verdict": first, "the next": again}
    for row, times in zip(ROWS, zip(*(times for times, _ in visits), strict=True), strict=True):
        ratio = f"{median(times) / beside[row]:11.1f}" if row in beside else ""
        print(f"{row:<32}{median(times):8.2f}{max(times):9.2f}{ratio}")
    print(f"sent before the first verdict: {median(sent for _, sent in visits) / 1e6:.1f} MB")
    print(f"memory of the tab: {median(memory):.0f} MB")


if __name__ == "__main__":
    main()
