"""Tests how a model's weights reach a page: on demand, once, over http and from disk; and errors."""

import base64
import gzip
import re
import threading
from pathlib import Path
from typing import ClassVar
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest
from playwright.sync_api import expect
from serving import Quiet
from small_site import write_views
from traitlets import default

from glassformer import shipped
from glassformer.chapters.ch06 import neuron_explorer
from glassformer.checkpoints import MODEL
from glassformer.widgets import NeuronExplorer
from glassformer.widgets.engine.model import ModelView
from glassformer.widgets.kit.modules import Module
from tools.extensions.model_weights import scripts, weights
from tools.shared.browser import PATIENCE

# Says, when it is asked, what the model writes after an id, or what it is waiting for, or why it does not.
PROBE = """import { button, frame } from "./kit.js";
import { reasonOf, weightsFor } from "./weights.js";
const render = ({ model, el }) => {
  const view = frame(el, { title: `A probe of ${model.get("model")}`, hint: "It shows what arrives." });
  let said = "";
  let busy = false;
  const weights = weightsFor(model, { view, told: draw, again: ask });
  function draw() {
    view.says(((busy || said) && weights.words()) || said);
  }
  async function ask() {
    [said, busy] = ["", true];
    view.busy("model", true);
    try {
      const transformer = await weights.model();
      said = `${transformer.forward([3]).map((x) => 1000 * x).slice(0, 5).join(" ")}`;
    } catch (error) {
      said = reasonOf(error);
    }
    busy = false;
    view.busy("model", false);
    draw();
  }
  view.controls.append(button("Ask", ask));
};
export default { render };
"""


class Probe(ModelView, module="model"):
    """A view whose module is in this file."""

    @default("_modules")
    def _default_modules(self):
        return [*Module.of("weights"), Module(name="probe", source=PROBE)]


def renamed(name):
    """A view of a model that the page does not have."""
    probe = Probe("masked")
    probe.set_trait("model", name)
    probe._digest = name
    return probe


STEP = 200_000  # bytes of a file that the server sends whenever the test lets it


class Held(Quiet):
    """Answers requests for models only as far as a test lets it: `pieces` is released once for each piece."""

    pieces = threading.Semaphore(0)
    is_held = False
    asked: ClassVar[list[str]] = []

    def copyfile(self, source, outputfile):
        if not self.path.endswith(".bin"):
            return super().copyfile(source, outputfile)
        self.asked.append(self.path)
        while piece := source.read(STEP):
            if self.is_held:
                self.pieces.acquire(timeout=PATIENCE)
            try:
                outputfile.write(piece)
                outputfile.flush()
            except OSError:  # the page has given this up
                return None


@pytest.fixture(scope="module")
def doors(tmp_path_factory, serve):
    """Returns the addresses of a folder with a page of views, each further down than a screen from those before it."""
    folder = tmp_path_factory.mktemp("views")
    views = [Probe(), Probe(), Probe("masked"), renamed("unheard"), renamed("runs/first"), NeuronExplorer()]
    write_views(folder / "views.html", views)
    return serve(folder, Held)


@pytest.fixture
def held(monkeypatch):
    """Holds back every file of a model; held.let(n) sends n pieces."""
    monkeypatch.setattr(Held, "pieces", threading.Semaphore(0))
    monkeypatch.setattr(Held, "is_held", True)
    monkeypatch.setattr(Held, "asked", [])
    Held.let = lambda n: Held.pieces.release(n)
    yield Held
    Held.pieces.release(1000)  # what is still under way ends


SAVES_DATA = "Object.defineProperty(navigator, 'connection', { value: { saveData: true } })"


class Asking:
    """The page, and what its views request."""

    def __init__(self, visit):
        self.visit = visit
        self.page = visit.page

    def host(self, place):
        return self.page.locator(".widget-host").nth(place)

    def line(self, place):
        return self.host(place).locator(".gf-says")

    def ask(self, place):
        self.host(place).scroll_into_view_if_needed()
        self.host(place).get_by_role("button", name="Ask").press("Enter")

    def answer(self, place):
        self.ask(place)
        self.visit.settle()
        return self.line(place).inner_text()

    def expect_written(self, *places, name="shakespeare"):
        """Waits until these views show what the model writes."""
        model, _ = shipped.load(name)
        for place in places:
            expect(self.line(place)).to_have_text(re.compile(r"^-?\d"))
            numbers = [float(number) / 1000 for number in self.line(place).inner_text().split()]
            np.testing.assert_allclose(numbers, model(np.array([[3]]))[0, 0, :5], rtol=0, atol=1e-4)

    def again(self, place):
        return self.host(place).get_by_role("button", name="Load the model again")

    @property
    def weights(self):
        """Returns the files of models that the page has requested."""
        return [url.rpartition("/")[2] for url in self.visit.requests if "/models/" in url]


@pytest.fixture
def asking(visit):
    """Provides asking(door); readers of the page save data, so nothing is fetched ahead, unless `ahead` is true."""
    return lambda door, ahead=False: Asking(
        visit("views.html", door=door, script=None if ahead else SAVES_DATA)
    )


def parts_of(name):
    return list(scripts(name, weights(name)))


# --- what arrives, and how often it is requested ---


@pytest.mark.parametrize("door", ["http", "file"])
def test_weights_come_when_they_are_asked_for_and_once(asking, door):
    page = asking(door)
    files = {name: [f"{name}.bin"] if door == "http" else parts_of(name) for name in shipped.NAMES}
    page.visit.settle()
    assert page.weights == []
    page.answer(0)
    page.expect_written(0)
    assert page.weights == files["shakespeare"]
    page.answer(1)
    page.expect_written(1)
    page.answer(0)
    page.expect_written(0)
    assert page.weights == files["shakespeare"]
    page.answer(2)
    page.expect_written(2, name="masked")
    assert page.weights == files["shakespeare"] + files["masked"]
    # Long texts are let go.
    assert page.page.evaluate("Object.keys(globalThis.glassformerModels ?? {})") == []
    assert page.page.locator("script[src*=models]").count() == 0
    assert page.visit.elsewhere() == page.visit.complaints == []


def test_two_views_that_ask_while_a_file_is_under_way_share_it(asking, held):
    page = asking("http")
    page.ask(0)
    page.ask(1)
    held.let(2)
    for place in (0, 1):
        expect(page.line(place)).to_have_text("Loading the model: 0.4 of 1.4 MB.")
    held.let(5)
    page.expect_written(0, 1)
    assert page.weights == ["shakespeare.bin"]


def test_what_a_near_view_needs_is_fetched_ahead_but_nothing_else(asking):
    page = asking("http", ahead=True)
    page.page.wait_for_function(
        "performance.getEntriesByType('resource').some(({ name }) => name.endsWith('shakespeare.bin'))"
    )
    assert page.weights[0] == "shakespeare.bin"
    page.answer(0)
    page.expect_written(0)
    assert page.weights.count("shakespeare.bin") == 1


def test_from_disk_nothing_is_loaded_ahead(asking):
    page = asking("file", ahead=True)
    page.visit.settle()
    page.page.evaluate("() => new Promise((idle) => requestIdleCallback(idle))")
    assert page.weights == []


# --- slow and broken networks ---


@pytest.fixture
def stalled(asking, held):
    """A page whose first view has waited in vain for ten seconds."""
    page = asking("http")
    page.page.clock.install()
    page.ask(0)
    held.let(2)
    expect(page.line(0)).to_have_text("Loading the model: 0.4 of 1.4 MB.")
    page.page.clock.fast_forward(10_001)
    expect(page.again(0)).to_be_visible()
    return page


def test_a_download_that_stalls_is_not_lost_when_a_view_asks_once_more(stalled, held):
    stalled.ask(0)
    expect(stalled.line(0)).to_have_text("Loading the model: 0.4 of 1.4 MB.")
    stalled.page.clock.fast_forward(10_001)
    expect(stalled.again(0)).to_be_visible()
    stalled.ask(1)
    held.let(5)
    stalled.expect_written(0, 1)
    assert held.asked == ["/_static/models/shakespeare.bin"]


def test_a_download_that_stalls_may_be_started_anew(stalled, held):
    stalled.again(0).press("Enter")
    expect(stalled.line(0)).to_have_text(re.compile(r"^Loading the model( …|: 0\.0 of 1\.4 MB\.)$"))
    held.let(20)
    stalled.expect_written(0)
    assert len(held.asked) == 2


def test_what_was_blocked_may_be_tried_again_in_every_view(asking):
    page = asking("http")
    page.page.route("**/models/*", lambda route: route.abort())
    assert (
        page.answer(0)
        == page.answer(1)
        == (
            "The model could not be loaded. The connection failed. Check it, then try again; everything that this page "
            "already shows still works."
        )
    )
    page.again(0).press("Enter")  # in vain
    page.visit.settle()
    assert "The connection failed" in page.line(0).inner_text()
    expect(page.again(0)).to_be_focused()
    page.page.unroute("**/models/*")
    page.again(0).press("Enter")
    page.expect_written(0, 1)
    for place in (0, 1):
        expect(page.again(place)).to_be_hidden()
    focused = "document.activeElement.closest('.widget-host') === document.querySelector('.widget-host')"
    assert page.page.evaluate(focused)  # the keyboard is not sent to the top of the page


def test_offline_it_says_so_and_loads_by_itself_afterwards(asking):
    page = asking("http")
    page.page.context.set_offline(True)
    assert page.answer(0) == (
        "The model could not be loaded. You are offline. The download will start by itself when you are online again."
    )
    page.page.context.set_offline(False)
    page.expect_written(0)


def test_an_error_of_the_server_and_a_damaged_file_are_told(asking):
    page = asking("http")
    page.page.route("**/models/*", lambda route: route.fulfill(status=503))
    assert (
        page.answer(0)
        == "The model could not be loaded. The server answered with error 503. Try again in a moment."
    )
    page.page.unroute("**/models/*")
    page.page.route("**/models/*", lambda route: route.fulfill(body=weights("shakespeare")[:100_000]))
    assert page.answer(0) == "The model could not be loaded. The file arrived damaged, so try again."
    page.page.unroute("**/models/*")
    page.answer(0)
    page.expect_written(0)


def test_a_server_that_packs_once_more_hides_the_size(asking):
    page = asking("http")
    page.page.evaluate(
        """() => {
          const real = fetch;
          window.fetch = async (...asked) => {
            const answer = await real(...asked);
            const stream = answer.body.pipeThrough(new TransformStream({
              async transform(chunk, out) {
                out.enqueue(chunk);
                await new Promise((go) => (window.goOn = go));
              },
            }));
            return new Response(stream, { headers: { "Content-Encoding": "gzip", "Content-Length": "7" } });
          };
        }"""
    )
    page.ask(0)
    expect(page.line(0)).to_have_text(re.compile(r"^Loading the model: \d\.\d MB so far\.$"))


@pytest.mark.parametrize("door", ["http", "file"])
def test_that_a_page_lacks_a_model_is_told_in_words(asking, door):
    page = asking(door)
    for place, name in {3: "unheard", 4: "runs/first"}.items():
        assert (
            page.answer(place)
            == f"This page has no model called {name}. Open the notebook in JupyterLab, and run it there."
        )
        expect(page.again(place)).to_be_hidden()  # it would not help
    assert page.weights == ["unheard.bin" if door == "http" else "unheard-0.js"]
    page.answer(0)
    page.expect_written(0)


def test_a_copy_that_lacks_a_part_says_which(asking):
    page = asking("file")
    part = Path(unquote(urlsplit(page.visit.home).path)) / "_static" / "models" / "shakespeare-3.js"
    part.rename(part.with_suffix(".away"))
    assert page.answer(0) == (
        "The model could not be loaded. The file shakespeare-3.js is missing from this copy of the book."
    )
    part.with_suffix(".away").rename(part)
    page.again(0).press("Enter")
    page.expect_written(0)


@pytest.mark.parametrize("door", ["http", "file"])
def test_what_is_known_of_the_neurons_comes_when_another_is_chosen(asking, door):
    page = asking(door)
    host = page.host(5)
    host.scroll_into_view_if_needed()
    page.visit.settle()
    host.get_by_role("button", name="A random neuron").press("Enter")
    page.visit.rest()
    said = re.match(r"Block (\d+), neuron (\d+): .* In your text, its value", page.line(5).inner_text())
    first = "shakespeare.bin" if door == "http" else "shakespeare-0.js"
    assert {"shakespeare-neurons.bin" if door == "http" else "shakespeare-neurons-0.js", first} <= set(
        page.weights
    )
    assert len(page.weights) == len(set(page.weights))
    block, neuron = int(said[1]), int(said[2])
    assert (block, neuron) != (3, 88)
    strongest = neuron_explorer.table("shakespeare")[block][neuron][0][0][0]
    assert strongest[-6:-2].strip() in host.locator(".gf-context").first.inner_text()
    assert page.visit.elsewhere() == page.visit.complaints == []


# --- the files ---


@pytest.mark.parametrize("name", shipped.NAMES)
def test_the_scripts_hold_the_same_bytes_as_the_file(name):
    found = b""
    written = scripts(name, weights(name))
    for i, (file, script) in enumerate(written.items()):
        assert file == f"{name}-{i}.js"
        count, total, text = re.search(r'count: (\d+), total: (\d+), text: "(.*)" }', script).groups()
        assert (int(count), int(total)) == (len(written), len(weights(name)))
        found += base64.b64decode(text)
    assert found == weights(name)


@pytest.mark.parametrize("name", shipped.NAMES)
def test_the_packed_weights_are_those_of_the_model_and_smaller(name):
    file = (shipped.PLACE / name / MODEL).read_bytes()
    whole = gzip.decompress(weights(name))
    begins = int.from_bytes(whole[:4], "little")
    numbers = np.frombuffer(whole[4 + begins :], np.uint8).reshape(2, -1).T
    assert whole[4 : 4 + begins] + numbers.tobytes() == file
    assert len(weights(name)) < 0.87 * len(file)
