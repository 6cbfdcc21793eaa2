"""Tests the site on a server that allows scripts only from files, and that code and pages are in different files."""

import re

import pytest
from playwright.sync_api import expect
from serving import Quiet

from tools.extensions.inline_scripts import strict
from tools.extensions.view_code import Files

CHAPTER, PRACTICE = "notebooks/04-putting-order-in.html", "notebooks/exercises/04-practice.html"
MACHINE = "notebooks/index.html"  # it runs a model
STRICT = "script-src 'self' 'wasm-unsafe-eval'"
WITHOUT_WASM = "script-src 'self'"


@pytest.fixture(scope="module")
def strictly(site, serve, opened):
    """Provides strictly(path, policy), which opens a page of a server that sends this policy."""
    homes = {}

    def strictly(path, policy=STRICT, **settings):
        if policy not in homes:

            class Strict(Quiet):
                def end_headers(self):
                    self.send_header("Content-Security-Policy", policy)
                    super().end_headers()

            homes[policy] = serve(site, Strict)["http"]
        return opened(path, home=homes[policy], **settings)

    return strictly


@pytest.mark.parametrize("path", [CHAPTER, MACHINE])
def test_every_view_starts_on_a_strict_server(strictly, path):
    arrived = strictly(path)
    arrived.open_everything()
    states = arrived.page.locator(".widget-host").evaluate_all(
        "hosts => hosts.map((host) => host.dataset.state)"
    )
    assert set(states) == {"mounted"}
    assert not arrived.complaints


@pytest.mark.parametrize("policy", [STRICT, WITHOUT_WASM])
def test_a_model_runs_on_a_strict_server_and_without_webassembly(strictly, policy):
    arrived = strictly(MACHINE, policy)
    machine = arrived.page.locator(".widget-host").first
    before = machine.locator(".gf-drawing").inner_html()
    machine.get_by_role("textbox").first.fill("To be, or")
    arrived.settle()
    expect(machine.locator(".gf-says")).not_to_contain_text("problem")
    assert machine.locator(".gf-drawing").inner_html() != before


def test_the_tokenizers_of_real_models_run_on_a_strict_server(strictly):
    arrived = strictly("notebooks/02-tokens-become-vectors.html")
    view = arrived.page.locator(".widget-host", has=arrived.page.locator(".gf-vocabulary"))
    arrived.open_everything()
    view.get_by_role("textbox").first.fill("unbelievable")
    expect(view.locator(".gf-vocabulary").first).to_contain_text(re.compile(r"GPT-2.*: [1-5] tokens"))
    assert all(
        "blob:" in complaint or "data:" in complaint for complaint in arrived.complaints
    )  # two ways are refused


def test_a_gpt_learns_on_a_strict_server(strictly):
    arrived = strictly("notebooks/10-training.html")
    arrived.open_everything()
    start = arrived.page.get_by_role("button", name="Start training")
    with arrived.page.expect_event("worker"):
        start.press("Enter")
    expect(arrived.page.locator(".gf-lab-facts dd").first).to_have_text(re.compile(r"^[1-9]\d* of"))
    assert not arrived.complaints


@pytest.mark.weekly
def test_where_the_code_that_trains_does_not_arrive_the_reader_may_start_again(visit):
    arrived = visit("notebooks/10-training.html", door="http")
    arrived.open_everything()
    asked = []

    def refuse(route):
        asked.append(route.request.url)
        route.abort()

    arrived.page.route("**/training_server-*.js", refuse)
    start = arrived.page.get_by_role("button", name="Start training")
    start.press("Enter")
    expect(arrived.page.get_by_text("could not be loaded. Check your connection")).to_be_visible()
    assert len(asked) == 2  # from the worker, and from the page
    arrived.page.unroute("**/training_server-*.js")
    start.press("Enter")
    expect(arrived.page.locator(".gf-lab-facts dd").first).to_have_text(re.compile(r"^[1-9]\d* of"))
    arrived.complaints.clear()  # the two files that were refused


def test_the_practice_opens_on_a_strict_server(strictly):
    arrived = strictly(PRACTICE)
    expect(arrived.page.locator(".practice").first).to_be_visible()
    assert not arrived.complaints


def test_a_page_chooses_its_colours_on_a_strict_server(strictly):
    page = strictly("book/notation.html", theme="dark").page
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.get_by_role("button", name=re.compile("^Colours")).first.click()
    expect(page.locator("html")).to_have_attribute("data-mode", "light")


def test_a_script_within_a_page_is_an_error():
    with pytest.raises(ValueError, match="a script within a page"):
        strict("<head></head><script>console.log(1)</script>")
    with pytest.raises(ValueError, match="a script within a page"):
        strict('<head></head><a href="#" onclick="go()">')
    assert "<b>" in strict("<head></head><script>document.write(`<b>`);</script>")


def test_code_becomes_files_and_the_state_keeps_everything_else(tmp_path):
    modules = {
        "a": {"state": {"name": "kit", "source": "export const a = 1;", "style": "p { color: red }"}},
        "b": {"state": {"name": "view", "source": 'import { a } from "../kit/kit.js";', "style": ""}},
    }
    own = {"_esm": "loads", "_modules": ["anywidget:a", "anywidget:b"], "source": "a trait of this name"}
    taken = Files(tmp_path).take({**modules, "v": {"state": own}, "l": {"state": {"width": None}}})
    assert list(taken) == ["v"]
    state = taken["v"]["state"]
    kit, view = state["_modules"]
    assert state["source"] == "a trait of this name"
    assert "_esm" not in state
    assert state["_styles"] == [kit]
    assert (tmp_path / f"{view}.js").read_text("utf-8") == f'import {{ a }} from "./{kit}.js";'
    assert (tmp_path / f"{kit}.css").read_text("utf-8") == "p { color: red }"
    assert (tmp_path / f"{state['_loader']}.js").read_text("utf-8") == "loads"
    assert state["_later"] == []


def test_what_a_view_imports_only_later_is_not_asked_for_at_once(tmp_path):
    sources = {
        "kit": "export const a = 1;",
        "low": "export const b = 2;",
        "late": 'import { a } from "../kit/kit.js";\nimport { b } from "./low.js";',
        "view": 'import { a } from "../kit/kit.js";\nexport const load = () => import("./engine/late.js");',
    }
    models = {
        name: {"state": {"name": name, "source": source, "style": ""}} for name, source in sources.items()
    }
    own = {"_esm": "loads", "_modules": [f"anywidget:{name}" for name in sources]}
    state = Files(tmp_path).take({**models, "v": {"state": own}})["v"]["state"]
    kit, low, late, view = state["_modules"]
    assert state["_later"] == [low, late]
    assert f'import("./{late}.js")' in (tmp_path / f"{view}.js").read_text("utf-8")
    assert kit.startswith("kit-")


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "path", [MACHINE, CHAPTER, "notebooks/10-training.html", "notebooks/14-when-it-almost-works.html"]
)
def test_views_from_a_server_say_what_they_say_from_disk(visit, path):
    said = []
    for door in ("http", "file"):  # files without comments, and the code as it is written
        arrived = visit(path, door=door)
        arrived.open_everything()
        arrived.settle()
        said.append(arrived.page.locator(".widget-host").all_inner_texts())
    assert len("".join(said[0])) > 500
    assert said[0] == said[1]


def test_a_page_has_the_state_of_its_views_and_no_code(site):
    page = (site / CHAPTER).read_text("utf-8")
    assert "_esm" not in page
    assert page.count("export default") == 0
    names = set(re.findall(r'"([\w-]+-[0-9a-f]{10})"', page))
    folder = site / "_static" / "code"
    assert len(names) > 10
    for name in names:
        assert (folder / f"{name}.disk.js").exists()
        for imported in re.findall(
            r'(?:from |import\()"\./(.+?)"', (folder / f"{name}.js").read_text("utf-8")
        ):
            assert (folder / imported).exists()
