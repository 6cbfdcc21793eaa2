"""Tests practice in the page, on a small site of one practice page.

A small worker stands in for Python: it answers with what it was asked. Real Python is in test_real_python.py.
"""

import contextlib
import json
import re
from pathlib import Path

import nbformat
import pytest
from bs4 import BeautifulSoup
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from playwright.sync_api import expect
from serving import Quiet
from small_site import build

from glassformer.exercises import commands, hint, reveal
from glassformer.exercises.record import ENVIRONMENT, Record
from tools.assets import editor
from tools.extensions import practice
from tools.extensions.practice import task
from tools.shared import where_to_run
from tools.shared.browser import axe_violations, contrast_violations

PAGE = "notebooks/exercises/03-practice"
SETUP = 'import numpy as np\n\nnames = ["<b>", "&"]'
STUB = "def scores(query, keys):\n    ...\n"
LONG = "def softmax(a_name_that_is_long, another_name_that_is_long, a_third_name_that_is_long):\n    ...\n"
CELLS = [
    new_markdown_cell(
        "# 03 · Practice: marbles\n\nTwo commands:\n\n"
        '- `check("attention.scores", scores)` tests your function.\n- `hint(…)`'
    ),
    new_code_cell(SETUP),
    new_markdown_cell('## 1 · Scores\n\n*★ · a paper · stuck? `hint("attention.scores")`*'),
    new_code_cell(f'{STUB}\n\nscores = check("attention.scores", scores)'),
    new_markdown_cell("## 2 · Softmax"),
    new_code_cell(f'{LONG}\n\nsoftmax = check(\n    "attention.softmax", softmax\n)\n# the last line'),
    new_code_cell("print(softmax)\nkeep(softmax)"),
    new_markdown_cell("## 3 · In PyTorch"),
    new_code_cell('def gpt_torch(model):\n    ...\n\n\ngpt_torch = check("training.gpt_torch", gpt_torch)'),
]
PYTHON = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}

WORKER, FILES = "/_static/practice/worker.mjs", "/_static/python/files.json"
BUNDLE = "/_static/vendor/codemirror/editor.js"

# Answers every request with the request itself, except those whose code says "while True". Code that says "right" is
# right.
STAND_IN = """
const panel = (headline, more) => ({ kind: "panel", mood: "bad", headline, lines: [], code: "", ...more });
self.addEventListener("message", ({ data: { do: what, id, request } }) => {
  if (what === "start") {
    postMessage({ says: "loading", loaded: 2_500_000, total: 10_000_000 });
    READY
    return;
  }
  const { code } = request;
  postMessage({ id, told: { says: "begin", seconds: code?.includes("slowly") ? 3 : 0.2 } });
  postMessage({ id, told: { says: "late", panel: panel([{ text: "Too slow" }]), right: code?.includes("right") } });
  if (code?.includes("while True")) {
    setInterval(() => postMessage({ id, told: { says: "output", text: "again " } }), 20);
    return;
  }
  postMessage({ id, told: { says: "end" } });
  if (request.do === "try") {
    for (const text of ["one\\n", "two\\n"]) postMessage({ id, told: { says: "output", text } });
    postMessage({ id, told: { says: "value", text: "array([<i>3</i>])" } });
    postMessage({ id, answer: { panels: [], right: false, kept: "", files: {} } });
    return;
  }
  const link = { text: "chapter 03", link: "../03-attention.ipynb" };
  const elsewhere = ["javascript:alert(1)//x.ipynb", "//evil.example/x.ipynb", "..//evil.example/x.ipynb"];
  const bad = elsewhere.map((link) => ({ text: "-", link }));
  const lines = [["✓", [{ text: "<img src=x onerror=alert(1)> " }, link, ...bad, { text: "axis", code: true }]]];
  const answer = panel([{ text: `Asked to ${request.do}` }], { lines, code: JSON.stringify(request) });
  const right = code.includes("right");
  const kept = request.keep === "yes" ? (code.includes("other") ? "different" : "added") : "";
  const files = { "my_transformer.py": "def mine(): ...\\n", "progress.json": "{}" };
  postMessage({ id, answer: { panels: [answer], right, kept, files } });
});
"""
WITH_PYTHON = {
    WORKER: STAND_IN.replace("READY", 'postMessage({ says: "ready" });').encode(),
    FILES: b'{"version": "0", "files": [], "numpy": ""}',
}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Builds the site and returns its folder."""
    root = tmp_path_factory.mktemp("practice")

    def write(folder):
        path = folder / f"{PAGE}.ipynb"
        path.parent.mkdir(parents=True)
        nbformat.write(new_notebook(cells=CELLS, metadata=PYTHON), path)

    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("GLASSFORMER_PYTHON", raising=False)
        site = build(root, write, PAGE)
    page = site / f"{PAGE}.html"
    without = page.read_text(encoding="utf-8")
    page.with_name("without-python.html").write_text(without, encoding="utf-8")
    has = without.replace('class="practice-page"', 'class="practice-page" data-python')
    page.write_text(has, encoding="utf-8")
    return site


@pytest.fixture(scope="module")
def instead(small, serve):
    """Serves the site; returns its address, and what is served instead of its files, by path: None is missing."""
    answers = {}

    class Instead(Quiet):
        def do_GET(self):  # noqa: N802 (its class names it so)
            path = self.path.partition("?")[0]
            if path not in answers:
                return super().do_GET()
            if answers[path] is None:
                return self.send_error(404)
            self.send_response(200)
            self.send_header("Content-Type", self.guess_type(path))
            self.send_header("Content-Length", str(len(answers[path])))
            self.end_headers()
            with contextlib.suppress(ConnectionError):  # whoever asked has stopped
                self.wfile.write(answers[path])
            return None

    return serve(small, Instead)["http"], answers


@pytest.fixture
def visit(instead, browser):
    """Provides visit(served) -> page, with what is served instead of the site's own files, in a new window."""
    address, answers = instead
    windows = []

    def visit(served=WITH_PYTHON, *, script=None, url=f"{address}{PAGE}.html", width=1280, **settings):
        answers.clear()
        answers.update(served)
        window = browser.new_context(
            viewport={"width": width, "height": 800}, reduced_motion="reduce", **settings
        )
        windows.append(window)
        if script:
            window.add_init_script(script)
        page = window.new_page()
        page.asked, page.errors = [], []
        page.on("request", lambda request: page.asked.append(request.url))
        page.on("pageerror", lambda error: page.errors.append(str(error)))
        page.goto(url)
        return page

    yield visit
    for window in windows:
        for page in window.pages:
            assert page.errors == []
        window.close()


@pytest.fixture
def shown(monkeypatch, tmp_path):
    """Returns what the commands of a new reader's notebook displayed, in order."""
    panels = []
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "progress.json"))
    monkeypatch.setattr(commands, "_record", Record())
    monkeypatch.setattr(commands, "_hints_given", {})
    monkeypatch.setattr(commands, "display", panels.append)
    return panels


def first(page):
    """Returns the place of the first exercise."""
    return page.locator(".practice").first


def press(place, name):
    place.get_by_role("button", name=name, exact=True).click()


def edit(place, text):
    """Replaces the code in a place as a reader does, once the editor is there."""
    place.locator("textarea, .cm-content").first.click()
    content = place.locator(".cm-content")
    content.wait_for()
    expect(content).to_be_focused()
    content.press("Control+a")
    place.page.keyboard.insert_text(text)
    return content


def code(place):
    return (
        place.locator(".cm-content").inner_text()
        if place.locator(".cm-content").count()
        else place.locator("textarea").input_value()
    )


def asked(place):
    """Returns the request that the answer repeats."""
    place.locator(".practice-panel pre").wait_for()
    return json.loads(place.locator(".practice-panel pre").inner_text())


def test_a_cell_says_what_is_practised():
    found = task('x = 1\ndef f(a):\n    ...\n\n\nf = check(\n    "a.b", f\n)\n# end')
    assert (found.name, found.function) == ("a.b", "f")
    assert found.stub == "x = 1\ndef f(a):\n    ...\n\n\n# end\n"
    assert task("def f(a):\n    ...\n\n\ncapstone.check('a', f)\nprint(check)") is None


def test_the_page_has_a_place_for_each_exercise_that_it_can_check(small):
    document = BeautifulSoup((small / f"{PAGE}.html").read_text(encoding="utf-8"), "html.parser")
    top = document.select_one(".practice-page")
    assert (top["data-chapter"], top["data-setup"]) == ("03", SETUP)
    scores, softmax, in_torch = document.select(".practice")
    assert (scores["data-exercise"], scores["data-loads"]) == ("attention.scores", "")
    assert not scores.has_attr("data-keep")
    assert softmax.has_attr("data-keep")
    assert scores.textarea.get_text() == STUB
    assert softmax.textarea.get_text() == f"{LONG}\n\n# the last line\n"
    assert scores.textarea["aria-label"] == "Your code for exercise 1 · Scores"
    assert "JupyterLab" in in_torch.get_text()
    assert in_torch.textarea is None
    assert [cell.get_text().split("(")[0].split()[-1] for cell in document.select("div.practice-cell")] == [
        "scores",
        "softmax",
    ]


HOME = "https://github.com/someone/something"


@pytest.mark.parametrize("words", [practice.EXERCISES, practice.DESIGN], ids=["exercises", "design"])
@pytest.mark.parametrize("repository", [None, HOME])
@pytest.mark.parametrize("has_python", [True, False])
def test_the_top_says_what_this_copy_can_do(words, repository, has_python):
    said = practice.what_is_possible(words, repository, PAGE, has_python=has_python)
    assert ("right here" in said and "your browser runs Python itself" in said) == has_python
    assert ("has no Python for its pages" in said) != has_python
    assert ("make python-for-the-page" in said) == (not has_python and repository is None)
    leads_on = words is practice.DESIGN or not has_python  # to PyTorch, or to any Python
    assert (f'<a href="{where_to_run.binder(HOME, f"{PAGE}.ipynb")}">' in said) == (
        leads_on and repository is not None
    )
    assert ("make lab" in said) == leads_on


def test_a_copy_without_python_offers_what_it_can_do_and_asks_for_nothing_that_is_missing(visit, instead):
    page = visit({}, url=instead[0] + PAGE.rpartition("/")[0] + "/without-python.html")
    expect(page.locator(".practice-here")).to_contain_text("has no Python for its pages")
    expect(page.locator("#practice-keys")).not_to_contain_text("Enter")
    place = first(page)
    said = place.get_by_role("button").all_inner_texts()
    assert said == ["Hint", "Show the answer", "Start over"]
    edit(place, "mine").press("Control+Enter")
    expect(place).to_contain_text("has no Python for its pages")
    assert [url for url in page.asked if "/python/" in url] == []


def test_without_javascript_the_page_has_its_cells_and_the_commands_of_jupyterlab(visit):
    for scripts in (True, False):
        page = visit(java_script_enabled=scripts)
        expect(page.locator(".practice-cell").first).to_be_visible(visible=not scripts)
        expect(page.locator(".practice, .practice-page").first).to_be_visible(visible=scripts)
        expect(page.locator("main li:has-text('tests your function')")).to_be_visible(visible=not scripts)
        command = "" if scripts else ' · stuck? hint("attention.scores")'
        assert page.locator("p:has-text('a paper')").inner_text() == f"★ · a paper{command}"


def test_what_is_not_needed_is_not_loaded(visit):
    page = visit()
    page.wait_for_load_state("networkidle")
    heavy = lambda: [url for url in page.asked if re.search("codemirror|python/|worker|glassformer.tgz", url)]  # noqa: E731
    assert heavy() == []
    place = first(page)
    place.locator("textarea").focus()
    place.locator(".cm-editor").wait_for()
    assert [url.rpartition("/")[2] for url in heavy()] == ["editor.js"]
    press(place, "Check")
    asked(place)
    assert [url.rpartition("/")[2] for url in heavy()[1:3]] == ["files.json", "worker.mjs"]


def test_what_is_typed_survives_a_reload(visit):
    page = visit()
    edit(first(page), "a = 1 ")
    page.keyboard.type("/ 2  # a / key")  # on the page, the key / leads to the search
    page.reload()
    expect(first(page).locator("textarea")).to_have_value("a = 1 / 2  # a / key")
    expect(page.locator(".practice textarea").nth(1)).to_have_value(f"{LONG}\n\n# the last line\n")


def test_a_click_begins_to_write_where_it_was_in_the_first_field_and_the_next(visit):
    for place in visit().locator(".practice[data-exercise]").all()[:2]:
        place.locator("textarea").click(position={"x": 300, "y": 15})  # in or behind the first line
        expect(place.locator(".cm-content")).to_be_focused()
        place.page.keyboard.type("!")
        expect(place.locator(".cm-line").first).to_have_text(re.compile("^def .+!"))


def test_starting_over_can_be_taken_back_after_a_reload(visit):
    page = visit()
    edit(first(page), "mine = 1")
    press(first(page), "Start over")
    assert code(first(page)).rstrip() == STUB.rstrip()
    page.reload()
    expect(first(page).locator("textarea")).to_have_value(STUB)
    edit(first(page), "other = 2")
    press(first(page), "Bring it back")
    assert code(first(page)) == "mine = 1"
    press(first(page), "Bring it back")
    assert code(first(page)) == "other = 2"
    page.keyboard.press("Control+z")
    expect(first(page).locator(".cm-content")).to_have_text("mine = 1")


WATCHED = """() => {
  const { setItem } = Storage.prototype;
  Storage.prototype.setItem = function (...entry) {
    window.wrote = true;
    setItem.apply(this, entry);
  };
}"""


def test_two_tabs_with_one_exercise_lose_nothing(visit):
    mine = visit()
    other = mine.context.new_page()
    other.errors = []
    other.goto(mine.url)
    edit(first(other), "other = 1")
    expect(first(mine).locator("textarea")).to_have_value("other = 1")  # nothing was typed here: it follows
    edit(first(mine), "mine = 1")
    expect(first(other).locator(".cm-content")).to_have_text("mine = 1")
    for page, words in [(other, "in another tab, too"), (mine, "put aside")]:
        expect(first(page).locator(".practice-note")).to_contain_text(words)
    other.evaluate(WATCHED)
    mine.keyboard.type("  # and on")  # what was put aside stays aside
    expect(first(other).locator(".cm-content")).to_have_text("mine = 1  # and on")
    assert not other.evaluate("window.wrote")  # or it would take back what has been typed since
    press(first(other), "Bring it back")
    assert code(first(other)) == "other = 1"
    expect(first(mine).locator(".cm-content")).to_have_text("other = 1")
    press(first(mine), "Bring it back")
    assert code(first(mine)) == "mine = 1  # and on"


CHANGED = """
const key = "glassformer.code: attention.scores";
if (!localStorage.getItem(key)) localStorage.setItem(key, JSON.stringify({ stub: "def old(): ...", code: "CODE" }));
"""


def test_an_exercise_that_has_changed_keeps_what_was_typed(visit):
    page = visit(script=CHANGED.replace("CODE", "old = 1"))
    place = first(page)
    expect(place.locator("textarea")).to_have_value("old = 1")
    expect(place.locator(".practice-note")).to_contain_text("This exercise has changed")
    press(place, "Start over with the new version")
    expect(place.locator(".cm-content")).to_be_focused()
    assert code(place).rstrip() == STUB.rstrip()
    press(place, "Bring it back")
    expect(place.locator(".cm-content")).to_be_focused()
    assert code(place) == "old = 1"
    page.reload()
    expect(first(page).locator("textarea")).to_have_value("old = 1")
    expect(first(page).locator(".practice-note")).to_be_hidden()


def test_an_old_stub_in_which_nothing_was_written_is_replaced(visit):
    page = visit(script=CHANGED.replace("CODE", "def old(): ..."))
    expect(first(page).locator("textarea")).to_have_value(STUB)
    expect(first(page).locator(".practice-note")).to_be_hidden()


def test_output_and_verdict_are_text_and_links_lead_to_pages(visit):
    place = first(visit())
    press(place, "Try it")
    expect(place.locator(".practice-output pre")).to_have_text(["one\ntwo\n", "array([<i>3</i>])"])
    press(place, "Check")
    panel = place.locator(".practice-panel")
    expect(panel.locator("strong")).to_have_text("Asked to check")
    expect(panel).to_contain_text("✓\u00a0<img src=x onerror=alert(1)> chapter 03---axis")
    assert panel.locator("img").count() == 0
    assert [link.get_attribute("href") for link in panel.locator("a").all()] == ["../03-attention.html"]
    expect(panel.locator("div > code")).to_have_text("axis")
    expect(place.locator(".practice-output pre")).to_have_count(0)


def test_python_is_told_what_it_needs(visit):
    page = visit()
    scores, softmax = page.locator(".practice[data-exercise]").all()
    edit(scores, "right = 1")
    press(scores, "Check")
    assert asked(scores) == {
        "do": "check", "exercise": "attention.scores", "code": "right = 1", "keep": "no", "earlier": {}, "files": {},
    }  # fmt: skip
    edit(scores, "wrong = 1")  # leaves what was right
    press(scores, "Check")
    assert asked(scores)["code"] == "wrong = 1"
    press(softmax, "Check")
    request = asked(softmax)
    assert (request["do"], request["keep"]) == ("check", "yes")
    assert request["earlier"] == {"attention.scores": "right = 1"}
    assert request["files"] == {"my_transformer.py": "def mine(): ...\n", "progress.json": "{}"}
    page.reload()
    expect(first(page)).to_contain_text("You have solved this exercise.")


def test_a_different_function_in_the_file_is_replaced_only_if_asked(visit):
    softmax = visit().locator(".practice[data-exercise]").nth(1)
    edit(softmax, "right = 'other'")
    press(softmax, "Check")
    assert asked(softmax)["keep"] == "yes"
    press(softmax, "Replace it in my_transformer.py")
    expect(softmax.get_by_role("button", name="Replace it in my_transformer.py")).to_have_count(0)
    assert asked(softmax)["keep"] == "replace"


def said(place):
    return place.locator(".practice-panel").inner_text()


def test_hints_need_no_python_and_are_those_of_a_notebook(visit, shown):
    page = visit({})
    place = first(page)
    for number in (1, 2, 3, 3):
        press(place, "Hint")
        hint("attention.scores")
        expect(place.locator(".practice-panel strong")).to_have_text(f"attention.scores: hint {number} of 3")
        assert said(place).split() == repr(shown[-1]).replace("`", "").split()
    assert not [url for url in page.asked if "worker" in url]


def test_the_answer_is_shown_after_one_more_question_and_marked(visit, shown):
    page = visit({})
    place = first(page)
    press(place, "Show the answer")
    expect(place.get_by_role("button", name="Show it")).to_be_focused()
    press(place, "Not yet")
    expect(place.get_by_role("button", name="Show it")).to_have_count(0)
    expect(place.locator(".cm-content")).to_be_focused()
    press(place, "Show the answer")
    press(place, "Show it")
    reveal("attention.scores")
    assert said(place).split() == repr(shown[-1]).replace("`", "").split()
    expect(place.locator("details")).to_have_count(0)  # the library has no version of this
    keyword = place.locator(".practice-panel .tok-keyword").first
    assert keyword.evaluate("(e) => getComputedStyle(e).color") != place.evaluate(
        "(e) => getComputedStyle(e).color"
    )
    marks = page.evaluate("localStorage.getItem('glassformer.file: progress.json')")
    assert json.loads(marks) == {"version": 1, "exercises": {"attention.scores": {"revealed": True}}}
    place = page.locator('.practice[data-exercise="attention.softmax"]')
    press(place, "Show the answer")
    press(place, "Show it")
    place.locator("summary").click()
    expect(place.locator("details")).to_have_attribute("open", "")
    reveal("attention.softmax")
    assert said(place).replace("`", "").split() == repr(shown[-1]).replace("`", "").split()


def test_the_keyboard_is_enough(visit):
    page = visit()
    place = first(page)
    page.get_by_role("button", name="Open a my_transformer.py").focus()
    for _ in range(4):  # past the cell with the imports
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.closest('.practice') !== null"):
            break
    content = place.locator(".cm-content")
    expect(content).to_be_focused()
    assert content.get_attribute("aria-label") == "Your code for exercise 1 · Scores"
    keys = page.locator(f"#{content.get_attribute('aria-describedby')}")
    expect(keys).to_contain_text("To leave the field by keyboard, press Esc and then Tab.")
    page.keyboard.press("Control+a")
    page.keyboard.type("if a:\nb")
    page.keyboard.press("Tab")
    expect(place.locator(".cm-line")).to_have_text(["if a:", "        b"])
    page.keyboard.press("Control+Enter")
    assert asked(place)["code"] == "if a:\n        b"
    expect(content).to_be_focused()
    page.keyboard.press("Shift+Enter")
    asked(place)
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    expect(place.get_by_role("button", name="Check")).to_be_focused()


def test_an_endless_loop_ends_and_the_next_check_works(visit):
    place = first(visit())
    edit(place, "while True: ...")
    press(place, "Check")
    expect(place.locator(".practice-panel")).to_have_text("Too slow")
    edit(place, "right = 1\nwhile True: ...")  # what hangs comes after the verdict: the reader's own file
    press(place, "Check")
    expect(place.locator(".practice-panel")).to_have_text("Too slow")
    kept = "() => localStorage['glassformer.right: attention.scores']"
    assert place.page.evaluate(kept) == "right = 1\nwhile True: ..."
    edit(place, "a = 1")
    press(place, "Check")
    assert asked(place)["code"] == "a = 1"


def test_an_answer_that_was_right_before_python_was_stopped_stays_right(visit):
    late = 'right: code?.includes("right")'
    assert late in STAND_IN
    right = 'right: true, before: [panel([{ text: "All right" }])]'
    page = visit(WITH_PYTHON | {WORKER: WITH_PYTHON[WORKER].replace(late.encode(), right.encode())})
    edit(first(page), "while True: ...")
    press(first(page), "Check")
    expect(first(page).locator(".practice-panel")).to_have_text(["All right", "Too slow"])
    page.reload()
    expect(first(page)).to_contain_text("You have solved this exercise.")


def test_loading_can_be_watched_and_stopped(visit):
    page = visit(WITH_PYTHON | {WORKER: STAND_IN.replace("READY", "").encode()})
    place = first(page)
    press(place, "Check")
    expect(place.locator(".practice-says")).to_contain_text(
        "Python (10.0 MB) is being loaded from this site."
    )
    expect(place.locator(".practice-work")).to_contain_text("2.5 of 10.0 MB")
    assert place.locator("progress").evaluate("bar => bar.value / bar.max") == 0.25
    place.get_by_role("button", name="Stop").press("Enter")
    expect(place.locator(".practice-answer")).to_have_text("Stopped. Your code is safe.")
    expect(place.get_by_role("button", name="Check")).to_be_focused()
    expect(place.locator(".practice-work")).to_be_hidden()


def test_a_verdict_on_code_that_was_put_aside_is_not_shown(visit):
    scores, softmax = visit().locator(".practice[data-exercise]").all()
    edit(scores, "while True: ...  # slowly")
    press(scores, "Check")
    press(scores, "Start over")
    press(softmax, "Check")
    asked(softmax)
    expect(scores.locator(".practice-answer")).to_be_empty()
    expect(scores.locator(".practice-output")).to_be_empty()
    press(scores, "Check")
    assert asked(scores)["code"] == STUB


def test_two_checks_wait_for_each_other(visit):
    scores, softmax = visit().locator(".practice[data-exercise]").all()
    edit(scores, "while True: ...  # slowly")
    press(scores, "Check")
    press(softmax, "Check")
    expect(softmax.locator(".practice-says")).to_contain_text("This one is next")
    assert asked(softmax)["exercise"] == "attention.softmax"
    expect(scores.locator(".practice-panel")).to_have_text("Too slow")


@pytest.mark.parametrize(
    ("served", "words"),
    [
        ({}, "This copy of the book has no Python for its pages."),
        (WITH_PYTHON | {WORKER: b"throw new Error('it is late')"}, "Python could not be started."),
        (
            WITH_PYTHON | {WORKER: b'postMessage({ says: "broken", text: "a <b>" })'},
            "Python could not be started. Your code is safe.",
        ),
    ],
)
def test_without_python_a_sentence_says_what_to_do(visit, served, words):
    page = visit(served)
    press(first(page), "Check")
    expect(first(page).locator(".practice-panel")).to_contain_text(words)


def test_without_a_network_a_sentence_says_so(visit):
    page = visit()
    page.context.set_offline(True)
    press(first(page), "Check")
    expect(first(page).locator(".practice-panel")).to_contain_text("the connection failed")
    page.context.set_offline(False)
    press(first(page), "Check")
    asked(first(page))


def test_from_disk_the_editor_works_and_a_sentence_leads_to_python(visit, small):
    page = visit(url=(small / f"{PAGE}.html").as_uri())
    expect(page.locator(".practice-here")).to_contain_text("a page that was opened from disk")
    edit(first(page), "a = 1")
    press(first(page), "Check")
    expect(first(page).locator(".practice-panel")).to_contain_text("a page that was opened from disk")
    page.reload()
    expect(first(page).locator("textarea")).to_have_value("a = 1")


def test_without_the_editor_the_field_goes_on(visit):
    page = visit(WITH_PYTHON | {BUNDLE: None})
    field = first(page).locator("textarea")
    field.click()
    field.fill("a = 1")
    field.press("Control+Enter")
    assert asked(first(page))["code"] == "a = 1"
    expect(field).to_be_focused()


FULL = """
const { setItem } = Storage.prototype;
Storage.prototype.setItem = function (key, text) {
  if (key.startsWith("glassformer.")) throw new Error("full");
  setItem.call(this, key, text);
};
"""


def test_a_browser_that_keeps_nothing_is_named_and_all_else_works(visit):
    page = visit(script=FULL)
    expect(page.locator(".practice-page .practice-note")).to_contain_text("does not keep anything")
    edit(first(page), "right = 1")
    press(first(page), "Check")
    asked(first(page))
    softmax = page.locator(".practice").nth(1)
    press(softmax, "Check")
    assert asked(softmax)["earlier"] == {"attention.scores": "right = 1"}


def test_the_readers_file_can_be_saved_and_opened(visit):
    page = visit()
    top = page.locator(".practice-page")
    press(top, "Download my_transformer.py")
    expect(top.locator(".practice-says")).to_contain_text(
        "There is no my_transformer.py in this browser yet."
    )
    edit(first(page), "right = 1")
    press(first(page), "Check")
    asked(first(page))
    with page.expect_download() as download:
        press(top, "Download my_transformer.py")
    assert download.value.suggested_filename == "my_transformer.py"
    assert Path(download.value.path()).read_text("utf-8") == "def mine(): ...\n"
    page.evaluate("() => localStorage.setItem('glassformer.file: my_transformer_old/001.py', '# before')")
    press(top, "Download my_transformer.py")
    with page.expect_download() as download:
        press(top, "001.py")
    assert download.value.suggested_filename == "my_transformer_old_001.py"
    assert Path(download.value.path()).read_text("utf-8") == "# before"
    mine = "() => localStorage.getItem('glassformer.file: my_transformer.py')"

    def choose(content):
        with page.expect_file_chooser() as chooser:
            press(top, "Open a my_transformer.py")
        chooser.value.set_files(
            [{"name": "my_transformer.py", "mimeType": "text/x-python", "buffer": content}]
        )

    choose(b"def mine(): ...\n")
    expect(top.locator(".practice-says")).to_contain_text("already has")
    choose(b"def another(): ...\n")
    press(top, "Keep the old one")
    assert page.evaluate(mine) == "def mine(): ...\n"
    choose(b"def another(): ...\n")
    press(top, "Replace it")
    expect(top.locator(".practice-says")).to_contain_text("was opened")
    assert page.evaluate(mine) == "def another(): ...\n"
    for refused in (
        b"\x00\xff",
        b"def f(): ...\n\x00",
        b"<html>\ndef f(): ...\n",
        b"hello",
        "def é(): ...".encode("latin-1"),
    ):
        choose(refused)
        expect(top.locator(".practice-says")).to_contain_text("nothing was changed")
        press(top, "Download my_transformer.py")  # so that the next sentence is a new one
        expect(top.locator(".practice-says")).to_be_empty()
    assert page.evaluate(mine) == "def another(): ...\n"
    choose("def f():\n    return '\ufffd'\n".encode())
    press(top, "Replace it")
    assert page.evaluate(mine) == "def f():\n    return '\ufffd'\n"


def test_files_that_code_has_left_can_be_downloaded_and_removed_and_ours_stay(visit):
    page = visit()
    expect(page.locator(".practice-page .practice-offer")).to_have_count(0)
    names = [
        "my_transformer.py",
        "my_transformer_old/001.py",
        "progress.json",
        "runs/first/log.json",
        "../../x.py",
    ]
    page.evaluate("names => { for (const n of names) localStorage[`glassformer.file: ${n}`] = '{}'; }", names)
    page.reload()
    top = page.locator(".practice-page")
    expect(top.locator(".practice-offer")).to_contain_text("has left 2 files in this browser")
    with page.expect_download() as download:
        press(top, "Download runs/first/log.json")
    assert download.value.suggested_filename == "runs_first_log.json"
    press(top, "Remove from this browser")
    press(top, "Keep them")
    press(top, "Remove from this browser")
    expect(top.get_by_role("button", name="Keep them")).to_be_focused()
    assert page.evaluate("names => names.every((n) => localStorage[`glassformer.file: ${n}`])", names)
    press(top, "Remove them")
    expect(top.locator(".practice-offer")).to_have_count(0)
    left = page.evaluate(
        "() => Object.keys(localStorage).filter((key) => key.startsWith('glassformer.file: ')).sort()"
    )
    assert left == sorted(f"glassformer.file: {name}" for name in names[:3])


# Adds a line to the reader's file, and marks the exercise in a new record.
ADDS = """
self.addEventListener("message", ({ data: { do: what, id, request } }) => {
  if (what === "start") return postMessage({ says: "ready" });
  const record = JSON.stringify({ version: 1, exercises: { [request.exercise]: { done: true } } });
  const mine = `${request.files["my_transformer.py"] ?? ""}${request.code}\n`;
  const files = { "my_transformer.py": mine, "progress.json": record };
  const answer = () => postMessage({ id, answer: { panels: [], right: true, kept: "added", files } });
  if (request.code !== "one" || request.files["my_transformer.py"]) answer();
  else new BroadcastChannel("go").onmessage = answer;
});
"""


def test_two_tabs_that_keep_an_answer_at_once_keep_both(visit):
    page = visit(WITH_PYTHON | {WORKER: ADDS.encode()})
    other = page.context.new_page()
    other.errors = page.errors
    other.goto(page.url)
    first(other)  # before the first tab has kept anything
    scores = first(page)
    edit(scores, "one")
    press(scores, "Check")
    softmax = other.locator(".practice[data-exercise]").nth(1)
    edit(softmax, "two")
    press(softmax, "Check")
    other.wait_for_function("() => localStorage['glassformer.file: my_transformer.py'] === 'two\\n'")
    page.wait_for_function(
        """() => {
          new BroadcastChannel("go").postMessage("");
          return localStorage["glassformer.file: my_transformer.py"] === "two\\none\\n";
        }"""
    )
    marks = page.evaluate("() => JSON.parse(localStorage['glassformer.file: progress.json']).exercises")
    assert len(marks) == 2


def everything(page):
    """Shows an editor, an offer, output, a verdict and a hint."""
    scores, softmax = page.locator(".practice[data-exercise]").all()
    edit(scores, "def scores(query, keys):\n    return 'a' + 3  # why\n" + "long = 1 " * 30)
    press(scores, "Start over")
    press(scores, "Bring it back")
    press(scores, "Start over")
    press(scores, "Try it")
    expect(scores.locator(".practice-output pre")).to_have_count(2)
    press(softmax, "Check")
    asked(softmax)
    press(softmax, "Hint")


def test_it_is_accessible_and_fits_a_phone_where_ios_does_not_zoom(visit):
    page = visit(width=360, has_touch=True)
    everything(page)
    press(first(page), "Bring it back")
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
    size = "element => parseFloat(getComputedStyle(element).fontSize)"
    assert first(page).locator(".cm-content").evaluate(size) >= 16
    assert axe_violations(page, ["target-size", "scrollable-region-focusable"]) == []
    page.set_viewport_size({"width": 1280, "height": 800})
    assert axe_violations(page) == []
    for theme in ("light", "dark"):
        page.evaluate("theme => (document.documentElement.dataset.theme = theme)", theme)
        assert contrast_violations(page) == []
    page.set_viewport_size({"width": 360, "height": 800})
    page.reload()
    assert first(page).locator("textarea").evaluate(size) >= 16


@pytest.mark.weekly  # it needs node and a network
def test_the_bundle_is_what_its_source_says():
    editor.fetch()
    assert editor.BUNDLE.read_text("utf-8") == editor.bundle(), "book/editor has changed: run `make editor`"
    assert editor.LICENCES.read_text("utf-8") == editor.licences()
