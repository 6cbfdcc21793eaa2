"""Tests the glass machine: it shows what the NumPy model computes, by keyboard, by pointer and while typing."""

import numpy as np
import pytest
from traitlets import TraitError

from glassformer import shipped
from glassformer.generate import distribution, draw
from glassformer.generate.reader import window_start
from glassformer.inside.lens import logit_lens
from glassformer.scratch import softmax
from glassformer.trace import trace
from glassformer.widgets import GlassMachine
from glassformer.widgets.engine.model import LINE
from glassformer.widgets.engine.mulberry import uniform
from glassformer.widgets.glass_machine import OPENING, STEPS, picture

MODEL, TOKENIZER = shipped.load()
CONTEXT = MODEL.config.context_length
SEEN = {" ": "␣", "\n": "⏎"}


def guesses(text, position):
    """Returns, at each depth, the four likeliest next characters after a position, and their probabilities."""
    ids = TOKENIZER.encode(text)
    for probabilities in softmax(logit_lens(MODEL, ids).astype(np.float64))[:, position]:
        best = np.argsort(-probabilities, kind="stable")[:4]
        yield [(SEEN.get(c, c), p) for c, p in zip(TOKENIZER.decode(best), probabilities[best], strict=True)]


def looks(text, position):
    """Returns, for each block and head, the two characters that it attends to most, their distances and weights."""
    with trace() as seen:
        MODEL(TOKENIZER.encode(text)[None])
    for weights in seen.arrays("weights"):
        for row in weights[0, :, position]:
            for s in np.argsort(-row[: position + 1], kind="stable")[:2]:
                yield SEEN.get(text[s], text[s]), position - s, row[s]


def read(view):
    """Waits until the weights have arrived and the whole text has been read."""
    view.root.locator("[tabindex='0'][data-part]").focus()
    view.rest()


def assert_shows(view, text, position):
    lens, heads = view.tables()
    for row, expected in zip(lens[1:], guesses(text, position), strict=True):
        assert row[1::2] == [character for character, _ in expected]
        np.testing.assert_allclose([float(p) for p in row[2::2]], [p for _, p in expected], atol=1.01e-4)
    found = [cell for row in heads[1:] for cell in (row[1:4], row[4:7]) if cell]
    for (character, back, share), expected in zip(found, looks(text, position), strict=True):
        assert float(share) == pytest.approx(expected[2], abs=6e-4)
        assert (character, int(back)) == expected[:2] or float(share) < 0.5


@pytest.mark.parametrize("kind", ["stream", "neurons"])
@pytest.mark.parametrize("size", [128, 344, 30])
def test_the_picture_of_a_vector(call, kind, size):
    vector = np.random.default_rng(size).normal(size=size)
    np.testing.assert_allclose(
        call("glass_machine", "picture", vector.tolist(), kind), picture(vector, kind), atol=1e-12
    )


def test_a_picture_by_hand():
    """The root mean square is 2, so ±8 has the strongest colour; the runs have length one."""
    np.testing.assert_allclose(picture(np.array([2.0, -2, 2, -2]), "stream"), [0.25, -0.25, 0.25, -0.25])


# --- what it shows ---


def test_it_is_there_before_the_weights_are(mount):
    view = mount(GlassMachine())
    assert view.says == (
        "After “s”, position 14: with all 4 blocks, “e” gets 98 %. At temperature 0.8 that becomes "
        "> 99 %. The next character in the text is “e”."
    )
    letters = view.root.locator("[data-part='text'] .gf-cells").inner_text().replace("\n", "")
    assert letters == OPENING.replace(" ", "␣")
    lens, _ = view.tables()
    for row, expected in zip(lens[1:], guesses(OPENING, 14), strict=True):
        assert row[1::2] == [character for character, _ in expected]
    assert view.page.evaluate("window.asked") is None


def test_with_the_weights_it_shows_the_same_and_more(mount):
    view = mount(GlassMachine())
    before = view.tables()[0]
    read(view)
    assert view.tables()[0] == before
    assert_shows(view, OPENING, 14)
    assert view.page.evaluate("window.asked") == 1
    second = mount(GlassMachine())
    read(second)
    assert view.page.evaluate("window.asked") == 1


@pytest.mark.parametrize("text", ["I", "What light through yonder window breaks?\nIt is the east"])
def test_it_reads_what_is_typed(mount, text):
    view = mount(GlassMachine())
    view.control("Your text").fill(text)
    read(view)
    assert view.saved()["text"] == text
    assert_shows(view, text, len(text) - 1)
    view.press("Position", "Home")
    assert_shows(view, text, 0)


def test_of_a_longer_text_it_shows_what_the_model_still_sees(mount):
    text = (LINE + "\n") * 4
    start = window_start(len(text), CONTEXT)
    view = mount(GlassMachine(text=text))
    view.control("Your text").focus()
    read(view)
    assert (
        f"The model sees at most {CONTEXT} characters at a time, now the last {len(text) - start} of 168."
        in (view.root.inner_text())
    )
    assert view.root.locator(".gf-earlier s").text_content().endswith(text[:start][-38:])
    assert_shows(view, text[start:], len(text) - start - 1)
    view.press("Position", "Home")
    assert f"position {start}:" in view.says
    assert_shows(view, text[start:], 0)


def test_a_key_press_in_a_long_text_reads_one_character(mount):
    """The window moves only once in half a context, so what was read stays useful."""
    text = ("To be, or not to be, " * 15)[:300]
    view = mount(GlassMachine(text=text))
    read(view)
    view.page.evaluate(
        """() => {
          window.slices = 0;
          const { postMessage } = MessagePort.prototype;
          MessagePort.prototype.postMessage = function (...all) {
            window.slices += 1;
            return postMessage.apply(this, all);
          };
        }"""
    )
    field = view.control("Your text")
    field.press("End")
    field.press("t")
    view.settle()
    assert view.get("text") == f"{text}t"
    assert view.page.evaluate("window.slices") <= 2
    start = window_start(len(text) + 1, CONTEXT)
    assert_shows(view, f"{text}t"[start:], len(text) - start)


def test_typing_and_deleting_before_anything_is_read_leaves_the_text(mount):
    view = mount(GlassMachine())
    view.control("Your text").evaluate(
        """(field) => {
          const type = (text) => {
            field.value = text;
            field.dispatchEvent(new Event("input", { bubbles: true }));
          };
          const { value } = field;
          type(`${value}x`);
          type(value);
        }"""
    )
    view.settle()
    assert view.get("text") == OPENING
    letters = view.root.locator("[data-part='text'] .gf-cells").inner_text().replace("\n", "")
    assert letters == OPENING.replace(" ", "␣")
    assert_shows(view, OPENING, len(OPENING) - 1)


@pytest.mark.parametrize(
    ("typed", "text"), [("A 7€ horse", "A  horse"), ("", "\n"), ("7", "\n"), ("To", "To"), ("né 🍕", "n ")]
)
def test_characters_that_it_does_not_know_are_skipped(mount, typed, text):
    view = mount(GlassMachine())
    view.control("Your text").fill(typed)
    read(view)
    assert view.control("Your text").input_value() == typed
    assert view.get("text") == text
    assert_shows(view, text, len(text) - 1)


# --- writing ---


def greedy(text, count):
    """Returns a text continued by its likeliest characters."""
    for _ in range(count):
        text += TOKENIZER.decode([int(MODEL(TOKENIZER.encode(text)[None])[0, -1].argmax())])
    return text


def press(view, name):
    view.root.get_by_role("button", name=name, exact=True).press("Enter")


def test_it_writes_and_takes_back(mount):
    text = "To be, or not to"
    view = mount(GlassMachine(temperature=0, text=text))
    for count in (1, 2, 3):
        press(view, "One character")
        assert view.get("text") == greedy(text, count)
    assert view.saved()["drawn"] == 3
    assert view.control("Your text").input_value() == view.get("text")
    press(view, "Take one back")
    assert view.get("text") == greedy(text, 2)
    assert view.get("position") == len(text) + 1


def test_each_press_writes_a_character_however_fast(mount):
    text = "To be, or not to"
    view = mount(GlassMachine(temperature=0, text=text))
    one = view.root.get_by_role("button", name="One character", exact=True)
    one.evaluate("button => { for (let i = 0; i < 3; i++) button.click(); }")
    view.page.wait_for_function("window.mounted[0].model.get('drawn') === 3")
    assert view.get("text") == greedy(text, 3)


def test_it_goes_on_writing_until_it_has_written_enough(mount):
    view = mount(GlassMachine())
    press(view, "Write")
    view.settle()  # a drawing is busy for as long as it writes
    text = OPENING
    for drawn in range(12):
        p = distribution(MODEL(TOKENIZER.encode(text)[None])[0, -1:].astype(np.float64), temperature=0.8)
        text += TOKENIZER.decode([int(draw(p, uniform(drawn, 1))[0])])
    assert view.get("text").startswith(text)
    assert not text[len(OPENING)].isspace()  # what a stranger sees first is a letter
    assert view.get("drawn") == 80
    assert len(view.get("text")) == len(OPENING) + 80
    assert view.root.get_by_role("button", name="Write", exact=True).is_visible()
    second = mount(GlassMachine())
    press(second, "Write")
    second.settle()
    assert second.get("text") == view.get("text")


def test_it_pauses_when_asked_and_when_the_reader_types(mount):
    view = mount(GlassMachine(temperature=0))
    for stop in (lambda: press(view, "Pause"), lambda: view.control("Your text").fill("To be")):
        press(view, "Write")
        view.page.wait_for_function(
            "before => window.mounted[0].model.get('drawn') > before", arg=view.now("drawn")
        )
        stop()
        view.settle()
        assert view.root.get_by_role("button", name="Write", exact=True).is_visible()
    assert view.get("text") == "To be"
    assert view.get("drawn") < 80


# Every reading pauses, and goes on when this is called: `release()`.
HOLD = """() => {
  const { now } = performance;
  const { postMessage } = MessagePort.prototype;
  const held = [];
  let calls = 0;
  performance.now = () => 1000 * ++calls;
  MessagePort.prototype.postMessage = function (...message) {
    held.push(() => postMessage.apply(this, message));
  };
  window.isHeld = () => held.length > 0;
  window.release = () => {
    performance.now = now;
    MessagePort.prototype.postMessage = postMessage;
    for (const go of held) go();
  };
}"""


@pytest.mark.parametrize("typed", [None, "To be"])
def test_what_was_being_computed_when_it_was_stopped_is_not_written(mount, typed):
    view = mount(GlassMachine(temperature=0))
    read(view)
    view.page.evaluate(HOLD)
    press(view, "Write")
    view.page.wait_for_function("() => window.isHeld()")
    before = typed or view.page.evaluate("() => window.mounted[0].model.get('text')")
    if typed is None:
        press(view, "Pause")
    else:
        view.control("Your text").fill(typed)
    view.page.evaluate("() => window.release()")
    view.rest()
    assert view.get("text") == before


def test_it_writes_after_a_text_with_unknown_characters(mount):
    view = mount(GlassMachine(temperature=0))
    view.control("Your text").fill("I'm 25")
    press(view, "One character")
    view.settle()
    new = greedy("I'm ", 1)
    assert view.get("text") == new
    assert view.control("Your text").input_value() == f"I'm 25{new[-1]}"


@pytest.mark.parametrize("position", [14, len(OPENING) - 1])
def test_the_temperature_moves_the_bars_at_once(mount, position):
    view = mount(GlassMachine(position=position))
    p = softmax(MODEL(TOKENIZER.encode(OPENING)[None])[0].astype(np.float64))
    for key in ("End", "Home"):
        view.press("Temperature", key)
        assert view.get("position") == len(OPENING) - 1  # where the next character is drawn
        temperature = {"End": 2, "Home": 0}[key]
        expected = distribution(np.log(p[-1:]), temperature=temperature)[0]
        widths = view.root.locator(".gf-detail .gf-bar-length").evaluate_all(
            "bars => bars.map((bar) => Number(bar.style.getPropertyValue('--share')))"
        )
        best = np.argsort(-p[-1], kind="stable")[: len(widths)]
        np.testing.assert_allclose(widths, expected[best], atol=2e-3)
    assert view.page.evaluate("window.asked") is None  # even before the weights are here


def test_at_a_temperature_it_draws_another_each_time_and_the_same_again(mount):
    def written(drawn):
        view = mount(GlassMachine(temperature=2, text="A", drawn=drawn))
        press(view, "One character")
        view.page.wait_for_function("i => window.mounted[i].model.get('text').length > 1", arg=view.index)
        text = view.get("text")
        assert len(text) == 2
        return text

    found = [written(drawn) for drawn in (0, 1, 2, 3, 0)]
    assert found[0] == found[-1]
    assert len(set(found)) > 1


# --- looking ---


def test_every_part_is_reached_and_opened_by_arrows(mount):
    view = mount(GlassMachine())
    read(view)
    visited = set()
    view.set(part="text")
    view.root.locator("[tabindex='0'][data-part]").focus()
    for _ in range(15):  # rows: the text, two lanes, and three for each block
        visited.add(view.get("part"))
        while view.get("part").startswith("head"):
            view.page.keyboard.press("ArrowRight")
            visited.add(view.get("part"))
        view.page.keyboard.press("ArrowDown")
        view.settle()
    assert visited == set(
        view.root.locator("[data-part]").evaluate_all("all => all.map((e) => e.dataset.part)")
    )
    assert view.get("part") == "guess 4"
    assert view.saved()["part"] == "guess 4"
    view.page.keyboard.press("ArrowLeft")
    assert view.get("position") == 13
    view.page.keyboard.press("Home")
    assert view.get("position") == 0
    view.page.keyboard.press("End")
    assert view.get("position") == len(OPENING) - 1


OPEN = [
    ("text", "Its id, 57, selects a row", "numbers 128"),
    ("stream 0", "nothing about the others yet", "length "),
    ("stream 2", "after block 1: the stripe above it, plus", "heads added "),
    (
        "guess 1",
        "if the model stopped after block 0, it would write “t”, with 42 %. After all 4 blocks it is “e”, with 98 %.",
        "42 %",
    ),
    ("head 3 2", "At “s”, position 14, this head gives ", "%"),
    (
        "feedforward 1",
        "alone. The strongest of its 344 neurons is number ",
        "neurons 344",
    ),
]


def test_what_is_open_is_told_with_numbers(mount):
    view = mount(GlassMachine())
    read(view)
    for part, says, facts in OPEN:
        view.set(part=part)
        assert says in view.says
        assert facts in " ".join(view.root.locator(".gf-detail").inner_text().split())


def test_the_numbers_of_a_part_are_those_of_numpy(mount):
    view = mount(GlassMachine(part="stream 2"))
    read(view)
    with trace() as seen:
        MODEL(TOKENIZER.encode(OPENING)[None])
    lengths = [
        np.linalg.norm(array[0, 14])
        for part, _, name, array in seen
        if (part, name) == ("decoder: block 1", "stream")
    ]
    wrote = [
        np.linalg.norm(array[0, 14])
        for part, _, name, array in seen
        if (part, name) == ("decoder: block 1", "write")
    ]
    shown = view.root.locator(".gf-facts dd").all_inner_texts()
    assert shown == ["128", *(f"{x:.2f}" for x in (lengths[-1], *wrote))]
    view.set(part="feedforward 1")
    view.rest()
    [neurons] = [
        array[0, 14] for part, _, name, array in seen if (part, name) == ("decoder: block 1", "neurons")
    ]
    strongest = np.argsort(-np.abs(neurons))[:4]
    shown = " ".join(view.root.locator(".gf-facts").inner_text().split())
    for i in strongest:
        assert f"neuron {i} {neurons[i]:.2f}".replace("-", "−") in shown


def test_pointing_opens_a_part_for_as_long_as_it_lasts(mount):
    view = mount(GlassMachine())
    read(view)
    pinned = view.says
    head = view.root.locator("[data-part='head 1 2']")
    box = head.bounding_box()
    head.hover(position={"x": 5, "y": box["height"] * 20.5 / 35})
    assert view.says.startswith(
        "At a space, position 20, this head gives 56 % of its attention to “!”, 4 back"
    )
    shares = view.root.locator("[data-part='text'] .gf-cells span").evaluate_all(
        "cells => cells.map((cell) => Number(cell.style.getPropertyValue('--share')))"
    )
    with trace() as seen:
        MODEL(TOKENIZER.encode(OPENING)[None])
    np.testing.assert_allclose(np.square(shares), seen.arrays("weights")[1][0, 2, 20], atol=2e-3)
    assert view.root.locator(".gf-lit").evaluate_all("all => all.map((e) => e.dataset.part)") == ["stream 1"]
    view.page.mouse.move(2, 2)
    assert view.says == pinned
    head.click(position={"x": 5, "y": box["height"] * 20.5 / 35})
    view.page.mouse.move(2, 2)
    assert (view.get("part"), view.get("position")) == ("head 1 2", 20)


@pytest.mark.parametrize("text", [LINE, (LINE + "\n") * 4], ids=["short", "beyond the context"])
def test_pointing_paints_nothing_anew(mount, text):
    view = mount(GlassMachine(text=text))
    read(view)
    view.page.evaluate(
        """() => {
          const { putImageData } = CanvasRenderingContext2D.prototype;
          window.paints = 0;
          CanvasRenderingContext2D.prototype.putImageData = function (...image) {
            window.paints += 1;
            return putImageData.apply(this, image);
          };
        }"""
    )
    for part in ("head 1 2", "head 2 0", "guess 3"):
        view.root.locator(f"[data-part='{part}']").hover()
        view.rest()
    assert view.page.evaluate("window.paints") == 0
    assert view.root.locator("[aria-busy]").count() == 0


# --- the tour ---


def tour(view):
    """Takes the whole tour, and yields the number of each step with what is said there."""
    view.root.get_by_role("button", name="Take the tour: six steps").press("Enter")
    for step in range(1, STEPS + 1):
        view.rest()
        yield step, view.says
        view.page.keyboard.press("Enter")  # the focus stays on *Next*
    view.rest()


def test_the_tour_says_what_is_true_of_the_model(mount):
    view = mount(GlassMachine())
    with trace() as seen:
        MODEL(TOKENIZER.encode(OPENING)[None])
    weights = np.stack([array[0] for array in seen.arrays("weights")])  # (L, H, T, T)
    past = np.arange(1, len(OPENING))
    one_back = weights[:, :, past, past - 1].mean(axis=-1)
    found = [next(iter(guess))[0] for guess in guesses(OPENING, 14)]
    says = dict(tour(view))
    assert view.page.evaluate("window.asked") == 1
    assert (
        says[1]
        == "This stripe is one character’s vector: 128 numbers, made from those the model has learned for “s”."
    )
    assert "never replaces it" in says[2]
    block, head = np.unravel_index(one_back.argmax(), one_back.shape)
    share = weights[block, head, 14, 13]
    assert share > 0.9
    assert f"at “s” it gives {100 * share:.0f} % of its attention to “r”, one back" in says[3]
    assert "its 344 neurons read the stripe of “s”" in says[4]
    assert len(set(found[1:])) > 1
    assert ", ".join(f"“{c}”" for c in found[1:-1]) + f" and “{found[-1]}”." in says[5]
    assert says[6].startswith(f"After the last block the guess is “{found[-1]}”;")


def test_the_tour_does_not_start_by_itself_and_leaves_no_trace(mount):
    view = mount(GlassMachine(part="head 1 2", position=9))
    view.rest()
    start = view.root.get_by_role("button", name="Take the tour: six steps")
    assert not view.root.locator(".gf-tour").is_visible()
    opened = []
    for step, says in tour(view):
        opened.append(view.get("part"))
        assert view.get("step") == step
        assert f"step {step} of 6" in view.root.locator(".gf-tour-count").inner_text()
        assert view.root.locator(".gf-says").get_attribute("aria-live") == "polite"
        assert says.count(".") == 1  # one sentence
        assert view.page.evaluate("document.activeElement.textContent") == ("Finish" if step == 6 else "Next")
        assert view.root.locator(".gf-open").get_attribute("data-part") == opened[-1]
    assert opened[0] == "stream 0"
    assert opened[-1] == "guess 4"
    assert len(set(opened)) == 6
    assert (view.get("part"), view.get("position"), view.get("step")) == ("head 1 2", 9, 0)
    assert start.evaluate("button => button === document.activeElement")


def test_the_tour_by_arrow_keys(mount):
    view = mount(GlassMachine())
    view.root.get_by_role("button", name="Take the tour: six steps").press("Enter")
    keys = ["ArrowRight", "ArrowRight", "ArrowLeft", "ArrowLeft", "ArrowLeft", *["ArrowRight"] * 7, "Escape"]
    steps = []
    for key in keys:
        view.page.keyboard.press(key)
        steps.append(view.get("step"))
    assert steps == [2, 3, 2, 1, 1, 2, 3, 4, 5, 6, 6, 6, 0]


@pytest.mark.parametrize("text", ["O", "ab", "I'm 25", "", "\n\n"])
def test_the_tour_is_true_of_any_text(mount, text):
    view = mount(GlassMachine())
    view.control("Your text").fill(text)
    for _, says in tour(view):
        assert says.count(".") >= 1
        assert not any(wrong in says for wrong in ("undefined", "NaN", "null"))


def test_typing_ends_the_tour(mount):
    view = mount(GlassMachine())
    view.root.get_by_role("button", name="Take the tour: six steps").press("Enter")
    view.control("Your text").fill("O Romeo")
    assert view.get("step") == 0
    assert not view.root.locator(".gf-tour").is_visible()


def test_a_page_may_open_a_step_or_offer_no_tour(mount):
    view = mount(GlassMachine(step=3))
    assert view.get("part") == "head 2 2"
    assert view.says.startswith("This is a head")
    other = mount(GlassMachine(tour=False, part="head 1 0"))
    assert other.root.get_by_role("button", name="Take the tour").count() == 0
    assert other.says.startswith("At “s”, position 14, this head")


# --- for everybody ---

IN_VIEW = """([part, panel]) => {
  const inside = ({ left, top, right, bottom }) =>
    left >= 0 && top >= 0 && right <= document.documentElement.clientWidth && bottom <= innerHeight;
  const box = part.getBoundingClientRect();
  const at = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
  return [inside(box), inside(panel.getBoundingClientRect()), part.contains(at)];
}"""


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)])
def test_what_is_pointed_at_and_its_panel_are_both_in_view(mount, width, height):
    view = mount(GlassMachine(), width=width)
    view.page.set_viewport_size({"width": width, "height": height})
    column = 710 if width == 1280 else 358  # of a page of the book
    view.page.evaluate(
        f"document.body.style.cssText = 'width: {column}px; padding: 300px 16px 900px; margin: auto'"
    )
    view.page.add_style_tag(content=".cell main.cell_output { overflow-x: auto }")  # as on a page
    view.page.evaluate(
        "document.body.className = 'cell', document.querySelector('main').className = 'cell_output'"
    )
    view.rest()
    for part in view.root.locator("[data-part]").all():
        part.evaluate("part => part.scrollIntoView({ block: 'nearest' })")
        part.hover() if width == 1280 else part.tap()
        view.settle()
        panel = view.root.locator(".gf-machine-panel").element_handle()
        found = view.page.evaluate(IN_VIEW, [part.element_handle(), panel])
        assert found == [True, True, True], part.get_attribute("data-part")
    for _ in tour(view):
        panel = view.root.locator(".gf-machine-panel").element_handle()
        part = view.root.locator(".gf-open").element_handle()
        assert view.page.evaluate(IN_VIEW, [part, panel]) == [True, True, True], view.get("part")


def test_forced_colours_keep_the_bars_and_the_open_part(mount, page):
    view = mount(GlassMachine())
    page.emulate_media(forced_colors="active")
    try:
        look = view.root.evaluate(
            """(root) => {
              const of = (name) => {
                const { outlineStyle, backgroundColor, color } = getComputedStyle(root.querySelector(name));
                return { outlineStyle, backgroundColor, color };
              };
              return [".gf-open .gf-ring", ".gf-bar-length", ".gf-detail"].map(of);
            }"""
        )
    finally:
        page.emulate_media(forced_colors="none")
    ring, bar, panel = look
    assert ring["outlineStyle"] == "solid"
    assert bar["backgroundColor"] == panel["color"]


def test_nothing_in_the_panel_is_wider_than_it(mount):
    view = mount(GlassMachine(), width=742)
    read(view)
    for part in ("text", "stream 2", "feedforward 1", "head 0 0", "guess 2", "guess 4"):
        view.set(part=part)
        panel = view.root.locator(".gf-machine-panel")
        assert panel.evaluate("panel => panel.scrollWidth <= panel.clientWidth"), part


def test_it_is_accessible_and_fits_a_phone(mount, shoot):
    view = mount(GlassMachine())
    view.rest()
    assert view.axe_violations() == []
    shoot("glass")
    for width in (390, 360):
        view.page.set_viewport_size({"width": width, "height": 900})
        view.rest()
        assert view.overflow() <= 0
        shoot(f"glass-{width}")
    view.root.get_by_role("button", name="Take the tour: six steps").press("Enter")
    view.rest()
    assert view.axe_violations() == []


@pytest.mark.parametrize(
    ("traits", "message"),
    [
        ({"part": "guess 5"}, "part='guess 5' is not text, stream or guess 0 to 4"),
        ({"part": "head 0 4"}, "for a head which of 4"),
        ({"part": "tail"}, "part='tail'"),
        ({"position": -1}, "position"),
        ({"temperature": 2.5}, "temperature"),
        ({"text": ""}, "text='' has no characters"),
        ({"step": 7}, "step"),
        ({"tour": "often"}, "tour"),
        ({"text": "a 7"}, r"text\[2\]='7' is not one of the 65 characters"),
        ({"model": "masked"}, "model='masked' belongs to the family encoder; it must be decoder"),
        (
            {"model": "runs/none"},
            "runs/none is neither a folder nor one of shakespeare, words, masked, dates",
        ),
    ],
)
def test_wrong_settings_are_refused(traits, message):
    with pytest.raises(TraitError, match=message):
        GlassMachine(**traits)
