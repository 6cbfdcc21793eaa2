"""Tests how a model's weights reach a page: on demand, once, over http and from disk; and errors."""

import base64
import json
import re
import shutil

import ipywidgets
import numpy as np
import pytest
from ipywidgets import embed
from traitlets import default

from glassformer import shipped
from glassformer.chapters.ch06 import neuron_explorer
from glassformer.checkpoints import MODEL
from glassformer.widgets import NeuronExplorer
from glassformer.widgets.engine.model import ModelView
from glassformer.widgets.kit.modules import Module
from tools.notebooks import ROOT
from tools.pages.weights import neurons_script, script

# Says, when it is asked, what the model writes after an id, or why it does not.
PROBE = """import { loadModel } from "./model.js";
const render = ({ model, el }) => {
  const [button, says] = ["button", "p"].map((name) => el.appendChild(document.createElement(name)));
  button.textContent = `Ask ${model.get("model")}`;
  button.onclick = () => {
    says.textContent = "…";
    loadModel(model).then(
      (transformer) => (says.textContent = `${transformer.forward([3]).map((x) => 1000 * x).slice(0, 5).join(" ")}`),
      (error) => (says.textContent = error.message),
    );
  };
};
export default { render };
"""
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Views</title>
<link rel="icon" href="data:,">
<script type="application/vnd.jupyter.widget-state+json">{state}</script>
<script src="_static/widget-host.js"></script>{views}</html>"""
VIEW = '<div><script type="application/vnd.jupyter.widget-view+json">{}</script></div>'


class Probe(ModelView, module="model"):
    """A view whose module is in this file."""

    @default("_modules")
    def _default_modules(self):
        return [*Module.of("model"), Module(name="probe", source=PROBE)]


def renamed(name):
    """A view of a model that the page does not have."""
    probe = Probe("masked")
    probe.set_trait("model", name)
    probe._digest = name
    return probe


@pytest.fixture(scope="module")
def doors(tmp_path_factory, serve):
    """Returns the addresses of a folder with one page of views: two of a model, one of another, two without a model."""
    folder = tmp_path_factory.mktemp("views")
    (folder / "_static" / "models").mkdir(parents=True)
    shutil.copy(ROOT / "book" / "site" / "widget-host.js", folder / "_static")
    for name in shipped.NAMES:
        (folder / "_static" / "models" / f"{name}.js").write_text(script(name), encoding="ascii")
    views = [Probe(), Probe(), Probe("masked"), renamed("unheard"), renamed("runs/first"), NeuronExplorer()]
    script_of_neurons = folder / "_static" / "models" / "shakespeare-neurons.js"
    script_of_neurons.write_text(neurons_script("shakespeare"), encoding="ascii")
    data = embed.embed_data(views=views, state=ipywidgets.Widget.get_manager_state()["state"])
    page = PAGE.format(
        state=json.dumps(data["manager_state"]).replace("</", "<\\/"),
        views="".join(VIEW.format(json.dumps(spec)) for spec in data["view_specs"]),
    )
    (folder / "views.html").write_text(page, encoding="utf-8")
    return serve(folder)


class Asking:
    """The page, and what its views request."""

    def __init__(self, visit):
        self.visit = visit

    def answer(self, place):
        host = self.visit.page.locator(".widget-host").nth(place)
        host.get_by_role("button").press("Enter")
        host.locator("p", has_text=re.compile("[^…]")).wait_for()
        return host.locator("p").inner_text()

    @property
    def weights(self):
        """Returns the models that the page has requested."""
        return [url.rpartition("/")[2] for url in self.visit.requests if "/models/" in url]


@pytest.fixture
def asking(visit):
    return lambda door: Asking(visit("views.html", door=door))


def assert_writes(said, name):
    model, _ = shipped.load(name)
    numbers = [float(number) / 1000 for number in said.split()]
    np.testing.assert_allclose(numbers, model(np.array([[3]]))[0, 0, :5], rtol=0, atol=1e-4)


@pytest.mark.parametrize("door", ["http", "file"])
def test_weights_come_when_they_are_asked_for_and_once(asking, door):
    page = asking(door)
    page.visit.settle()
    assert page.weights == []
    assert_writes(page.answer(0), "shakespeare")
    assert page.weights == ["shakespeare.js"]
    assert_writes(page.answer(1), "shakespeare")
    assert_writes(page.answer(0), "shakespeare")
    assert page.weights == ["shakespeare.js"]
    assert_writes(page.answer(2), "masked")
    assert page.weights == ["shakespeare.js", "masked.js"]
    assert page.visit.page.evaluate("Object.keys(glassformerWeights)") == []  # a text of megabytes is let go
    assert page.visit.elsewhere() == page.visit.complaints == []


@pytest.mark.parametrize("door", ["http", "file"])
def test_that_a_page_lacks_a_model_is_told_in_words(asking, door):
    page = asking(door)
    for place, name in {3: "unheard", 4: "runs/first"}.items():
        assert page.answer(place) == (
            f"this page has no model called {name}: open the notebook in JupyterLab, and run it there"
        )
    assert page.weights == ["unheard.js"]
    assert_writes(page.answer(0), "shakespeare")


def test_what_did_not_come_may_be_asked_for_again(asking):
    page = asking("http")
    page.visit.page.route("**/models/*.js", lambda route: route.abort())
    assert "no model called shakespeare" in page.answer(0)
    page.visit.page.unroute("**/models/*.js")
    assert_writes(page.answer(0), "shakespeare")


@pytest.mark.parametrize("door", ["http", "file"])
def test_what_is_known_of_the_neurons_comes_when_another_is_chosen(asking, door):
    page = asking(door)
    host = page.visit.page.locator(".widget-host").nth(5)
    host.scroll_into_view_if_needed()
    page.visit.settle()
    host.get_by_role("button", name="Any one, at random").press("Enter")
    page.visit.rest()
    said = re.match(
        r"Block (\d+), neuron (\d+): .* In your text it is", host.locator(".gf-says").inner_text()
    )
    assert page.weights == ["shakespeare-neurons.js", "shakespeare.js"]
    block, neuron = int(said[1]), int(said[2])
    assert (block, neuron) != (3, 88)
    strongest = neuron_explorer.table("shakespeare")[block][neuron][0][0][0]
    assert strongest[-6:-2].strip() in host.locator(".gf-context").first.inner_text()
    assert page.visit.elsewhere() == page.visit.complaints == []


@pytest.mark.parametrize("name", shipped.NAMES)
def test_a_script_holds_the_bytes_of_the_file(browser, name):
    page = browser.new_page()
    text = page.evaluate(f"() => {{ {script('dates')} {script(name)} return glassformerWeights['{name}']; }}")
    assert page.evaluate("Object.keys(glassformerWeights).sort()") == sorted({"dates", name})
    assert base64.b64decode(text) == (shipped.PLACE / name / MODEL).read_bytes()
    page.close()
