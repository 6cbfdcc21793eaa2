"""Tests a reader's first hour in a real JupyterLab: open, unfold, follow links, move widgets, do an exercise."""

import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import ipywidgets
import nbformat
import numpy as np
import pytest
from nbformat.sign import NotebookNotary
from playwright.sync_api import expect

from glassformer import figures, shipped
from glassformer.contents import chapter
from glassformer.inside import logit_lens
from glassformer.scratch import softmax
from glassformer.widgets import ClockHands, Quiz
from tools.notebooks import ROOT, WIDGET_STATE, WIDGET_VIEW, execute, pairs, read_text
from tools.shared import where_to_run
from tools.shared.browser import PATIENCE

CHAPTER = "04-putting-order-in.ipynb"
EXERCISE = "positions.sinusoidal"

# As it comes, JupyterLab keeps only the cells in sight in the page. The tests want to read all of them.
SETTINGS = {
    "notebook-extension/tracker": {"windowingMode": "none"},
    "apputils-extension/notification": {
        "fetchNews": "false",
        "checkForUpdates": False,
        "doNotDisturbMode": True,
    },
}

# Another version of the book, whose clocks have another name and another look.
OLDER = {"A row of clocks": "Clocks", "font-weight: 650": "font-weight: 300"}

WITHOUT_THE_TWO = """def sinusoidal(positions, d_model, base=10_000.0):
    frequencies = base ** (-np.arange(d_model // 2) / d_model)
    angles = np.asarray(positions)[:, None] * frequencies
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(len(positions), d_model)"""
RIGHT = WITHOUT_THE_TWO.replace("(-np.arange(", "(-2 * np.arange(")


FRONT = "---\njupytext: {text_representation: {extension: .md, format_name: myst}}\n---\n"
# What a chapter's author writes, with two folds, hidden code and links.
TEXT = """
> **Predict.** What is printed? Think of the [causal mask](../book/glossary.md#causal-mask), of
> [RoPE](../book/glossary.md#RoPE) and of [Press et al. 2022](../book/bibliography.md#press2022train).

#### Then look

```{code-cell} ipython3
seen = "the answer"
print(seen)
```

That is why.

#### And again

```{code-cell} ipython3
print(seen, "again")
```

## After the folds

Chapter 04 is about order.

```{code-cell} ipython3
:tags: [hide-input]

print(seen + ", drawn")  # by code
```
"""
TEXT += f"\n{where_to_run.in_notebook()}\n"

# A prediction with its fold; the last heading ends the fold.
PREDICTION = """
```{code-cell} ipython3
from glassformer.widgets import Predict

jar = Predict(
    {"question": "How many?", "kind": "number", "from": 0, "to": 99, "step": 1, "answer": 40, "axis": "marbles"},
    name="jar",
)
jar
```

#### A look into the jar

```{code-cell} ipython3
print("for", "ty")
```

That is the comment.

## After the fold

```{code-cell} ipython3
jar.committed
```
"""
# A chapter with views made in all ways, of which the last two have the same code, and with a whole float, `base`.
DAY = """
```{code-cell} ipython3
:tags: [hide-cell]

from glassformer.widgets import ClockHands, GlassMachine
```

```{code-cell} ipython3
clocks = ClockHands()
clocks
```

```{code-cell} ipython3
clocks
```

```{code-cell} ipython3
def show(position):
    display(ClockHands(position=position))

for position in (3, 4):
    show(position)
```

```{code-cell} ipython3
GlassMachine()
```

```{code-cell} ipython3
ClockHands(base=5000)
```

```{code-cell} ipython3
ClockHands(base=5000)
```
"""

# What is clicked, how the entry begins to which it leads, and in which file.
LINKS = [
    ("causal mask", "causal mask", "glossary.md"),
    ("RoPE", "RoPE", "glossary.md"),
    ("Press et al. 2022", "Ofir Press, Noah", "bibliography.md"),
]


# Notebooks that are opened and saved, and those that are run. Every week there are more, and they are also run with
# JupyterLab's *Save Widget State Automatically*.
BOOK = sorted(notebook.relative_to(ROOT / "notebooks").as_posix() for _, notebook in pairs())
ALWAYS = {"index.ipynb", "exercises/03-practice.ipynb", "day.ipynb"}
OPENED, RUN = (
    [pytest.param(path, marks=[] if path in ALWAYS else pytest.mark.weekly) for path in paths]
    for paths in (BOOK, ["day.ipynb", "00-start-here.ipynb", "03-attention.ipynb", "10-training.ipynb"])
)


def read(path):
    return nbformat.read(ROOT / "notebooks" / path, as_version=4)


def stored_view(view, **changes):
    """Returns a view's stored output and its state. `changes` maps old to new in the view's code."""
    state = ipywidgets.Widget.get_manager_state(widgets=[view, view.layout, *view._modules])
    for model in state["state"].values():
        for part in {"source", "style"} & model["state"].keys():
            for old, new in changes.items():
                model["state"][part] = model["state"][part].replace(old, new)
    bundle = {"model_id": view.model_id, "version_major": 2, "version_minor": 0}
    shown = {WIDGET_VIEW: bundle, "text/plain": f"{type(view).__name__}()"}
    return nbformat.v4.new_output("display_data", shown), {WIDGET_STATE: state}


def notebook_of(*cells, state=None):
    """Returns a notebook: each cell is its source, with or without the output that is stored."""
    v4 = nbformat.v4
    cells = [v4.new_code_cell(source, outputs=outputs) for source, *outputs in cells]
    kernel = {"kernelspec": read(CHAPTER).metadata.kernelspec}
    return v4.new_notebook(cells=cells, metadata=kernel | ({"widgets": state} if state else {}))


def stored_clocks(**changes):
    """Returns a stored notebook with one view, not run since. `changes` maps old to new in the view's code."""
    shown, state = stored_view(ClockHands(), **changes)
    source = "from glassformer.widgets import ClockHands\n\nclocks = ClockHands()\nclocks"
    return notebook_of((source, shown), ("clocks.position",), state=state)


def machine():
    """Returns a notebook that shows a running model, as written: nothing has been run."""
    source = "from glassformer.widgets import GlassMachine\n\nmachine = GlassMachine()\nmachine"
    return notebook_of((source,), ("machine.text",))


def stored_links():
    """Returns a notebook with the drawing of the whole machine and a quiz that mentions chapters, as stored."""
    drawing = nbformat.v4.new_output("display_data", {"text/html": figures.machine_so_far("04").data})
    options = [{"text": "Yes.", "why": "It is.", "correct": True}, {"text": "No.", "why": "It is."}]
    quiz, state = stored_view(Quiz([{"text": "Are chapters 14 and 15 the last?", "options": options}]))
    return notebook_of(('figures.machine_so_far("04")', drawing), ("quiz", quiz), state=state)


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """Starts a separate JupyterLab on a copy of the book, without anybody's settings or progress."""
    folder = tmp_path_factory.mktemp("lab")
    shutil.copytree(ROOT / "notebooks", folder / "book" / "notebooks")
    shutil.copytree(ROOT / "book", folder / "book" / "book", ignore=shutil.ignore_patterns("site"))
    made = folder / "book" / "notebooks"
    for name, text in {"folds": TEXT, "predict": PREDICTION, "day": DAY}.items():
        (folder / f"{name}.md").write_text(FRONT + text, encoding="utf-8")
        nbformat.write(read_text(folder / f"{name}.md"), made / f"{name}.ipynb")
    execute(folder / "day.md", made / "day.ipynb", folder)
    nbformat.write(machine(), made / "machine.ipynb")
    (folder / "data").mkdir()
    notary = NotebookNotary(data_dir=str(folder / "data"))  # as `make lab` does with jupyter-trust
    older = stored_clocks(**OLDER)
    for name, notebook in {"stored": stored_clocks(), "older": older, "links": stored_links()}.items():
        nbformat.write(notebook, made / f"{name}.ipynb")
        notary.sign(notebook)
    settings = folder / "settings" / "@jupyterlab"
    for name, values in SETTINGS.items():
        path = settings / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))
    environment = os.environ | {
        "GLASSFORMER_PROGRESS": str(folder / "progress.json"),
        "GLASSFORMER_MINE": str(folder / "my_transformer.py"),
        "IPYTHONDIR": str(folder / "ipython"),
        "JUPYTER_CONFIG_DIR": str(folder / "config"),
        "JUPYTER_DATA_DIR": str(folder / "data"),
        "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces"),
    }
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    token = secrets.token_hex(16)
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1"]
    command += [f"--port={port}", "--ServerApp.port_retries=0", f"--IdentityProvider.token={token}"]
    command += [f"--ServerApp.root_dir={folder / 'book'}", "--LabApp.expose_app_in_browser=True"]
    with open(folder / "log.txt", "w") as log:
        server = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            deadline = time.monotonic() + PATIENCE
            while True:
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/api?token={token}", timeout=PATIENCE)
                    break
                except OSError:
                    if server.poll() is not None or time.monotonic() > deadline:
                        pytest.fail("JupyterLab did not start:\n" + (folder / "log.txt").read_text())
                    time.sleep(0.3)

            def address(path, desk):
                return (
                    f"http://127.0.0.1:{port}/lab/workspaces/{desk}/tree/notebooks/{path}?reset&token={token}"
                )

            address.folder = made
            address.trust = lambda path: notary.sign(nbformat.read(address.folder / path, as_version=4))
            yield address
        finally:
            server.terminate()
            server.wait(timeout=PATIENCE)


class Notebook:
    """One notebook that is open in JupyterLab."""

    def __init__(self, page, written):
        self.page = page
        self.written = written.cells
        self.cells = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook .jp-Cell")
        page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook").wait_for()
        page.wait_for_function(
            "n => document.querySelectorAll('.jp-Notebook .jp-Cell').length === n", arg=len(self.written)
        )
        # The kernel must be there before a cell is run: JupyterLab drops what comes before.
        page.locator("#jp-main-statusbar", has_text="| Idle").wait_for()
        self.wait_until_idle()

    def wait_until_idle(self):
        """Waits until the kernel is idle and no cell is queued."""
        self.page.wait_for_function(
            """() => document.querySelector('.jp-NotebookPanel .jp-Notebook-ExecutionIndicator')
                         ?.dataset.status === 'idle'
                     && ![...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')]
                            .some((prompt) => prompt.textContent.includes('*'))"""
        )

    def menu(self, name, entry):
        self.page.locator("#jp-MainMenu .lm-MenuBar-itemLabel", has_text=re.compile(f"^{name}$")).click()
        self.page.locator(".lm-Menu-itemLabel", has_text=re.compile(f"^{entry}$")).click()

    def run_all(self):
        self.menu("Run", "Run All Cells")
        code = [index for index, cell in enumerate(self.written) if cell.cell_type == "code" and cell.source]
        last = self.cells.nth(code[-1]).locator(".jp-InputPrompt", has_text=f"[{len(code)}]:")
        last.first.wait_for()
        self.wait_until_idle()
        return code

    def errors(self):
        kinds = ["application/vnd.jupyter.error", "application/vnd.jupyter.stderr"]
        selector = ", ".join(f".jp-OutputArea-output[data-mime-type='{kind}']" for kind in kinds)
        return self.page.locator(selector).all_inner_texts()

    def find(self, text, before=None):
        """Returns the number of the last code cell, up to `before`, whose source contains a text."""
        places = [
            index
            for index, cell in enumerate(self.written[: None if before is None else before + 1])
            if cell.cell_type == "code" and text in cell.source
        ]
        assert places, f"no cell contains {text!r}"
        return places[-1]

    def rewrite(self, index, source):
        """Replaces a cell's source as a reader would: click, select all, type over it."""
        editor = self.cells.nth(index).locator(".cm-content")
        editor.scroll_into_view_if_needed()
        editor.click()
        self.page.keyboard.press("ControlOrMeta+A")
        self.page.keyboard.insert_text(source)

    def unfold(self, cell):
        """Shows the code of a cell, which is folded if the page folds it; the folded code has a prompt of its own."""
        placeholder = cell.locator(".jp-InputPlaceholder")
        if placeholder.count():
            placeholder.click()
        expect(placeholder).to_have_count(0)

    def run(self, index):
        """Run a cell and wait until it has been run; that it has begun is seen at the star in its prompt."""
        cell = self.cells.nth(index)
        self.unfold(cell)
        prompt = cell.locator(".jp-InputPrompt").element_handle()
        prompt.evaluate(
            """prompt => {
              prompt.dataset.seen = "waiting";
              const look = () => prompt.textContent.includes("*") && (prompt.dataset.seen = "begun");
              new MutationObserver(look).observe(prompt, { childList: true, characterData: true, subtree: true });
            }"""
        )
        cell.locator(".cm-content").click()
        self.page.keyboard.press("Control+Enter")
        self.page.wait_for_function("prompt => prompt.dataset.seen === 'begun'", arg=prompt)
        self.wait_until_idle()

    def expect_output(self, index, end):
        """Wait until what a cell has printed or shown last is this."""
        area = self.cells.nth(index).locator(".jp-OutputArea")
        expect(area).to_have_text(re.compile(rf"(?<!\w){re.escape(end)}\s*$"))


def open_notebook(lab, page, path, desk):
    page.goto(lab(path, desk))
    return Notebook(page, nbformat.read(lab.folder / path, as_version=4))


@pytest.fixture
def page(browser):
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    yield context.new_page()
    context.close()


def answer(clocks):
    """Moves a row of clocks by keyboard, waits for the sentence about the new position, and returns it."""
    slider = clocks.get_by_label("Position p", exact=True)
    position = int(slider.input_value()) + 1
    # JupyterLab takes the focus back from a cell that is not the active one.
    clocks.locator(".gf-title").click()
    slider.focus()
    slider.press("ArrowRight")
    expected = f"At position {position}, hand 0 has turned by {position:.2f} rad"
    clocks.locator(".gf-says", has_text=expected).wait_for()
    return position


@pytest.mark.weekly
def test_a_part_of_the_machine_and_a_chapter_that_a_view_mentions_open_as_tabs(lab, page):
    notebook = open_notebook(lab, page, "links.ipynb", "links")
    drawing = notebook.cells.first.locator(".gf-machine")
    part = drawing.get_by_role("link", name="positions: chapter 04, Putting order in")
    part.wait_for()
    mention = notebook.cells.nth(1).get_by_role("link", name="14", exact=True)
    mention.wait_for()
    part.click()
    page.get_by_role("tab", name=CHAPTER).wait_for()
    page.get_by_role("tab", name="links.ipynb").click()
    mention.click()
    page.get_by_role("tab", name="14-when-it-almost-works.ipynb").wait_for()


def test_folds_are_run_with_all_and_stay_until_opened_and_links_open_at_the_entry(lab, page):
    notebook = open_notebook(lab, page, "folds.ipynb", "folds")
    notebook.menu("Run", "Run All Cells")
    code = [index for index, cell in enumerate(notebook.written) if cell.cell_type == "code"]
    outputs = [notebook.cells.nth(index).locator(".jp-OutputArea-output") for index in code]
    outputs[2].wait_for()
    notebook.wait_until_idle()
    expect(outputs[2]).to_have_text("the answer, drawn")
    for output in outputs[:2]:
        expect(output).to_be_hidden()
    expect(notebook.cells.nth(code[2]).locator(".cm-content")).to_be_hidden()
    expect(notebook.cells.nth(code[2]).locator(".jp-InputPlaceholder")).to_have_text("# Show the code")

    page.get_by_text("2 cells hidden").click()
    outputs[0].wait_for()
    expect(outputs[1]).to_be_hidden()
    notebook.cells.nth(code[1] - 1).click()  # the heading of the other fold
    page.keyboard.press("Escape")
    page.keyboard.press("Shift+Enter")
    outputs[1].wait_for()
    assert notebook.errors() == []

    for words, entry, title in LINKS:
        page.get_by_role("tab", name="folds.ipynb").click()
        notebook.cells.first.get_by_role("link", name=words).click()
        viewer = page.locator(".jp-MarkdownViewer:visible")
        place = viewer.locator("h2, p", has_text=re.compile(f"^{entry}"))
        place.wait_for()
        expect(page.locator(".lm-TabBar-tab.jp-mod-current", has_text=title)).to_have_count(1)
        page.wait_for_function(
            "place => { const { top } = place.getBoundingClientRect(); return 0 < top && top < innerHeight / 2; }",
            arg=place.element_handle(),
        )
        expect(viewer).not_to_contain_text(":::")

    page.get_by_role("tab", name="folds.ipynb").click()
    expect(notebook.cells.last.locator(".jp-RenderedMarkdown")).to_have_text(
        re.compile(r"^\s*In JupyterLab, every chapter is a notebook\..*\.\s*$")
    )
    notebook.cells.filter(has_text="is about order").get_by_role("link", name="Chapter 04").click()
    page.get_by_role("tab", name=CHAPTER).wait_for()
    heading = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) h1")
    expect(heading).to_contain_text(chapter("04").heading)


def is_drawn(locator):
    """Begins to notice whether an element is drawn; returns a function that says whether it was."""
    element = locator.element_handle()
    element.evaluate(
        """element => new IntersectionObserver((entries) => {
          if (entries.some((entry) => entry.isIntersecting)) element.dataset.drawn = "yes";
        }).observe(element)"""
    )
    return lambda: element.evaluate("element => element.dataset.drawn") == "yes"


def go_on_past_the_prediction(page, notebook):
    """Goes on as chapter 00 advises, without an answer; then opens what is folded on purpose, and shuts it again."""
    question, heading, code, comment, after, _ = map(notebook.cells.nth, range(6))
    drawn = is_drawn(code)
    go_on = page.locator(".jp-NotebookPanel-toolbar [data-command='notebook:run-cell-and-select-next']").first
    for count, press in {5: lambda: page.keyboard.press("Shift+Enter"), 7: go_on.click}.items():
        question.locator(".gf-title").click()
        press()  # runs the question again
        press()  # its view may not be back yet
        expect(after).to_have_class(re.compile("jp-mod-active"))
        expect(code.locator(".jp-InputPrompt")).to_have_text(f"[{count}]:")
        expect(question.locator(".gf-predict")).to_be_visible()
        notebook.wait_until_idle()
        expect(code).to_be_hidden()
        assert not drawn()
    heading.get_by_text("2 cells hidden").click()
    expect(comment).to_be_visible()
    shut = heading.locator(".jp-collapseHeadingButton")
    shut.click()
    expect(comment).to_be_hidden()
    page.keyboard.press("ArrowRight")  # JupyterLab's key for opening a heading
    expect(comment).to_be_visible()
    assert drawn()
    shut.click()


def test_show_unfolds_what_follows_a_prediction_and_it_is_remembered(lab, page):
    notebook = open_notebook(lab, page, "predict.ipynb", "predict")
    last = notebook.run_all()[-1]
    notebook.expect_output(last, "[]")
    view = page.locator(".gf-predict")
    printed, comment = (
        page.get_by_text("for ty", exact=True),
        page.locator("p", has_text="That is the comment."),
    )
    go_on_past_the_prediction(page, notebook)
    for inside in (printed, comment):
        expect(inside).to_be_hidden()
    view.locator(
        ".gf-title"
    ).click()  # JupyterLab takes the focus back from a cell that is not the active one
    view.get_by_label("Your number").fill("60")
    view.get_by_label("Your number").press("Enter")
    expect(page.locator(":focus")).to_have_text("You said 60; it came out as 40.")
    for inside in (printed, comment):
        expect(inside).to_be_visible()
    notebook.run(last)
    notebook.expect_output(last, "[60]")

    view.get_by_role("button", name="Forget my answer").click()
    view.get_by_role("button", name="Forget it for good").click()
    expect(comment).to_be_hidden()
    view.get_by_role("button", name="Just show me").click()
    expect(comment).to_be_visible()
    view.get_by_role("button", name="Change my answer").click()
    view.get_by_label("Your number").fill("7")
    view.get_by_role("button", name="Show", exact=True).click()
    expect(view).to_contain_text("You said 7; it came out as 40.")

    # Another desk: the notebook was not saved, so it is folded.
    notebook = open_notebook(lab, page, "predict.ipynb", "predict-again")
    expect(comment).to_be_hidden()
    notebook.menu("Run", "Run All Cells")  # in the same kernel, which counts on
    expect(page.locator(".gf-predict")).to_contain_text("You said 7; it came out as 40.")
    expect(comment).to_be_visible()
    assert notebook.errors() == []


@pytest.fixture
def windowing(page):
    """Provides windowing(mode), after which JupyterLab keeps only the cells near the screen in the page."""
    save = "([id, raw]) => jupyterapp.serviceManager.settings.save(id, raw)"

    def windowing(mode):
        page.wait_for_function("() => window.jupyterapp?.serviceManager")
        page.evaluate(save, ["@jupyterlab/notebook-extension:tracker", json.dumps({"windowingMode": mode})])
        page.reload()

    yield windowing
    windowing(SETTINGS["notebook-extension/tracker"]["windowingMode"])


NOW = "jupyterapp.shell.currentWidget.content"
RUNS = f"() => Math.max(...{NOW}.widgets.map(({{ model }}) => model.executionCount ?? 0))"

# What a reader finds in the first chapter: the answer, and words of the comment in the fold.
PREDICTIONS = [
    ("How many lines long", "About 1,000", "A hundred lines is enough"),
    ("Which character does head 3", "The most recent space", "At 68% of these positions"),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mode", ["contentVisibility", "full"])  # the default, and the strictest
def test_predictions_of_a_chapter_unfold_where_cells_out_of_sight_are_not_drawn(lab, page, windowing, mode):
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto(lab("00-start-here.ipynb", f"windowed-{mode}"))
    windowing(mode)
    page.locator(".jp-NotebookPanel .jp-Notebook .jp-Cell").first.wait_for()
    page.locator("#jp-main-statusbar", has_text="| Idle").wait_for()
    page.locator("#jp-MainMenu .lm-MenuBar-itemLabel", has_text=re.compile("^Run$")).click()
    page.locator(".lm-Menu-itemLabel", has_text=re.compile("^Run All Cells$")).click()
    page.wait_for_function(
        "() => jupyterapp.shell.currentWidget.content.widgets.every("
        "({ model }) => model.type !== 'code' || !model.sharedModel.source || model.executionCount)"
    )
    page.evaluate(f"() => {NOW}.scrollToItem(0, 'start')")
    for question, answer, comment in PREDICTIONS:
        card = page.locator(".gf-predict", has_text=question)
        words = page.locator("p", has_text=comment)
        scroll_to(page, card)
        expect(words).to_be_hidden()
        card.locator(".gf-title").click()
        before = page.evaluate(RUNS)
        for _ in range(2):  # past the heading
            page.keyboard.press("Shift+Enter")
        page.wait_for_function(f"before => ({RUNS})() > before + 1 && !{NOW}.activeCell.isHidden", arg=before)
        page.evaluate(f"() => {NOW}.scrollToItem(0, 'start')")
        scroll_to(page, card)
        expect(words).to_be_hidden()
        card.get_by_label(answer).check()
        card.get_by_role("button", name="Show", exact=True).click()
        expect(card.locator(".gf-says")).to_contain_text("it came out as")
        expect(card.locator(".gf-says")).not_to_contain_text("Open the heading")
        scroll_to(page, words)


def scroll_to(page, locator):
    """Turns the wheel until something is in sight, as a reader does who does not know where it is."""
    page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-WindowedPanel-outer").hover()
    page.wait_for_function("() => new Promise(requestAnimationFrame)")
    deadline = time.monotonic() + PATIENCE
    while not (locator.count() and locator.first.is_visible() and in_sight(locator.first)):
        assert time.monotonic() < deadline, f"{locator} did not come into sight"
        page.mouse.wheel(0, 300)
        page.wait_for_function("() => new Promise(requestAnimationFrame)")


def in_sight(locator):
    return locator.evaluate(
        "e => e.getBoundingClientRect().top > 0 && e.getBoundingClientRect().bottom < innerHeight"
    )


def test_the_chapters_widgets_start_and_answer(lab, page):
    """nbval already checks that the chapter runs; this tests the cells that need a browser."""
    notebook = open_notebook(lab, page, CHAPTER, "chapter")
    shows = [
        index
        for index, cell in enumerate(notebook.written)
        if any(WIDGET_VIEW in output.get("data", {}) for output in cell.get("outputs", []))
    ]
    # What follows a prediction is folded until the reader has answered.
    page.evaluate("() => jupyterapp.commands.execute('notebook:expand-all-headings')")
    notebook.run(notebook.find("import", before=shows[0]))
    for index in shows:
        notebook.run(index)
        notebook.cells.nth(index).locator(".gf-widget").wait_for()
    assert len(shows) >= 6
    assert notebook.errors() == []
    answer(page.locator(".gf-widget", has=page.locator(".gf-clocks")))


@pytest.mark.weekly
def test_stored_widgets_of_two_versions_answer_beside_each_other_before_anything_is_run(lab, page):
    page.goto(lab("stored.ipynb", "stored"))
    page.get_by_text("A row of clocks").wait_for()
    open_beside = (
        "path => jupyterapp.commands.execute('docmanager:open', { path, options: { mode: 'split-right' } })"
    )
    page.evaluate(open_beside, "notebooks/older.ipynb")
    for name, weight in {"A row of clocks": "650", "Clocks": "300"}.items():
        title = page.get_by_text(name, exact=True)
        title.wait_for()
        expect(title).to_have_css("font-weight", weight)
        answer(page.locator(".gf-widget", has=title))
    for stored in page.locator(".jupyter-widgets-disconnected").all():  # without Jupyter's red broken link
        assert stored.evaluate("view => getComputedStyle(view, '::before').content") == "none"


@pytest.mark.weekly
def test_a_widget_answers_its_kernel_also_after_the_page_was_loaded_again(lab, page):
    notebook = open_notebook(lab, page, "stored.ipynb", "live")
    notebook.run_all()
    notebook.expect_output(1, "20")
    answer(page.locator(".gf-widget"))
    page.evaluate("() => jupyterapp.commands.execute('docmanager:save')")
    page.reload()
    notebook = Notebook(page, stored_clocks())
    notebook.wait_until_idle()  # before it is connected, ipywidgets shows the notebook's own copy of a view
    position = answer(page.locator(".gf-widget"))
    notebook.run(1)
    assert position == 22
    notebook.expect_output(1, "22")
    assert notebook.errors() == []


def test_a_view_gets_the_weights_of_its_model_from_its_kernel(lab, page):
    notebook = open_notebook(lab, page, "machine.ipynb", "machine")
    notebook.run_all()
    view = page.locator(".gf-widget")
    view.wait_for()
    field = view.get_by_label("Your text", exact=True)
    field.click()
    field.fill("O Romeo, Rom")
    details = view.locator("details.gf-details")
    details.locator("summary").click()
    # The last row: what the model would write after all blocks. It has read the new text as soon as that is there.
    model, tokenizer = shipped.load()
    likeliest = softmax(logit_lens(model, tokenizer.encode("O Romeo, Rom")).astype(np.float64))[-1, -1].max()
    last = details.locator("table").first.locator("tr").last
    last.locator("td", has_text=re.compile(f"^{likeliest:.4f}$")).wait_for()
    notebook.run(1)
    notebook.expect_output(1, "'O Romeo, Rom'")
    assert notebook.errors() == []


def test_an_exercise_is_not_attempted_then_wrong_then_right(lab, page):
    path = f"{chapter('04').practice_name}.ipynb"
    notebook = open_notebook(lab, page, path, "practice")
    notebook.run_all()
    assert notebook.errors() == []

    asks = notebook.find(f'check("{EXERCISE}"')
    stub = notebook.find("def sinusoidal(", before=asks)
    said = notebook.cells.nth(asks).locator(".jp-OutputArea")
    expect(said).to_contain_text("not attempted yet")

    rest = "" if stub != asks else "\n" + notebook.written[asks].source.splitlines()[-1]
    for answer, verdict in ((WITHOUT_THE_TWO, "The 2 is missing"), (RIGHT, "right, all")):
        notebook.rewrite(stub, answer + rest)
        notebook.run(stub)
        if stub != asks:
            notebook.run(asks)
        expect(said).to_contain_text(verdict)
        assert notebook.errors() == []


# --- the second day ---

READY = """async () => {
  const { context } = jupyterapp.shell.currentWidget;
  await context.ready;
  await context.sessionContext.ready;
  await context.sessionContext.session.kernel.info;
}"""
SAVE = "() => jupyterapp.shell.currentWidget.context.save()"
SHUT_DOWN = "() => jupyterapp.serviceManager.sessions.shutdownAll()"


def opened(lab, page, path, desk):
    """Opens a notebook of which no cell has been run, and waits for its kernel and its views."""
    notebook = open_notebook(lab, page, path, desk)
    page.evaluate(READY)
    outputs = [output for cell in notebook.written for output in cell.get("outputs", [])]
    shown = sum(WIDGET_VIEW in output.get("data", {}) for output in outputs)
    views = "document.querySelectorAll('.jp-OutputArea [class*=gf-scope]').length"
    page.wait_for_function(f"n => {views} === n", arg=shown)
    expect(page.get_by_text("Error displaying widget")).to_have_count(0)
    return notebook, lab.folder / path


# A view that is drawn before the notebook's states are read, with what JupyterLab has said of it by then.
EARLY = """async ([view, late]) => {
  const { content, context } = jupyterapp.shell.currentWidget;
  const renderer = content.rendermime.createRenderer(view);
  const manager = await renderer._manager.promise;
  const read = async () => {
    const { state } = await manager.get_state();
    const [clocks] = Object.values(state).filter((model) => "position" in model.state);
    await manager.set_state({ version_major: 2, version_minor: 0, state: { early: clocks } });
    await manager.restoreWidgets(context.model, { loadKernel: false, loadNotebook: true });
  };
  const { get_model } = manager;
  if (late) {
    manager.get_model = async () => {
      manager.get_model = get_model;
      await read();
      throw new Error("widget model not found");
    };
  }
  await renderer.renderModel({ data: { [view]: { model_id: "early" } } });
  const said = renderer.node.textContent;
  if (!late) await read();
  window.early = renderer;
  return said;
}"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "late", [False, True], ids=["before its state is read", "just when it stops waiting"]
)
def test_a_view_that_is_drawn_too_early_is_drawn_again(lab, page, late):
    opened(lab, page, "stored.ipynb", f"early-{late}")
    said = page.evaluate(EARLY, [WIDGET_VIEW, late])
    assert late or said == "Error displaying widget: model not found"
    page.wait_for_function("() => early.widgets.length === 1")
    assert page.evaluate("early.node.querySelector('.gf-title').textContent") == "A row of clocks"


def states(file):
    """Returns the states that a notebook has stored."""
    return json.loads(file.read_text(encoding="utf-8"))["metadata"]["widgets"][WIDGET_STATE]["state"]


@pytest.fixture(
    params=[False, pytest.param(True, marks=pytest.mark.weekly)],
    ids=lambda saves: f"states-are-saved-{saves}",
)
def saves_states(request, lab, page):
    """Sets JupyterLab's *Save Widget State Automatically*."""
    save = "([id, raw]) => jupyterapp.serviceManager.settings.save(id, raw)"
    page.goto(lab("machine.ipynb", "settings"))
    page.wait_for_function("() => window.jupyterapp?.serviceManager")
    setting = "@jupyter-widgets/jupyterlab-manager:plugin"
    page.evaluate(save, [setting, json.dumps({"saveState": request.param})])
    yield request.param
    page.evaluate(save, [setting, "{}"])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("path", OPENED)
def test_opening_and_saving_a_notebook_leaves_every_byte(lab, page, path):
    lab.trust(path)
    original = (lab.folder / path).read_bytes()
    opened(lab, page, path, "opened-" + re.sub(r"\W", "-", path))
    assert not page.evaluate("jupyterapp.shell.currentWidget.context.model.dirty")
    page.evaluate(SAVE)
    assert (lab.folder / path).read_bytes() == original
    page.evaluate(SHUT_DOWN)


@pytest.mark.parametrize("path", RUN)
def test_the_next_day_every_view_is_there_and_answers(lab, page, saves_states, path):
    lab.trust(path)
    original = (lab.folder / path).read_bytes()
    name = f"{Path(path).stem}-{saves_states}"
    notebook, file = opened(lab, page, path, f"{name}-1")
    page.evaluate(SAVE)
    assert file.read_bytes() == original
    if path == "day.ipynb":
        asks = notebook.cells.nth(4).locator(".gf-widget")
        asks.get_by_label("Your text", exact=True).click()
        asks.get_by_label("Your text", exact=True).fill("O Romeo, Rom")
        expect(asks).to_contain_text("Select it and press Shift+Enter to load the model.")

    notebook.run_all()
    if path == "day.ipynb":
        assert notebook.errors() == []
        expect(asks).not_to_contain_text("has not been run")
        first, again = notebook.cells.nth(1), notebook.cells.nth(2).locator(".gf-widget")
        at = answer(again)
        expect(first.get_by_label("Position p", exact=True)).to_have_value(str(at))
        notebook.run(1)  # its new view is shown below, too
        for clocks in (first, again):
            expect(clocks.get_by_label("Position p", exact=True)).to_have_value(str(at - 1))
        left = answer(again)
    page.evaluate(SAVE)
    assert states(file).keys() >= {
        output["data"][WIDGET_VIEW]["model_id"]
        for cell in json.loads(file.read_text(encoding="utf-8"))["cells"]
        for output in cell.get("outputs", [])
        if WIDGET_VIEW in output.get("data", {})
    }
    assert saves_states or states(file) == json.loads(original)["metadata"]["widgets"][WIDGET_STATE]["state"]
    page.evaluate(SHUT_DOWN)

    saved = file.read_bytes()
    notebook, file = opened(lab, page, path, f"{name}-2")
    if path == "day.ipynb":
        clocks = notebook.cells.nth(1).locator(".gf-widget")
        assert answer(clocks) == (left if saves_states else at - 1) + 1
    page.evaluate(SAVE)
    assert file.read_bytes() == saved
    page.evaluate(SHUT_DOWN)
    file.write_bytes(original)
