"""Tests the page that shows what a reader has done, on a site of this page alone."""

import json
import re
import tomllib
from pathlib import Path

import pytest
from playwright.sync_api import expect
from small_site import build

from glassformer import contents
from glassformer.chapters.ch15.capstone.judge import STAGES
from glassformer.exercises import commands, progress
from glassformer.exercises.record import ENVIRONMENT, Record
from glassformer.widgets.predict import names
from tools.extensions.progress_page import PAGE
from tools.shared.browser import axe_violations, contrast_violations

MARKS = {
    "attention.scores": {"tried": True, "done": True},
    "attention.softmax": {"tried": True, "revealed": True},
    "stream.rms_norm": {"revealed": True},
}
RECORD = json.dumps({"version": 1, "exercises": MARKS})


@pytest.fixture(scope="module")
def address(tmp_path_factory, serve):
    folder = build(tmp_path_factory.mktemp("progress"), lambda folder: None, PAGE)
    return f"{serve(folder)['http']}{PAGE}.html"


@pytest.fixture
def visit(address, browser):
    """Provides visit(kept, …) -> page in a new window, whose browser keeps these entries."""
    windows = []

    def visit(kept=None, **settings):
        window = browser.new_context(reduced_motion="reduce", **settings)
        windows.append(window)
        page = window.new_page()
        page.goto(address)
        page.evaluate(
            "kept => { for (const [key, text] of Object.entries(kept)) localStorage[key] = text }", kept or {}
        )
        page.reload()
        page.locator(".progress-sums").wait_for()
        return page

    yield visit
    for window in windows:
        window.close()


def shown(page):
    """Returns the caption, the rows and the beginning of the closing line of every table."""
    return page.evaluate("""() => [...document.querySelectorAll(".practice-progress .practice-table")].map((one) => [
        one.querySelector("caption").textContent,
        [...one.querySelectorAll("tbody tr")].map((row) => [...row.children].map((cell) => cell.textContent)),
        one.lastElementChild.textContent,
    ])""")


@pytest.fixture
def in_a_notebook(monkeypatch, tmp_path):
    """Returns the tables that `progress()` shows for these marks."""
    path = tmp_path / "progress.json"
    path.write_text(RECORD)
    tables = []
    monkeypatch.setenv(ENVIRONMENT, str(path))
    monkeypatch.setattr(commands, "_record", Record())
    monkeypatch.setattr(commands, "display", tables.append)
    progress()
    return tables[1:]  # after the summary


def test_it_shows_what_a_notebook_shows(visit, in_a_notebook):
    page = visit({"glassformer.file: progress.json": RECORD})
    found = shown(page)
    assert [(caption, rows) for caption, rows, _ in found] == [
        (table.caption, [list(row) for row in table.rows]) for table in in_a_notebook
    ]
    assert all(said.startswith(table.closing) for (*_, said), table in zip(found, in_a_notebook, strict=True))
    states = {row[0]: row[-1] for _, rows, _ in found for row in rows}
    assert states["attention.scores"] == "done"
    assert states["attention.softmax"] == "tried, revealed"
    assert states["stream.rms_norm"] == "left, revealed"


def test_a_chapter_that_is_finished_says_so(visit):
    done = {name: {"done": True} for name in commands.of_chapter("05")}
    page = visit({"glassformer.file: progress.json": json.dumps({"version": 1, "exercises": done})})
    said = {caption: said for caption, _, said in shown(page)}[f"Chapter 05, {contents.chapter('05').title}"]
    assert said.startswith(f"{len(done)} of {len(done)} done. You have finished the chapter.")


def test_it_shows_what_was_answered_while_reading(visit):
    first, *_ = names("03")
    page = visit({f"glassformer.predict: 03/{first}": "{}"})
    said = {caption[:10]: said for caption, _, said in shown(page)}
    assert f"1 of {len(names('03'))} predictions answered, quiz not begun." in said["Chapter 03"]
    assert "0 of" in said["Chapter 05"].partition(" · ")[2]
    chapter = page.locator(".practice-table", has_text="Chapter 03, Attention")
    links = [link.get_attribute("href") for link in chapter.locator("a").all()]
    assert links == ["../notebooks/exercises/03-practice.html", "../notebooks/03-attention.html"]


def test_bars_show_how_much_is_done_and_how_sure_it_is(visit):
    asked = tomllib.loads((contents.folder("03") / "quiz.toml").read_text("utf-8"))["question"]
    right = [[i for i, one in enumerate(each["option"]) if one.get("correct")] for each in asked]
    answers = [
        [right[0]],
        [[], right[1]],
        [[]],
        *([] for _ in right[3:]),
    ]  # one at the first try, one at the second
    marks = {
        "attention.scores": {"done": True},
        "attention.softmax": {"done": True, "revealed": True},
        "attention.mask": {"tried": True},
    }
    kept = {
        "glassformer.file: progress.json": json.dumps({"version": 1, "exercises": marks}),
        f"glassformer.quiz: {asked[0]['text']}": json.dumps({"asked": [], "answers": answers}),
        f"glassformer.predict: 03/{names('03')[0]}": "{}",
    }
    page = visit(kept)
    cells = page.locator(".progress-chapters tr", has_text="03 · ").locator("td")
    many = len(commands.of_chapter("03"))
    quiz, exercises = f"2 of {len(right)}1 at the first try", f"2 of {many}1 without the answer"
    expect(cells).to_have_text([f"1 of {len(names('03'))}", quiz, exercises])
    part = cells.nth(1).locator(".bar").evaluate("bar => bar.style.cssText")
    shares = [float(share) for share in re.findall(r"([\d.]+)%", part)]
    assert shares == [pytest.approx(100 / len(right)), pytest.approx(200 / len(right))]
    ideas = page.locator(".progress-next li").all_text_contents()
    left = len(names("03")) - 1
    assert ideas[0].startswith(f"Read on in {contents.chapter('03').heading}, where {left} predictions wait")
    assert f"where {len(right) - 2} questions wait" in ideas[1]
    assert ideas[2].startswith("Try the exercise ")


def choose(page, content):
    page.locator(".practice-says").evaluate("said => (said.textContent = '')")
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Open a progress.json").click()
    chooser.value.set_files([{"name": "progress.json", "mimeType": "application/json", "buffer": content}])
    expect(page.locator(".practice-says")).not_to_be_empty()  # said once the file has been read


def test_a_notebooks_record_is_added_and_nothing_is_taken_away(visit):
    ours = {"version": 1, "exercises": {"attention.softmax": {"done": True}}}
    page = visit({"glassformer.file: progress.json": json.dumps(ours)})
    choose(page, RECORD.encode())
    expect(page.locator(".practice-says")).to_have_text("It was added to what this browser had.")
    states = {row[0]: row[-1] for _, rows, _ in shown(page) for row in rows}
    assert states["attention.scores"] == "done"
    assert states["attention.softmax"] == "done, revealed"
    with page.expect_download() as download:
        page.get_by_role("button", name="Download progress.json").click()
    assert download.value.suggested_filename == "progress.json"
    whole = json.loads(Path(download.value.path()).read_text("utf-8"))
    assert whole["exercises"] == MARKS | {
        "attention.softmax": {"tried": True, "revealed": True, "done": True}
    }


def test_a_flag_that_is_not_set_does_not_count(visit):
    page = visit()
    exercises = {"attention.scores": {"tried": True, "done": False}, "attention.softmax": {"revealed": False}}
    choose(page, json.dumps({"version": 1, "exercises": exercises}).encode())
    states = {row[0]: row[-1] for _, rows, _ in shown(page) for row in rows}
    assert (states["attention.scores"], states["attention.softmax"]) == ("tried", "left")


OTHER_FILES = [
    b"",
    b"{}",
    b"[1]",
    b'{"exercises": 3}',
    b"\xff\xfe",
    b'{"exercises": {"a": null}}',
    b'{"exercises": [{}]}',
    b'{"exercises": {"<b>": {"done": true}, "__proto__": {"done": true}}}',
]


def test_another_file_changes_nothing(visit):
    page = visit({"glassformer.file: progress.json": RECORD})
    before = shown(page)
    for content in OTHER_FILES:
        choose(page, content)
        expect(page.locator(".practice-says")).to_contain_text("nothing was changed")
        assert shown(page) == before, content
        assert page.evaluate("localStorage['glassformer.file: progress.json']") == RECORD, content


def test_names_that_the_book_does_not_have_are_left_out(visit):
    page = visit({"glassformer.file: progress.json": RECORD})
    stage = f"capstone.{next(iter(STAGES))}"
    names = ["a.b", "constructor", "__proto__", stage]
    choose(page, json.dumps({"exercises": {name: {"done": True} for name in names}}).encode())
    expect(page.locator(".practice-says")).to_contain_text("3 of its names are no exercise of this book")
    kept = json.loads(page.evaluate("localStorage['glassformer.file: progress.json']"))["exercises"]
    assert kept == MARKS | {stage: {"done": True}}


@pytest.mark.parametrize(
    "damaged", ["{", "[]", '{"exercises": "text"}', '{"exercises": 3}', '{"exercises": {"a": 1}}']
)
def test_a_damaged_record_counts_as_none_and_can_be_had(visit, damaged):
    page = visit({"glassformer.file: progress.json": damaged})
    assert {row[-1] for _, rows, _ in shown(page) for row in rows} == {"left"}
    with page.expect_download() as download:
        page.get_by_role("button", name="Download the old one").click()
    assert Path(download.value.path()).read_text("utf-8") == damaged
    choose(page, RECORD.encode())
    assert json.loads(page.evaluate("localStorage['glassformer.file: progress.json']"))["exercises"] == MARKS


def test_with_nothing_done_there_is_nothing_to_download(visit):
    page = visit()
    page.get_by_role("button", name="Download progress.json").click()
    expect(page.locator(".practice-says")).to_have_text("There is nothing to download yet.")


def test_it_is_accessible_and_fits_a_phone(visit):
    page = visit({"glassformer.file: progress.json": RECORD}, viewport={"width": 360, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
    for fold in page.locator("details > summary").all():
        fold.press("Enter")
    wide = "all => all.filter((one) => one.scrollWidth > one.clientWidth).length"
    assert page.locator(".practice-table").evaluate_all(wide) == 0  # the state is in view
    assert axe_violations(page) == []
    for theme in ("light", "dark"):
        page.evaluate("theme => (document.documentElement.dataset.theme = theme)", theme)
        assert contrast_violations(page) == []
