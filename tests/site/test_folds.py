"""Tests what a heading of the fourth level folds, and that an answer to a prediction opens the fold below it.

On a small book of one page, built like the real book.
"""

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

PAGE = """# Marbles

## Ask

> **Predict.** How many?

#### Then `count` them

There are forty, says the prose.

(inside)=
So it is.

```python
print("40")
```

### Below

This is seen: [how many](#inside)

#### Then look again

Still forty.

## After

Zinnias.
"""
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
    """Returns a notebook of the page above, after which each prediction is followed by its fold."""
    cells = [new_markdown_cell(PAGE)]
    for view in predictions:
        reference = {"model_id": view.model_id, "version_major": 2, "version_minor": 0}
        shown = new_output("display_data", {WIDGET_VIEW: reference, "text/plain": "Predict"})
        cells += [
            new_code_cell(f'widgets.Predict.load("99", "{view.name}")', outputs=[shown]),
            new_markdown_cell(f"#### A look at the {view.name}"),
            new_code_cell("look()", outputs=[new_output("stream", text=f"printed {view.name}\n")]),
            new_markdown_cell(f"The comment on {view.name}."),
            new_markdown_cell(f"## After {view.name}\n\n{FILLER}"),
        ]
    models = [one for view in predictions for one in (view, view.layout, *view._modules)]
    state = ipywidgets.Widget.get_manager_state(widgets=models)
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return new_notebook(cells=cells, metadata={"widgets": {WIDGET_STATE: state}, "kernelspec": kernel})


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Builds the page, with two predictions, and returns the folder of its site."""
    root = tmp_path_factory.mktemp("small")
    tables = {"jar": NUMBER, "colour": CHOICE}
    predictions = [Predict(table, name=name, chapter="99") for name, table in tables.items()]
    page = page_with(predictions)
    return build(root, lambda folder: nbformat.write(page, folder / "page.ipynb"))


@pytest.fixture(scope="module")
def document(small):
    return BeautifulSoup((small / "page.html").read_text(encoding="utf-8"), "html.parser")


@pytest.fixture(scope="module")
def address(small):
    return (small / "page.html").as_uri()


@pytest.fixture
def window(browser):
    size = {"width": 1280, "height": 800}
    window = browser.new_context(viewport=size, color_scheme="dark", reduced_motion="reduce")
    yield window
    window.close()


@pytest.fixture
def page(address, window):
    page = window.new_page()
    page.goto(address)
    return page


def test_all_up_to_the_next_heading_is_folded_and_nothing_else(document):
    first, second = document.select("details.fold:not([data-predict])")
    assert [fold.summary.get_text() for fold in (first, second)] == ["Then count them", "Then look again"]
    assert first.summary.code.get_text() == "count"
    assert all(words in first.get_text() for words in ("There are forty", "So it is", 'print("40")'))
    assert "Still forty" in second.get_text()
    for fold in (first, second):
        assert not fold.has_attr("open")
        assert not fold.select("h1, h2, h3, h4, h5, details")
    whole, folded = document.select_one("article").get_text(), first.get_text() + second.get_text()
    for words in ("How many?", "This is seen", "Zinnias"):
        assert words in whole
        assert words not in folded
    assert whole.count("forty") == folded.count("forty")
    listed = [link.get_text() for link in document.select(".page-toc a, #jb-print-toc a")]
    assert "Ask" in " ".join(listed)
    assert "Then" not in " ".join(listed)


def test_the_keyboard_opens_it_and_the_words_of_the_fold_say_so(page):
    fold = page.locator("details.fold").first
    inside = page.get_by_text("There are forty")
    expect(inside).to_be_hidden()
    fold.locator("summary").press("Enter")
    expect(inside).to_be_visible()
    fold.locator("summary").press("Space")
    expect(inside).to_be_hidden()


def test_a_link_inside_opens_it_however_often(page):
    inside = page.get_by_text("So it is.")
    for _ in range(2):
        page.get_by_role("link", name="how many").click()
        inside.wait_for()
        page.wait_for_function("document.querySelector('#inside').getBoundingClientRect().top < innerHeight")
        page.locator("details.fold summary").first.press("Enter")
        expect(inside).to_be_hidden()


def test_who_comes_with_a_link_inside_finds_it_open(page, address):
    page.goto("about:blank")
    page.goto(f"{address}#inside")
    page.get_by_text("So it is.").wait_for()
    expect(page.locator("details.fold[open]")).to_have_count(1)


def test_search_leads_to_the_fold_and_opens_it(page, small):
    page.goto((small / "search.html").as_uri() + "?q=prose")
    page.get_by_role("link", name="Ask: Then count them").click()
    page.get_by_text("There are forty").wait_for()


def test_on_paper_it_is_open_and_light_and_then_as_it_was(page):
    page.evaluate("""() => {
        window.seen = [];
        const { dataset } = document.documentElement;
        const look = () => seen.push([dataset.theme, document.querySelectorAll(".fold[open]").length]);
        look();
        addEventListener("beforeprint", look);
        addEventListener("afterprint", () => setTimeout(look));
    }""")
    page.pdf()
    page.wait_for_function("seen.length === 3")
    assert page.evaluate("seen") == [["dark", 0], ["light", 4], ["dark", 0]]


# --- predictions ---


def jar(page):
    return page.locator(".gf-predict", has_text="How many marbles")


def fold(page, name="jar"):
    return page.locator(f"details.fold[data-predict='99/{name}']")


def test_the_fold_after_a_prediction_has_its_name_and_holds_code_output_and_comment(document):
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


def test_the_code_that_loads_a_prediction_is_left_out_and_other_code_is_not(document):
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


def test_coming_back_finds_the_answered_question_as_high_as_it_was_left(page, address, window):
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
    early.goto(address)
    expect(early.locator(".widget-host[data-state=waiting]")).to_have_count(2)
    assert early.evaluate(height) == left


def test_coming_back_finds_the_answer_and_the_open_fold_before_the_view_is_drawn(page, address, window):
    jar(page).get_by_label("Your number").fill("60")
    jar(page).get_by_label("Your number").press("Enter")
    early = window.new_page()
    early.add_init_script(NEVER_NEAR)
    # runs when the page may have been painted already
    early.route("**/page.js*", lambda route: route.abort())
    early.goto(address)
    expect(fold(early)).to_have_attribute("open", "")
    expect(early.locator(".widget-host[data-state=waiting]")).to_have_count(2)
    again = window.new_page()
    again.goto(address)
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


def test_without_storage_it_works_and_promises_nothing(address, window):
    page = window.new_page()
    page.add_init_script(
        "Object.defineProperty(window, 'localStorage', { get() { throw new Error('no storage') } })"
    )
    page.goto(address)
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


def test_without_javascript_the_question_and_the_summary_are_there(address, browser):
    window = browser.new_context(java_script_enabled=False)
    page = window.new_page()
    page.goto(address)
    expect(page.get_by_text("printed jar")).to_be_hidden()
    fold(page).locator("summary").click()
    expect(page.get_by_text("printed jar")).to_be_visible()
    expect(page.locator(".scriptless", has_text=NUMBER["question"])).to_be_visible()
    window.close()
