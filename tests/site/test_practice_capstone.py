"""Tests the capstone's practice page. A small worker stands in for Python; test_real_python has the real one."""

import json

import pytest
from playwright.sync_api import expect

PAGE = "notebooks/exercises/15-practice.html"
STAGES = (
    "tokenizer", "embedding", "attention", "block", "model", "loss", "training", "generation", "cache", "weights",
    "shipped",
)  # fmt: skip

# Answers with the request itself. A stage called "loss" never ends, and one called "cache" is marked as done.
STAND_IN = """
self.addEventListener("message", ({ data: { do: what, id, request, loads } }) => {
  if (what === "start") return postMessage({ says: "ready" });
  const panel = (text, code) => ({ kind: "panel", mood: "plain", headline: [{ text }], lines: [], code });
  const tell = (told) => postMessage({ id, told });
  tell({ says: "late", panel: panel("Too slow at first") });
  tell({ says: "begin", seconds: 60 });
  tell({ says: "late", panel: panel("Too slow") });
  if (request.stage === "loss") {
    tell({ says: "files", files: { "progress.json": '{"exercises": {"capstone.model": {"done": true}}}' } });
    tell({ says: "begin", seconds: 0.2 });
    return;
  }
  const marks = request.stage === "cache" ? { "capstone.cache": { tried: true, done: true } } : {};
  const files = { ...request.files, "progress.json": JSON.stringify({ exercises: marks }) };
  if (request.code.includes("quiet")) return postMessage({ id, answer: { panels: [], files, code: "" } });
  const code = request.do === "start" ? "class Mine:\\n    own = 1\\n" : "";
  const repeated = panel(`Asked to ${request.do}`, JSON.stringify({ request, loads }));
  postMessage({ id, answer: { panels: [repeated], files, code } });
});
"""


@pytest.fixture
def page(doors, browser):
    window = browser.new_context(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
    page = window.new_page()
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    javascript = "text/javascript"
    window.route("**/python/files.json", lambda route: route.fulfill(body="{}"))
    window.route(
        "**/practice/worker.mjs", lambda route: route.fulfill(body=STAND_IN, content_type=javascript)
    )
    top = 'class="practice-page"'  # of a site that was built with Python or without it
    window.route(
        f"**/{PAGE}",
        lambda route: route.fulfill(
            body=route.fetch().text().replace(top, f"{top} data-python"), content_type="text/html"
        ),
    )
    page.goto(doors["http"] + PAGE)
    yield page
    assert errors == []
    window.close()


def stage(page, name):
    return page.locator(f".practice[data-stage='{name}']")


def field(page):
    return page.locator(".practice-design")


def press(place, name):
    place.get_by_role("button", name=name, exact=True).click()


def answered(place):
    """Returns what Python was asked, which its answer repeats."""
    place.locator(".practice-panel pre").wait_for()
    return json.loads(place.locator(".practice-panel pre").inner_text())


def test_the_page_has_one_field_and_a_place_for_each_stage(page):
    places = page.locator(".practice")
    stages = [one.get_attribute("data-stage") for one in page.locator(".practice[data-stage]").all()]
    assert stages == [*STAGES, ""]
    assert places.count() == len(stages) + 2  # the field, and what was built
    code = field(page).locator("textarea").input_value()
    assert code.startswith("# Your tokenizer")
    assert "\n\n\nclass Mine:\n    vocab_size, context_length = 65, 64\n" in code
    assert (
        "3 · attention: each position averages the values it needs" in stage(page, "attention").inner_text()
    )
    assert "★ · shipped: it is the book's model" in stage(page, "shipped").inner_text()
    for hidden in (
        "capstone.check(",
        "capstone.built(Mine)",
        "# capstone.start()",
        "To start from your own file",
    ):
        for one in page.get_by_text(hidden).all():
            if not one.evaluate("element => !!element.closest('li')"):  # the list of commands stays
                expect(one).to_be_hidden()


def test_a_stage_is_asked_about_the_code_in_the_field_and_remembered(page):
    field(page).locator("textarea").click()
    field(page).locator(".cm-content").wait_for()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text("class Mine: ...  # typed")
    press(stage(page, "cache"), "Check")
    asked = answered(stage(page, "cache"))
    assert asked["loads"] == ["corpus", "shakespeare"]
    assert asked["request"] == {
        "do": "stage", "stage": "cache", "exercise": "capstone", "code": "class Mine: ...  # typed", "earlier": {},
        "files": {},
    }  # fmt: skip
    press(stage(page, ""), "Check all stages")
    assert answered(stage(page, ""))["request"]["stage"] == ""
    built = page.locator(".practice[data-built]")
    press(built, "Show what I have built")
    assert answered(built)["request"]["do"] == "built"
    page.evaluate(
        "localStorage.setItem('glassformer.file: progress.json',"
        """ '{"exercises": {"capstone.cache": {"tried": true, "done": true}}}')"""
    )
    page.reload()
    expect(field(page).locator("textarea")).to_have_value("class Mine: ...  # typed")
    expect(stage(page, "cache").locator(".practice-says")).to_have_text("✓ You have done this stage.")
    expect(stage(page, "block").locator(".practice-says")).to_have_text("")


def test_a_stage_that_never_ends_is_stopped_and_what_was_done_before_is_kept(page):
    place = stage(page, "loss")
    press(place, "Check")
    expect(place.locator(".practice-panel")).to_have_text("Too slow")
    marks = json.loads(page.evaluate("localStorage.getItem('glassformer.file: progress.json')"))["exercises"]
    assert marks == {"capstone.model": {"done": True}, "capstone.loss": {"tried": True}}
    press(stage(page, "cache"), "Check")
    answered(stage(page, "cache"))


def test_a_reader_begins_with_their_own_functions_and_can_take_it_back(page):
    before = field(page).locator("textarea").input_value()
    field(page).locator("textarea").fill("# typed")
    press(field(page), "Begin with my own functions")
    answered(field(page))
    now = field(page).locator(".cm-content")
    expect(now).to_have_text("class Mine:    own = 1")
    press(field(page), "Bring it back")
    expect(now).to_have_text("# typed")
    press(field(page), "Start over")
    expect(now).to_contain_text("# Your tokenizer")
    assert before.startswith("# Your tokenizer")


def test_hints_and_rules_need_no_python_and_leave_the_verdict(page):
    place = stage(page, "model")
    for number in (1, 2, 3, 3):
        press(place, "Hint")
        expect(place.locator(".practice-panel strong")).to_have_text(f"model: hint {number} of 3")
    press(field(page), "What may I import?")
    expect(field(page).locator(".practice-panel")).to_contain_text("PyTorch")
    place = stage(page, "cache")  # a hint leaves the verdict, and takes the place of the hint before
    press(place, "Check")
    answered(place)
    for _ in range(2):
        press(place, "Hint")
    expect(place.locator(".practice-panel strong")).to_have_text(["Asked to stage", "cache: hint 2 of 3"])


def test_control_and_enter_runs_the_code(page):
    field(page).locator("textarea").click()
    field(page).locator(".cm-content").wait_for()
    field(page).locator(".cm-content").press("Control+Enter")
    assert answered(field(page))["request"]["do"] == "try"
    page.keyboard.press("Control+a")
    page.keyboard.insert_text("quiet = 1")
    press(field(page), "Try it")
    expect(field(page).locator(".practice-says")).to_have_text("Your code ran and printed nothing.")
