"""Tests predictions on a small book, built like the real one: nothing is shown before an answer."""

import ipywidgets
import nbformat
import pytest
from bs4 import BeautifulSoup
from mounting import settle
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from playwright.sync_api import expect
from small_site import build

from glassformer.widgets import Predict
from tools.notebooks import WIDGET_STATE, WIDGET_VIEW
from tools.shared.browser import axe_violations, contrast_violations

NUMBER = {
    **{"question": "How many marbles are in the jar?", "kind": "number"},
    **{"from": 0, "to": 100, "step": 1, "answer": 40, "axis": "marbles"},
}
CHOICE = {
    "question": "Which colour is most common?",
    "kind": "choice",
    "options": ["red", "blue"],
    "answer": 1,
}
FILLER = "\n\n".join(["Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor."] * 12)


def page_with(predictions):
    """Returns a notebook in which each prediction is followed by its fold."""
    cells = [new_markdown_cell("# Marbles\n\nA jar of marbles.\n\n## Count\n\n[how many](#inside)")]
    for view in predictions:
        reference = {"model_id": view.model_id, "version_major": 2, "version_minor": 0}
        shown = new_output("display_data", {WIDGET_VIEW: reference, "text/plain": "Predict"})
        cells += [
            new_code_cell(f'widgets.Predict.load("99", "{view.name}")', outputs=[shown]),
            new_markdown_cell(f"#### A look at the {view.name}"),
            new_code_cell("look()", outputs=[new_output("stream", text=f"printed {view.name}\n")]),
            new_markdown_cell(
                f"The comment on {view.name}.\n\n" + ("(inside)=\nSo it is." if view.name == "jar" else "")
            ),
            new_markdown_cell(f"## After {view.name}\n\n{FILLER}"),
        ]
    models = [one for view in predictions for one in (view, view.layout, *view._modules)]
    state = ipywidgets.Widget.get_manager_state(widgets=models)
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return new_notebook(cells=cells, metadata={"widgets": {WIDGET_STATE: state}, "kernelspec": kernel})


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Builds a page with two predictions, and returns its address on disk."""
    root = tmp_path_factory.mktemp("small")
    tables = {"jar": NUMBER, "colour": CHOICE}
    predictions = [Predict(table, name=name, chapter="99") for name, table in tables.items()]
    page = page_with(predictions)
    return build(root, lambda folder: nbformat.write(page, folder / "page.ipynb")) / "page.html"


@pytest.fixture
def window(browser):
    window = browser.new_context(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
    yield window
    window.close()


@pytest.fixture
def page(small, window):
    page = window.new_page()
    page.goto(small.as_uri())
    jar(page).wait_for()
    return page


def jar(page):
    return page.locator(".gf-predict", has_text="How many marbles")


def fold(page, name="jar"):
    return page.locator(f"details.fold[data-predict='99/{name}']")


def test_the_fold_after_a_prediction_has_its_name_and_holds_code_output_and_comment(small):
    document = BeautifulSoup(small.read_text(encoding="utf-8"), "html.parser")
    for name in ("jar", "colour"):
        [details] = document.select(f"details.fold[data-predict='99/{name}']")
        assert not details.has_attr("open")
        text = details.get_text()
        assert "look()" in text
        assert f"printed {name}" in text
        assert f"The comment on {name}." in text
        assert not details.select("h1, h2, h3, h4, h5, h6")
        assert details.find_next_sibling() is None or details.find_next_sibling().name == "section"
    assert "A look at" not in " ".join(link.get_text() for link in document.select(".page-toc a"))


def test_the_code_that_loads_a_prediction_is_left_out_and_other_code_is_not(small):
    document = BeautifulSoup(small.read_text(encoding="utf-8"), "html.parser")
    code = [block.get_text().strip() for block in document.select("div.cell_input")]
    assert code == ["look()", "look()"]
    assert len(document.select("div.cell script[type='application/vnd.jupyter.widget-view+json']")) == 2


def test_output_and_comment_appear_together_after_an_answer_by_keyboard(page):
    inside = [page.get_by_text("printed jar"), page.get_by_text("The comment on jar.")]
    for one in inside:
        expect(one).to_be_hidden()
    jar(page).get_by_label("Your number").focus()
    page.keyboard.type("60")
    page.keyboard.press("Enter")
    for one in inside:
        expect(one).to_be_visible()
    expect(page.locator(":focus")).to_have_text("You said 60; it came out as 40.")
    expect(page.get_by_text("The comment on colour.")).to_be_hidden()


NEVER_NEAR = "window.IntersectionObserver = class { observe() {} }"  # so that no view is drawn


def test_coming_back_finds_the_answered_question_as_high_as_it_was_left(page, small, window):
    height = "() => document.querySelectorAll('.widget-host')[0].clientHeight"
    page.set_viewport_size({"width": 390, "height": 844})
    settle(page)
    asked = page.evaluate(height)
    jar(page).get_by_label("Your number").fill("60")
    jar(page).get_by_label("Your number").press("Enter")
    expect(jar(page)).to_contain_text("it came out as 40")
    settle(page)
    left = page.evaluate(height)
    assert left > asked + 20
    early = window.new_page()
    early.set_viewport_size({"width": 390, "height": 844})
    early.add_init_script(NEVER_NEAR)
    early.goto(small.as_uri())
    expect(early.locator(".widget-host[data-state=waiting]")).to_have_count(2)
    assert early.evaluate(height) == left


def test_coming_back_finds_the_answer_and_the_open_fold_before_the_view_is_drawn(page, small, window):
    jar(page).get_by_label("Your number").fill("60")
    jar(page).get_by_label("Your number").press("Enter")
    early = window.new_page()
    early.add_init_script(NEVER_NEAR)
    # runs when the page may have been painted already
    early.route("**/page.js*", lambda route: route.abort())
    early.goto(small.as_uri())
    expect(fold(early)).to_have_attribute("open", "")
    expect(early.locator(".widget-host[data-state=waiting]")).to_have_count(2)
    again = window.new_page()
    again.goto(small.as_uri())
    expect(jar(again)).to_contain_text("You said 60; it came out as 40.")
    expect(fold(again)).to_have_attribute("open", "")
    expect(fold(again, "colour")).not_to_have_attribute("open", "")
    jar(again).get_by_role("button", name="Forget my answer").press("Enter")
    jar(again).get_by_role("button", name="Forget it for good").press("Enter")
    expect(fold(again)).not_to_have_attribute("open", "")
    again.reload()
    jar(again).get_by_label("Your number").wait_for()
    expect(jar(again).get_by_label("Your number")).to_have_value("")
    expect(fold(again)).not_to_have_attribute("open", "")


def test_an_answer_can_be_changed_and_the_fold_stays_open_meanwhile(page):
    field = jar(page).get_by_label("Your number")
    field.fill("60")
    field.press("Enter")
    jar(page).get_by_role("button", name="Change my answer").press("Enter")
    expect(field).to_have_value("60")
    expect(fold(page)).to_have_attribute("open", "")
    field.fill("41")
    field.press("Enter")
    expect(jar(page)).to_contain_text("You said 41; it came out as 40.")


def test_without_storage_it_works_and_promises_nothing(small, window):
    page = window.new_page()
    page.add_init_script(
        "Object.defineProperty(window, 'localStorage', { get() { throw new Error('no storage') } })"
    )
    page.goto(small.as_uri())
    expect(jar(page)).not_to_contain_text("stays in this browser")
    jar(page).get_by_label("Your number").fill("60")
    jar(page).get_by_role("button", name="Show", exact=True).click()
    expect(page.get_by_text("The comment on jar.")).to_be_visible()


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_above_the_answer_moves(page, width):
    page.set_viewport_size({"width": width, "height": 800})
    card = jar(page)
    card.scroll_into_view_if_needed()
    expect(card).to_be_in_viewport()
    question = card.locator(".gf-title")
    before = question.bounding_box()
    card.get_by_label("Your number").fill("60")
    card.get_by_role("button", name="Show", exact=True).click()
    expect(page.get_by_text("printed jar")).to_be_visible()
    assert question.bounding_box() == before


def test_without_javascript_the_question_and_the_summary_are_there(small, browser):
    window = browser.new_context(java_script_enabled=False)
    page = window.new_page()
    page.goto(small.as_uri())
    expect(page.get_by_text("printed jar")).to_be_hidden()
    fold(page).locator("summary").click()
    expect(page.get_by_text("printed jar")).to_be_visible()
    expect(page.locator(".scriptless", has_text=NUMBER["question"])).to_be_visible()
    window.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_before_and_after(page, scheme):
    page.emulate_media(color_scheme=scheme)
    jar(page).get_by_label("Your number").wait_for()
    assert axe_violations(page) + contrast_violations(page) == []
    jar(page).get_by_role("button", name="Just show me").click()
    assert axe_violations(page) + contrast_violations(page) == []
