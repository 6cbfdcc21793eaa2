"""Tests the shared parts of the views: how numbers are written, and controls that work."""

import pytest
from traitlets import Bool, Int, TraitError, Unicode, default

from glassformer.widgets.kit.modules import Module
from glassformer.widgets.kit.view import Number, View


@pytest.mark.parametrize(
    ("x", "digits", "text"),
    [(1.25, 1, "1.3"), (-0.5, 2, "−0.50"), (-0.004, 2, "0.00"), (0, 0, "0"), (-12, 0, "−12")],
)
def test_fixed(call, x, digits, text):
    assert call("kit", "fixed", x, digits) == text


@pytest.mark.parametrize(
    ("x", "text"), [(10, "10"), (10_000, "10,000"), (1e6, "1,000,000"), (6.28318, "6.28")]
)
def test_grouped(call, x, text):
    assert call("kit", "grouped", x) == text


@pytest.mark.parametrize(("n", "text"), [(0, "0 steps"), (1, "1 step"), (2000, "2,000 steps")])
def test_plural(call, n, text):
    assert call("kit", "plural", n, "step") == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0 %"), (0.0099, "< 1 %"), (0.01, "1 %"), (0.456, "46 %"), (0.991, "> 99 %"), (1, "100 %")],
)
def test_percent(call, share, text):
    assert call("kit", "percent", share) == text


# --- a view with one control of every kind ------------------------------------------------------------------


PANEL = """
import { button, choice, frame, onChange, slider, textField, toggle } from "./kit.js";

function render({ model, el }) {
  const view = frame(el, { title: "A <b>panel</b>", hint: "Turn it." });
  view.controls.append(
    slider(model, "count", { label: "Count", min: 0, max: () => model.get("most"), follows: ["most"] }),
    slider(model, "base", { label: "Base", min: 10, max: 1e6, scale: "log", format: (x) => `${x} units` }),
    slider(model, "width", { label: "Width", values: () => [1, 8, 64].concat(model.get("most")), follows: ["most"] }),
    choice(model, "order", { label: "Order", options: [["half", "Halves"], ["interleaved", "Pairs"]] }),
    choice(model, "size", { label: "Size", options: [1, 2, 3, 4, 5].map((n) => [n, `size ${n}`]) }),
    toggle(model, "causal", { label: "Causal" }),
    textField(model, "words", { label: "Words", maxLength: 5 }),
    button("Reset", () => { model.set("count", 0); model.save_changes(); }),
  );
  let drawn = 0;
  return onChange(model, ["count", "words"], () => {
    view.drawing.dataset.drawn = ++drawn;
    view.says(`${model.get("count")} ${model.get("words")}`);
    view.describe(() => `count ${model.get("count")}`);
    const rows = () => [["count", model.get("count")]];
    view.tables(() => [{ caption: "Numbers", headers: ["", "Value"], rows }]);
  });
}

export default { render };
"""


class Panel(View):
    count = Int(3).tag(sync=True)
    most = Int(10).tag(sync=True)
    base = Number(10_000.0, min=10, max=1e6).tag(sync=True)
    width = Int(8).tag(sync=True)
    order = Unicode("half").tag(sync=True)
    size = Int(2).tag(sync=True)
    causal = Bool(False).tag(sync=True)
    words = Unicode("a b").tag(sync=True)

    @default("_modules")
    def _default_modules(self):
        return [*Module.of("kit"), Module(name="panel", source=PANEL)]


def test_a_slider_by_keyboard(mount):
    view = mount(Panel())
    view.press("Count", "ArrowRight", "ArrowRight", "ArrowLeft")
    assert (view.get("count"), view.says, view.label) == (4, "4 a b", "count 4")
    assert view.control("Count").get_attribute("aria-valuetext") == "4"
    assert view.table() == [["", "Value"], ["count", "4"]]
    assert view.saved() == {"count": 4}
    view.press("Count", "End")
    assert view.get("count") == 10
    assert view.table() == [["", "Value"], ["count", "10"]]


def test_a_sliders_limit_follows_the_trait_that_sets_it(mount):
    view = mount(Panel())
    view.set(most=20)
    view.press("Count", "End")
    assert view.get("count") == 20


def test_a_log_slider_lands_on_round_numbers(mount):
    view = mount(Panel())
    base = view.control("Base")
    assert base.get_attribute("aria-valuetext") == "10000 units"
    seen = []
    for key in ["Home", *["ArrowRight"] * 20, "End"]:
        view.press("Base", key)
        seen.append(view.get("base"))
    assert seen[:4] == [10, 11.2, 12.6, 14.1]
    assert seen[20:] == [100, 1e6]
    assert base.get_attribute("aria-valuetext") == "1000000 units"


def test_a_slider_over_given_values_goes_from_one_to_the_next(mount):
    view = mount(Panel(most=100))
    width = view.control("Width")
    assert width.get_attribute("aria-valuetext") == "8"
    seen = []
    for key in ["ArrowRight", "ArrowRight", "ArrowRight", "Home"]:
        view.press("Width", key)
        seen.append(view.get("width"))
    assert seen == [64, 100, 100, 1]
    view.set(most=200)
    view.press("Width", "End")
    assert (view.get("width"), width.get_attribute("aria-valuetext")) == (200, "200")


FORGED = """(input, value) => {
  input.type = "text"; // as a reader may do in the browser's inspector
  input.value = value;
  input.dispatchEvent(new Event("input"));
}"""


def test_whatever_is_in_a_slider_the_trait_stays_in_its_range(mount):
    view = mount(Panel())
    for value in ("", "x", "NaN", "-1e9", "1e9", "0.4"):
        for name in ("Count", "Base", "Width"):
            view.control(name).evaluate(FORGED, value)
        assert 0 <= view.get("count") <= view.get("most")
        assert 10 <= view.get("base") <= 1e6
        assert view.get("width") in [1, 8, 64, view.get("most")]


def test_halves_of_characters_do_not_reach_a_trait(mount):
    view = mount(Panel())
    words = view.control("Words")
    words.evaluate("(input) => { input.value = '\\ud83da'; input.dispatchEvent(new Event('input')) }")
    assert view.get("words") == "\ufffda"


def test_radio_buttons_and_a_list_by_keyboard(mount):
    view = mount(Panel())
    assert view.control("Halves").is_checked()
    view.press("Halves", "ArrowDown")
    assert view.get("order") == "interleaved"
    assert view.control("Pairs").is_checked()
    view.press("Size", "ArrowDown", "ArrowDown")
    assert view.get("size") == 4
    assert view.saved() == {"order": "interleaved", "size": 4}


def test_a_switch_a_text_and_a_button_by_keyboard(mount):
    view = mount(Panel())
    view.press("Causal", "Space")
    view.press("Words", "End", "c", "d", "e")
    assert (view.get("causal"), view.get("words")) == (True, "a bcd")  # five characters at most
    view.root.get_by_role("button", name="Reset").press("Enter")
    assert view.says == "0 a bcd"


def test_what_python_sets_is_shown(mount):
    view = mount(Panel())
    view.set(count=7, base=1000.0, order="interleaved", size=5, causal=True, words="x")
    assert view.says == "7 x"
    assert view.control("Count").input_value() == "7"
    assert view.control("Base").get_attribute("aria-valuetext") == "1000 units"
    assert view.control("Pairs").is_checked()
    assert view.control("Size").input_value() == "4"
    assert view.control("Causal").is_checked()
    assert view.control("Words").input_value() == "x"
    assert view.saved() == {}


def test_a_burst_of_changes_is_drawn_once_and_no_more_after_the_end(mount):
    view = mount(Panel())
    drawing = view.root.locator(".gf-drawing")
    before = int(drawing.get_attribute("data-drawn"))
    burst = "() => { for (let i = 0; i < 9; i++) window.mounted[0].model.set('count', i); }"
    view.page.evaluate(burst)
    view.settle()
    assert int(drawing.get_attribute("data-drawn")) == before + 1
    view.page.evaluate("() => window.mounted[0].cleanup()")
    view.page.evaluate(burst)
    view.settle()
    assert int(drawing.get_attribute("data-drawn")) == before + 1


def test_what_is_read_aloud_waits_until_the_hand_rests(mount):
    """The line follows the pointer; its announcement, the drawing's label and the numbers are updated once, at rest."""
    view = mount(Panel())
    view.table()
    told = view.page.evaluate(
        """async () => {
          const says = document.querySelector(".gf-says");
          const drawing = document.querySelector(".gf-drawing");
          const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
          const cell = () => document.querySelector(".gf-numbers tbody td").textContent;
          const told = [];
          new MutationObserver(() => told.push("label")).observe(drawing, { attributeFilter: ["aria-label"] });
          const seen = [];
          for (const count of [5, 6, 7]) {
            window.mounted[0].model.set("count", count);
            await frame();
            seen.push([says.textContent, says.ariaBusy, drawing.ariaLabel, cell()]);
          }
          while (says.ariaBusy) await frame();
          return { seen, told, end: [says.textContent, says.ariaBusy, drawing.ariaLabel, cell()] };
        }"""
    )
    assert told == {
        "seen": [[f"{count} a b", "true", "count 3", "3"] for count in (5, 6, 7)],
        "told": ["label"],
        "end": ["7 a b", None, "count 7", "7"],
    }


def test_plain_keys_stay_in_the_view(mount):
    """JupyterLab's shortcuts listen on the document, and would otherwise take arrows and letters from the controls."""
    view = mount(Panel())
    listen = "() => { window.heard = []; document.addEventListener('keydown', (e) => heard.push(e.key)); }"
    view.page.evaluate(listen)
    view.press("Count", "ArrowRight", "d", "d", "Shift+Enter")
    view.press("Causal", "Space")
    assert view.page.evaluate("heard") == []
    view.press("Count", "Control+s")
    assert view.page.evaluate("heard") == ["Control", "s"]


def test_titles_are_text_and_never_markup(mount):
    assert mount(Panel()).root.get_by_role("group", name="A <b>panel</b>").count() == 1


@pytest.mark.parametrize("width", [900, 360])
def test_controls_are_accessible_and_large_enough(mount, width):
    view = mount(Panel(), width=width)
    view.table()
    assert view.axe_violations() == []
    assert view.overflow() == 0
    for target in view.root.locator("input, select, button, summary").all():
        parent = target.locator("xpath=ancestor::*[contains(@class, 'gf-toggle') or self::label]")
        box = (parent if parent.count() else target).bounding_box()
        assert min(box["width"], box["height"]) >= 24


def test_the_focus_can_be_seen(mount):
    view = mount(Panel())
    for name in ["Count", "Size", "Causal", "Words"]:
        view.control(name).focus()
        view.page.keyboard.press("Shift")  # a key was used last: the ring shows
        view.settle()
        assert view.control(name).evaluate("e => getComputedStyle(e).outlineStyle") == "solid"


def test_two_views_on_a_page_do_not_disturb_each_other(mount):
    one, two = mount(Panel()), mount(Panel())
    two.press("Halves", "ArrowDown")
    assert one.control("Halves").is_checked()
    assert two.control("Pairs").is_checked()
    ids = one.page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids)) == 2 * 5  # the title, three sliders, a list
    assert one.table() == two.table() != []  # whose boxes have the same name
    assert one.axe_violations() == []


@pytest.mark.parametrize("value", [9.0, 1e7, float("nan"), float("inf"), "far"])
def test_numbers_outside_their_range_raise(value):
    with pytest.raises(TraitError, match="base"):
        Panel(base=value)
