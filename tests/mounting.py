"""Puts one or more widgets on a blank page and drives them as a reader would.

`mount(PositionHeatmap())` sends a real widget's traits and code to headless Chromium and returns a `Mounted`. A few
lines of JavaScript replace the notebook's widget manager. A test fails at its end if the page has reported an error or
requested anything. All tests share one tab, which is reloaded for each test, because opening a new tab would take
longer than most tests.
"""

import base64
import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page

from glassformer.widgets.kit.modules import needed, read
from glassformer.widgets.kit.view import FileView
from tools.shared.browser import PATIENCE, axe_violations, contrast_violations

# The page, and the model that a widget's `render` is given: anywidget's interface, as far as widgets use it.
BLANK = """<!doctype html>
<html lang="en" data-theme="light">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>A widget</title>
<style>
body { margin: 0; padding: 12px; background: #fff }
html[data-theme=dark] body { background: #121212 }
h1 { position: absolute; top: 0; margin: 0; clip-path: inset(50%) }
</style>
</head><body><main><h1>A widget</h1></main></body></html>"""

MOUNT = """async (sent) => {
  const [state, modules] = JSON.parse(sent); // of a text, Playwright examines no entry
  const url = URL.createObjectURL(new Blob([state._esm], { type: "text/javascript" }));
  const { default: widget } = await import(url);
  const listeners = {};
  const model = {
    saved: {},
    changed: new Set(),
    get: (name) => state[name],
    set(name, value) {
      state[name] = value;
      this.changed.add(name);
      for (const act of listeners["change:" + name] ?? []) act();
    },
    save_changes() {
      for (const name of this.changed) this.saved[name] = state[name];
      this.changed.clear();
    },
    on: (event, act) => (listeners[event] ??= new Set()).add(act),
    off: (event, act) => listeners[event]?.delete(act),
    async send(message) {
      window.asked = (window.asked ?? 0) + 1;
      const text = atob(await window.fileOf(message.ask, state._digest));
      const bytes = new Uint8Array(text.length);
      for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at);
      for (const act of listeners["msg:custom"] ?? []) act({ answer: message.ask }, [new DataView(bytes.buffer)]);
    },
    listening: () => Object.values(listeners).reduce((n, acts) => n + acts.size, 0),
  };
  const host = { getModel: async (reference) => ({ get: (name) => modules[reference][name] }) };
  const el = document.createElement("div");
  document.querySelector("main").append(el);
  const cleanup = await widget.render({ model, el, host });
  window.mounted ??= [];
  return window.mounted.push({ model, el, cleanup }) - 1;
}"""


# Holds back the timers of animations, which are longer than all others but those that bound a wait.
HOLD_BEATS = """() => {
  const held = new Map();
  let latest = 0;
  for (const [kind, isRepeated] of [["Timeout", false], ["Interval", true]]) {
    const [start, stop] = [window[`set${kind}`], window[`clear${kind}`]];
    window[`set${kind}`] = (act, delay) => {
      if (delay < 400 || delay >= 10_000) return start(act, delay);
      held.set(--latest, { act, isRepeated });
      return latest;
    };
    window[`clear${kind}`] = (timer) => held.delete(timer) || stop(timer);
  }
  window.beat = () => {
    const now = [...held];
    for (const [timer, { act, isRepeated }] of now) {
      if (!isRepeated) held.delete(timer);
      act();
    }
    return now.length > 0;
  };
}"""

# Files whose names contain a text do not arrive until `release` is called.
WITHHOLD = """(part) => {
  const [real, waiting] = [window.fileOf, []];
  window.fileOf = async (what, digest) => {
    if (what.includes(part)) await new Promise((go) => waiting.push(go));
    return real(what, digest);
  };
  window.withheld = () => waiting.length;
  window.release = () => {
    window.fileOf = real;
    for (const go of waiting.splice(0)) go();
  };
}"""

# Whatever file is asked for, there is none, until `mend` is called.
REFUSE = """(i) => {
  const { model } = window.mounted[i];
  const [on, send, heard] = [model.on, model.send, new Set()];
  model.on = (event, act) => {
    if (event === "msg:custom") heard.add(act);
    on(event, act);
  };
  model.send = ({ ask }) =>
    queueMicrotask(() => heard.forEach((act) => act({ answer: ask, problem: "Not today." }, [])));
  window.mend = () => void (model.send = send);
}"""

# Waits for two successive frames in which nothing is pending: the first draws a result that has just arrived, and the
# second redraws whatever has changed its size because of it. Until then no frame is asked for, as each costs time.
SETTLED = """async ([awaited, patience]) => {
  const until = performance.now() + patience;
  for (let calm = 0; calm < 2; ) {
    await new Promise((go) => (calm < 0 ? setTimeout(go, 10) : requestAnimationFrame(go)));
    const busy = document.querySelector(awaited);
    calm = busy || !(%s)() ? -1 : calm + 1;
    if (calm < 0 && performance.now() > until) return busy?.closest(".gf-widget").innerText ?? document.URL;
  }
  return null;
}"""


def settle(page: Page, *, told: bool = False, arrived: str = "() => true") -> None:
    """Waits until all views on a page have drawn what was requested and, with `told`, have also announced it.

    A view marks its drawing as busy while it loads or computes, and its line of text until the pointer rests. `arrived`
    is a function of the page: whether all else is there.
    """
    awaited = "[aria-busy]" if told else ".gf-drawing[aria-busy]"
    if busy := page.evaluate(SETTLED % arrived, [awaited, 1000 * PATIENCE]):
        pytest.fail(f"after {PATIENCE} seconds this is still busy:\n{busy}")


@dataclass
class Mounted:
    """One widget on the page: what it shows, and what can be done with it."""

    page: Page
    widget: object
    index: int

    @property
    def root(self) -> Locator:
        return self.page.locator("main > div").nth(self.index)

    def settle(self) -> None:
        """Waits until everything that the last change requested has been computed and drawn."""
        settle(self.page)

    def rest(self) -> None:
        """Waits until the announcements that follow when the pointer comes to rest have also been made."""
        settle(self.page, told=True)

    @property
    def says(self) -> str:
        self.settle()
        return self.root.locator(".gf-says").inner_text()

    @property
    def label(self) -> str:
        """Returns the accessible name of the drawing."""
        self.rest()
        return self.root.locator(".gf-drawing").get_attribute("aria-label")

    def tables(self) -> list[list[list[str]]]:
        """Returns the cells of every table under "Show the numbers", header row first, and opens it if necessary."""
        details = self.root.locator("details.gf-details")
        if details.get_attribute("open") is None:
            details.locator("summary").press("Enter")
            self.root.locator(".gf-numbers table").first.wait_for()
        self.rest()
        read = "tables => tables.map(t => [...t.rows].map(r => [...r.cells].map(c => c.textContent)))"
        return self.root.locator(".gf-numbers table").evaluate_all(read)

    def table(self) -> list[list[str]]:
        (only,) = self.tables()
        return only

    def control(self, label: str) -> Locator:
        """Returns the input with this label."""
        return self.root.get_by_label(label, exact=True)

    def press(self, label: str, *keys: str) -> None:
        """Presses keys while a control has the focus, using only the keyboard."""
        control = self.control(label)
        control.focus()
        for key in keys:
            control.press(key)
        self.settle()

    def get(self, trait: str) -> object:
        """Returns a trait as the view's model stores it once everything is drawn."""
        self.settle()
        return self.now(trait)

    def now(self, trait: str) -> object:
        """Returns the same at this moment, even if something is still to be drawn."""
        return self.page.evaluate("([i, name]) => window.mounted[i].model.get(name)", [self.index, trait])

    def set(self, **traits: object) -> None:
        """Does what `widget.trait = value` does in Python: validates the value there, then shows it here."""
        for name, value in traits.items():
            setattr(self.widget, name, value)
        wire = self.widget.get_state()
        for name in self.widget.keys:  # a validator may have moved other traits as well
            if not name.startswith("_") and name != "layout" and wire[name] != self.now(name):
                self.page.evaluate(
                    "([i, name, value]) => window.mounted[i].model.set(name, value)",
                    [self.index, name, wire[name]],
                )
        self.settle()

    def saved(self) -> dict:
        """Returns the traits that the view has sent back to Python and that Python's validation accepted."""
        self.settle()
        saved = self.page.evaluate("(i) => window.mounted[i].model.saved", self.index)
        self.widget.set_state(saved)
        return saved

    def theme(self, name: str) -> None:
        self.page.evaluate("(name) => (document.documentElement.dataset.theme = name)", name)
        self.settle()

    def refuse(self) -> None:
        """From now on, whatever file the view asks for, the answer is "Not today.", until `mend()` in the page."""
        self.page.evaluate(REFUSE, self.index)

    def hold_beats(self) -> None:
        """From now on, animations advance when `beat` is called instead of with time."""
        self.page.evaluate(HOLD_BEATS)

    def beat(self) -> bool:
        """Advances the animation by one step. Returns False if nothing is playing."""
        was_playing = self.page.evaluate("window.beat()")
        self.settle()
        return was_playing

    def axe_violations(self) -> list[str]:
        """Returns what axe finds in the light theme, and in the dark one, which changes only colours."""
        found = axe_violations(self.page)
        for theme in ("light", "dark"):
            self.theme(theme)
            found += contrast_violations(self.page)
        return found

    def overflow(self) -> int:
        """Returns by how many CSS pixels the page is wider than its window."""
        return self.page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )


CALL = """async ([modules, name, lists]) => {
  const url = URL.createObjectURL(new Blob([window.loader], { type: "text/javascript" }));
  const { link } = await (window.linking ??= import(url));
  const module = await link(modules);
  return lists.map((list) => module[name](...list));
}"""


@pytest.fixture(scope="session")
def call(browser):
    """Returns what an exported function of a module returns: call("maths", "softmax", row).

    call.each("maths", "softmax", [[row], [other]]) does the same for a list of argument lists.
    """
    page = browser.new_page()
    page.evaluate("(source) => (window.loader = source)", read("loader"))

    def each(module: str, function: str, argument_lists: list) -> list:
        modules = [{"name": name, "source": read(name)} for name in needed(module)]
        return page.evaluate(CALL, [modules, function, argument_lists])

    def call(module: str, function: str, *arguments: object) -> object:
        return each(module, function, [list(arguments)])[0]

    call.each = each
    yield call
    page.close()


VIEWS = {}  # by the checksum of their weights, if they have any: those that answer when a view asks for a file


@pytest.fixture(scope="session")
def tab(browser):
    """Returns a tab, and the complaints since its last page was loaded."""
    context = browser.new_context(has_touch=True)
    context.expose_function(
        "fileOf", lambda what, digest: base64.b64encode(VIEWS[digest]._file(what)).decode()
    )
    page = context.new_page()
    troubles = []
    page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
    page.on(
        "console", lambda m: troubles.append(f"console: {m.text}") if m.type in ("error", "warning") else None
    )
    page.on(
        "request",
        lambda r: (
            troubles.append(f"request: {r.url}") if not r.url.startswith(("blob:", "about:blank")) else None
        ),
    )
    yield page, troubles
    context.close()


@pytest.fixture
def page(tab):
    """Opens a blank page of desktop width that must load nothing and report nothing."""
    page, troubles = tab
    page.goto("about:blank")
    page.set_viewport_size({"width": 900, "height": 900})
    page.set_content(BLANK)
    troubles.clear()
    yield page
    assert not troubles, "\n".join(troubles)


@pytest.fixture
def mount(page):
    """Returns mount(widget, width=900) -> Mounted; a second call puts another widget on the same page."""

    def mount(widget: object, *, width: int = 900) -> Mounted:
        page.set_viewport_size({"width": width, "height": 900})
        state = {k: v for k, v in widget.get_state().items() if k != "layout"}
        if isinstance(widget, FileView):
            VIEWS[getattr(widget, "_digest", None)] = widget
        modules = {f"anywidget:{module.model_id}": module.get_state() for module in widget._modules}
        return Mounted(page, widget, page.evaluate(MOUNT, json.dumps([state, modules])))

    return mount


@pytest.fixture
def again(tab, page, mount):
    """Provides again(widget) -> Mounted, on a page that has an address and is opened anew, as by a returning reader."""
    address, blank = "https://book.example/", page.content()
    page.route(address, lambda route: route.fulfill(body=blank, content_type="text/html"))

    def again(widget):
        page.goto(address)
        tab[1].clear()  # to ask for this page is no trouble
        return mount(widget)

    yield again
    page.evaluate("localStorage.clear()")
    page.unroute(address)


@pytest.fixture
def shoot(page):
    """Saves pictures of the page in both themes in the folder GLASSFORMER_SCREENSHOTS, for people to look at."""

    def shoot(name: str) -> None:
        if folder := os.environ.get("GLASSFORMER_SCREENSHOTS"):
            Path(folder).mkdir(parents=True, exist_ok=True)
            for theme in ("light", "dark"):
                page.evaluate("(name) => (document.documentElement.dataset.theme = name)", theme)
                page.screenshot(path=Path(folder) / f"{name}-{theme}.png", full_page=True)

    return shoot
