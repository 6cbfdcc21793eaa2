"""Runs scripts in pages in Firefox, over WebDriver BiDi: Playwright drives only a Firefox that it has built itself."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import websocket


def find() -> str | None:
    """Returns the path of Firefox, or None; the environment's GLASSFORMER_FIREFOX may name it."""
    names = (os.environ.get("GLASSFORMER_FIREFOX"), "firefox", "firefox-esr")
    return next((path for path in map(shutil.which, filter(None, names)) if path), None)


class Firefox:
    """One headless window. While it is driven, Firefox leaves out traffic of its own (`remote.prefs.recommended`)."""

    def __init__(self, path: str, profile: str | Path) -> None:
        options = ["--headless", "--no-remote", "--remote-debugging-port", "0", "--profile", str(profile)]
        self._process = subprocess.Popen(
            [path, *options], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, encoding="utf-8"
        )
        assert self._process.stderr is not None
        address = next(found[0] for line in self._process.stderr if (found := re.search(r"ws://\S+", line)))
        self._socket = websocket.create_connection(f"{address}/session", suppress_origin=True)
        self._socket.settimeout(None)  # pytest has a time limit
        self._count = 0
        self.errors: list[str] = []  # what pages have reported so far
        self._ask("session.new", capabilities={})
        self._ask("session.subscribe", events=["log.entryAdded"])
        self._window = self._ask("browsingContext.getTree")["contexts"][0]["context"]

    def _ask(self, method: str, **parameters: Any) -> Any:
        self._count += 1
        self._socket.send(json.dumps({"id": self._count, "method": method, "params": parameters}))
        while (answer := json.loads(self._socket.recv())).get("id") != self._count:
            if answer.get("method") == "log.entryAdded" and answer["params"]["level"] == "error":
                self.errors.append(answer["params"]["text"])
        assert answer["type"] == "success", answer
        return answer["result"]

    def goto(self, url: str) -> None:
        """Opens a page and waits until it is loaded."""
        self._ask("browsingContext.navigate", context=self._window, url=url, wait="complete")

    def evaluate(self, function: str, given: Any) -> str:
        """Calls a function of the page's JavaScript, as Playwright does, and waits for the text that it returns."""
        call = f"({function})({json.dumps(given)})"
        found = self._ask(
            "script.evaluate", expression=call, target={"context": self._window}, awaitPromise=True
        )
        assert found["type"] == "success", found["exceptionDetails"]["text"]
        return found["result"]["value"]

    def close(self) -> None:
        """Ends Firefox."""
        self._ask("browser.close")
        self._socket.close()
        self._process.wait()
