"""Tests every widget on every page, without a kernel: it starts, responds to keys, and has the files that it needs.

tests/widgets and tests/chapters compare what each view draws in each state with what Python computes. Here, the same
code comes from a stored notebook and is run on the page by book/site/widget-host.js.
"""

import re

import nbformat
import numpy as np
import pytest
from playwright.sync_api import expect

from glassformer import scratch, shipped, widgets
from glassformer.inside.lens import logit_lens
from glassformer.widgets.kit.view import View
from tools import notebooks
from tools.assets import heights


def stored_views():
    """Returns (page, place on the page, class, stored state) of every widget in a notebook."""
    for _, path in notebooks.pairs():
        if not path.exists():
            continue
        notebook = nbformat.read(path, as_version=4)
        models = notebook.metadata.get("widgets", {}).get(notebooks.WIDGET_STATE, {}).get("state", {})
        page = path.relative_to(notebooks.ROOT).with_suffix(".html").as_posix()
        views = [
            output.data[notebooks.WIDGET_VIEW]["model_id"]
            for cell in notebook.cells
            for output in cell.get("outputs", [])
            if notebooks.WIDGET_VIEW in output.get("data", {})
        ]
        for place, model in enumerate(views):
            state = models[model]["state"]
            yield page, place, state["_anywidget_id"].rpartition(".")[2], state


VIEWS = list(stored_views())
IDS = [f"{page}-{place}-{name}" for page, place, name, _ in VIEWS]


HOST, WAITING, MOUNTED = (
    f".widget-host{state}" for state in ("", "[data-state=waiting]", "[data-state=mounted]")
)


class Shown:
    """A widget on a page: what a reader can do with it, and what it then shows."""

    def __init__(self, visit, place):
        self.visit = visit
        self.root = visit.page.locator(HOST).nth(place)
        self.root.scroll_into_view_if_needed()
        self.root.and_(self.visit.page.locator(MOUNTED)).wait_for()
        self.rest()

    def rest(self):
        self.visit.rest()

    def has_read(self):
        """Waits until the model has arrived and has read the text."""
        self.rest()
        expect(self.root.locator(".gf-says")).not_to_have_text(re.compile("Reading|Waiting for|Loading"))
        self.rest()

    def press(self, name, key):
        """Presses a key while a control has the focus, or types a text without one, until the view has answered."""
        button = self.root.get_by_role("button", name=name, exact=True)
        control = self.root.get_by_label(name, exact=True).or_(button).filter(visible=True).first
        if key:
            control.press(key)
        else:
            control.fill("My horse, the king")
        self.has_read()

    @property
    def says(self):
        self.rest()
        return self.root.locator(".gf-says").inner_text()

    def seen(self):
        """Returns the drawing, its name and the sentence below, all of which should change."""
        drawing = self.root.locator(".gf-drawing")
        return drawing.inner_html(), drawing.get_attribute("aria-label"), self.says

    def table(self, number=0):
        details = self.root.locator("details.gf-details")
        if details.get_attribute("open") is None:
            details.locator("summary").press("Enter")
            self.root.locator(".gf-numbers table").first.wait_for()
        self.rest()
        read = "table => [...table.rows].slice(1).map(row => [...row.cells].map(cell => cell.textContent))"
        return self.root.locator(".gf-numbers table").nth(number).evaluate(read)


def column(table, index):
    return np.array([float(row[index].replace("−", "-").replace(",", "")) for row in table])


def glass_machine(shown, state):
    """After typing, the engine reads the text with weights that came from a script of the page."""
    model, tokenizer = shipped.load()
    text = "O Romeo, Rom"
    shown.root.get_by_label("Your text", exact=True).fill(text)
    shown.has_read()
    expected = scratch.softmax(logit_lens(model, tokenizer.encode(text)).astype(np.float64))[:, -1]
    np.testing.assert_allclose(column(shown.table(), 2), expected.max(axis=-1), atol=1.01e-4)
    shown.press("Position", "ArrowLeft")
    assert "position 10" in shown.says


def training_lab(shown, state):
    """It trains on the page itself, with the text from scripts, and pauses."""
    shown.root.get_by_role("button", name="Start training").press("Enter")
    step = shown.root.locator(".gf-lab-facts dd").first
    expect(step).to_have_text(re.compile(r"^[1-9]\d* of 1,500$"))
    shown.root.get_by_role("button", name="Pause").press("Enter")
    expect(shown.root.locator(".gf-says")).to_have_text(re.compile("^Paused after"))


def quiz(shown, state):
    for place, question in enumerate(state["questions"]):
        card = shown.root.locator("fieldset").nth(place)
        inputs, feedback = card.locator("input"), card.locator(".gf-feedback")
        assert feedback.inner_text().strip() == ""
        for choice, option in enumerate(question["options"]):
            inputs.nth(choice).press("Space")
            if question.get("multiple"):
                card.get_by_role("button").press("Enter")
            shown.rest()
            told = feedback.inner_text()
            plain = re.sub(r"[`*$\\{}]", "", option["why"])
            assert plain.split()[0] in told
            assert ("Right" in told) or ("No." in told)
            if not question.get("multiple"):
                assert ("Right" in told) == bool(option.get("correct"))
    shown.root.get_by_role("button", name="Start again").press("Enter")
    shown.root.get_by_role("button", name="Forget my answers").press("Enter")
    expect(shown.root.locator(".gf-feedback")).to_have_text([""] * len(state["questions"]))


def predict(shown, state):
    """Asks to be shown without an answer: the fold opens, and what came out is in the sentence or in the drawing."""
    fold = shown.visit.page.locator(f"details.fold[data-predict='{state['chapter']}/{state['name']}']")
    expect(fold).not_to_have_attribute("open", "")
    shown.root.get_by_role("button", name="Show", exact=True).press("Enter")
    expect(shown.root.locator(".gf-plea")).to_contain_text("A guess is enough")
    expect(fold).not_to_have_attribute("open", "")
    shown.root.get_by_role("button", name="Just show me").press("Enter")
    expect(shown.root.locator(".gf-says")).to_be_focused()
    expect(fold).to_have_attribute("open", "")
    if state["answer"]:
        expect(shown.root.locator(".gf-panel:not(.gf-away) .gf-came")).to_have_count(1)
    shown.root.get_by_role("button", name="Forget my answer").press("Enter")
    expect(fold).not_to_have_attribute("open", "")


CHECKS = {
    "GlassMachine": glass_machine,
    "Predict": predict,
    "Quiz": quiz,
    "TrainingLab": training_lab,
}
# All others get a key, or a text where there is none: with the models, tables and vocabularies beside the page.
KEYS = {
    "AblationBoard": (re.compile("^block 0: head 1,"), "Space"),
    "ActivationExplorer": ("x", "ArrowRight"),
    "AttentionCalculator": ("query of horse, first number", "ArrowUp"),
    "AttentionExplorer": ("Your text", None),
    "BeamTree": ("Beams", "ArrowRight"),
    "BytePairStepper": ("Merge", "Enter"),
    "CacheCalculator": ("Positions read", "ArrowRight"),
    "CacheMovie": ("Pass", "ArrowRight"),
    "CharacterMap": ("Character", "ArrowDown"),
    "ClockHands": ("Position p", "ArrowRight"),
    "ConfigReader": ("Positions read", "ArrowRight"),
    "DateTranslator": ("A date", None),
    "DepthExplorer": ("Gain of the matrices", "ArrowRight"),
    "DiagnoseIt": ("Next patient", "Enter"),
    "DistanceBias": ("Head", "ArrowRight"),
    "FillIn": ("Your line", None),
    "HeadGradients": ("key of “horse”, number 1", "ArrowUp"),
    "LayerCaches": ("Position", "ArrowLeft"),
    "LiveWriter": ("One more", "Enter"),
    "LogitLens": ("Your text", None),
    "LossWatcher": ("Step", "Home"),
    "NeuronExplorer": ("Neuron (0 to 343)", "ArrowUp"),
    "NormComparer": ("Nearly equal", "Enter"),
    "NormPlacementExplorer": (re.compile("^Blocks"), "Home"),
    "NudgeExplorer": ("Move this one by", "ArrowRight"),
    "ParameterBars": ("sizes", "Space"),
    "ParameterExplorer": ("Blocks", "ArrowUp"),
    "PositionHeatmap": ("Row", "ArrowRight"),
    "RealTokens": ("Your text", None),
    "RotationPlane": ("Query’s position m", "ArrowRight"),
    "RouterView": ("Your text", None),
    "SamplingLab": ("What is written; arrow keys choose a character", "Home"),
    "ScheduleDesigner": ("Warm-up", "ArrowRight"),
    "ShapeTracer": ("Heads H", "ArrowLeft"),
    "ShuffleSentence": ("Reverse", "Enter"),
    "StateWatch": ("Pairs written", "ArrowLeft"),
    "WiringSwitcher": ("Encoder", "Space"),
}


def test_every_widget_of_the_package_is_on_a_page_and_checked_here():
    exported = {name for name in widgets.__all__ if issubclass(getattr(widgets, name), View)}
    assert CHECKS.keys() | KEYS.keys() == exported, "add to KEYS"
    assert {name for _, _, name, _ in VIEWS} == exported, "show it in a notebook"


# Opens the folds around a place, such as the one below a prediction.
UNFOLD = """host => {
  for (let fold = host; fold; fold = fold.parentElement) if (fold.tagName === "DETAILS") fold.open = true;
}"""


# Opened from disk, where less is allowed; over http every view is drawn in test_pages.py.
@pytest.mark.sampled(20)
@pytest.mark.parametrize(("page", "place", "name", "state"), VIEWS, ids=IDS)
def test_it_answers_the_keyboard(stay, page, place, name, state):
    arrived = stay(page, door="file")
    arrived.page.locator(HOST).nth(place).evaluate(UNFOLD)
    shown = Shown(arrived, place)
    expect(shown.root.locator(".gf-widget")).to_have_count(1)
    if name in ("Predict", "Quiz"):
        CHECKS[name](shown, state)
    else:
        before = shown.seen()
        if name in CHECKS:
            CHECKS[name](shown, state)
        else:
            shown.press(*KEYS[name])
        for part, (then, now) in enumerate(zip(before, shown.seen(), strict=True)):
            assert then != now, ("drawing", "aria-label", "sentence")[part]
        assert not re.search("could not be loaded|This page has no|No kernel|problem", shown.says)
    assert shown.visit.elsewhere() == []
    assert shown.visit.complaints == []


# --- when a view is drawn ---

PAGES = sorted({page for page, _, _, _ in VIEWS})
LONGEST = max(PAGES, key=lambda page: sum(1 for other, *_ in VIEWS if other == page))


def states(arrived):
    return arrived.page.locator(HOST).evaluate_all("hosts => hosts.map((host) => host.dataset.state)")


# The views' code is fetched when the page has nothing else to do.
KEEP_WHAT_IS_IDLE = """window.whenIdle = [];
window.requestIdleCallback = (act) => setTimeout(() => window.whenIdle.push(act()));"""


def prepared(visit):
    """The page, when the code of all views is there."""
    arrived = visit(LONGEST, script=KEEP_WHAT_IS_IDLE)
    arrived.page.wait_for_function("n => whenIdle.length >= n", arg=arrived.page.locator(HOST).count())
    arrived.page.evaluate("() => Promise.all(whenIdle)")
    arrived.page.wait_for_function(  # what can be seen is drawn first, and a moment later what may soon be seen
        """waiting => [...document.querySelectorAll(waiting)].every(
          (host) => host.getBoundingClientRect().top > 2 * innerHeight)""",
        arg=WAITING,
    )
    arrived.settle()
    return arrived


def test_a_view_is_drawn_when_it_comes_near_and_not_before(visit):
    arrived = prepared(visit)
    hosts = arrived.page.locator(HOST)
    screens = hosts.evaluate_all(
        "hosts => hosts.map((host) => host.getBoundingClientRect().top / innerHeight)"
    )
    assert states(arrived) == ["mounted" if away <= 2 else "waiting" for away in screens]
    assert "waiting" in states(arrived)
    assert arrived.page.locator(WAITING).evaluate_all("hosts => hosts.every((host) => !host.firstChild)")
    arrived.page.evaluate("y => scrollBy(0, (y - 1.9) * innerHeight)", screens[-1])
    hosts.last.and_(arrived.page.locator(MOUNTED)).wait_for()
    assert not 0 < hosts.last.evaluate("host => host.getBoundingClientRect().top / innerHeight") < 1


def test_a_view_in_a_fold_is_drawn_when_the_fold_is_opened(visit):
    arrived = visit(LONGEST)
    arrived.page.evaluate(
        """() => {
          const fold = document.createElement("details");
          fold.append([...document.querySelectorAll(".widget-host")].at(-1));
          document.querySelector("article h1").after(fold);
        }"""
    )
    arrived.settle()
    host = arrived.page.locator("article h1 + details > .widget-host")
    expect(host).to_have_attribute("data-state", "waiting")
    arrived.page.evaluate("() => (document.querySelector('article h1 + details').open = true)")
    host.and_(arrived.page.locator(MOUNTED)).wait_for()


def test_the_keyboard_arrives_at_a_view_however_far(visit):
    arrived = visit(LONGEST)
    last = arrived.page.locator(HOST).last
    last.focus()
    last.and_(arrived.page.locator(MOUNTED)).wait_for()
    expect(last).to_be_focused()
    arrived.page.keyboard.press("Tab")
    expect(last.locator(".gf-widget :focus")).to_have_count(1)


def test_what_is_printed_is_drawn(visit):
    arrived = prepared(visit)
    assert "waiting" in states(arrived)
    arrived.page.evaluate(
        """() => addEventListener("afterprint", () => {
          window.printed = document.querySelectorAll(".widget-host > .gf-widget").length;
        })"""
    )
    arrived.page.pdf()
    arrived.page.wait_for_function("window.printed !== undefined")
    assert arrived.page.evaluate("printed") == arrived.page.locator(HOST).count()


def test_where_nearness_cannot_be_observed_all_views_are_drawn_at_once(visit):
    arrived = visit(LONGEST, script="delete window.IntersectionObserver")
    arrived.page.wait_for_function(f"document.querySelector('{WAITING}') === null")
    assert set(states(arrived)) == {"mounted"}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("width", [1280, 390])
def test_the_height_reserved_for_a_view_is_the_one_measured_in_such_a_column(visit, width):
    arrived = visit(LONGEST, width=width)
    waiting = arrived.page.locator(WAITING).filter(has_not=arrived.page.locator("*")).all()
    called = [
        " ".join(filter(None, [name, state.get("chapter"), state.get("chapter") and state.get("name")]))
        for page, _, name, state in VIEWS
        if page == LONGEST
    ]
    reserved = [host.bounding_box()["height"] for host in waiting]
    size = arrived.page.evaluate("parseFloat(getComputedStyle(document.documentElement).fontSize)")
    arrived.open_everything()
    taken = arrived.page.locator(HOST).evaluate_all("hosts => hosts.map((host) => host.offsetHeight)")
    last = slice(-len(waiting), None)
    found = dict(zip(called[last], zip(reserved, taken[last], strict=True), strict=True))
    assert len(found) > 2
    known = heights.read()
    column = known.columns[str(size)].index(heights.COLUMNS[width])
    for name, (before, after) in found.items():
        assert before == known.views[name][str(size)][column], name
        assert before == pytest.approx(after, rel=0.08), name  # the page may show other settings
