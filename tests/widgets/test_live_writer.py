"""Tests the view that writes by itself: the recording, the bars, the temperature, the text, and when it stops."""

import base64
import re

import numpy as np
import pytest
from close import assert_close
from mounting import HOLD_BEATS, WITHHOLD
from playwright.sync_api import expect

from glassformer import shipped
from glassformer.generate import distribution
from glassformer.scratch import softmax
from glassformer.text import corpus
from glassformer.widgets import LiveWriter
from glassformer.widgets.engine.writer import packed_logits
from glassformer.widgets.live_writer import FEWEST, LONGEST, MOST, PROMPT, is_enough

MODEL, TOKENIZER = shipped.load()
RECORDING = LiveWriter()._stored["written"]
SLOW = 2500  # milliseconds per character: all timers are long enough to be held back
ROWS = """rows => rows.map(row => [...row.children].map(part => part.textContent)
  .concat(row.children[1].style.getPropertyValue("--share"), row.classList.contains("gf-live-drawn")))"""


def predicted(text, temperature=1.0):
    """Returns the probability of each character after a text."""
    logits = MODEL(TOKENIZER.encode(text)[None])[0, -1].astype(np.float64)
    p = distribution(logits[None], temperature=temperature)[0]
    return dict(zip(TOKENIZER.characters, p, strict=True))


NAMES = {" ": "space", "\n": "line break"}


class Writer:
    """The mounted view, whose letters come when the test wants them."""

    def __init__(self, view):
        self.view = view
        self.page = view.page
        self.main = view.root.locator(".gf-live-main")
        self.source = view.root.locator(".gf-live-source")

    def button(self, name):
        return self.view.root.get_by_role("button", name=name, exact=True)

    @property
    def written(self):
        return self.view.now("written")

    def rows(self):
        """Returns (name, share, is drawn) of each bar; the number beside it must agree with its length."""
        found = []
        for name, _, number, share, drawn in self.view.root.locator(".gf-live-chances .gf-bar").evaluate_all(
            ROWS
        ):
            if not number.startswith(("<", ">")):
                assert abs(100 * float(share) - float(number.removesuffix(" %"))) <= 0.51
            found.append((name, float(share), drawn))
        return found

    def beats(self, count):
        for _ in range(count):
            self.view.beat()

    def to_the_end(self):
        for _ in range(2 * MOST):
            if not self.view.beat() or self.main.inner_text() != "Pause":
                break
        expect(self.main).to_have_text("Write")


@pytest.fixture
def start(mount, page):
    """Provides start(**traits) -> Writer, which plays only when its `beats` are called."""

    def start(*, withheld=False, calm=False, **traits):
        page.emulate_media(reduced_motion="reduce" if calm else "no-preference")
        page.evaluate(HOLD_BEATS)
        if withheld:
            page.evaluate(WITHHOLD, "")
        view = mount(LiveWriter(pace=SLOW, **traits))
        writer = Writer(view)
        if not calm:
            expect(writer.main).to_have_text("Pause")  # it has seen that it is in view
        if not withheld:
            if not calm:
                expect(writer.source).to_have_text("live, in your browser")
            view.settle()
        return writer

    yield start
    page.emulate_media(reduced_motion="no-preference")


# --- the recording ---


def test_the_prompt_is_from_a_play_that_the_model_has_not_read():
    assert "hamlet" not in corpus().lower()
    assert PROMPT not in corpus()


def test_the_recording_is_what_the_model_writes():
    stored = LiveWriter()._stored
    assert FEWEST <= len(stored["written"]) <= MOST
    assert is_enough(stored["written"])
    assert "\n" not in stored["written"][:8], "the first letters should be visible"
    logits = np.frombuffer(base64.b64decode(stored["logits"]["numbers"]), dtype="<i2") / 1000
    logits = logits.reshape(-1, stored["logits"]["columns"])
    ids = TOKENIZER.encode(stored["text"] + stored["written"])
    expected = MODEL(ids[None])[0, len(stored["text"]) - 1 :]
    np.testing.assert_allclose(logits, expected, atol=6e-4)


def test_the_engine_writes_what_was_recorded(start):
    live = start(withheld=True)
    live.page.evaluate("window.release()")
    expect(live.source).to_have_text("live, in your browser")
    # Another text and back: now nothing is left of the recording, and the engine predicts everything.
    live.main.press("Enter")
    live.view.set(text="Hello")
    live.view.set(text=PROMPT, written="")
    live.button("Write").press("Enter")
    live.to_the_end()
    assert live.written == RECORDING


def test_without_weights_it_plays_the_recording_and_says_so(start):
    live = start(withheld=True)
    expect(live.source).to_have_text("a recording")
    assert "You see a recording of this model until it has loaded." in live.view.root.inner_text()
    live.beats(5)
    assert live.written == RECORDING[:5]
    name, share, _drawn = next(row for row in live.rows() if row[2])
    character = RECORDING[4]
    assert name == NAMES.get(character, character)
    assert share == pytest.approx(predicted(PROMPT + RECORDING[:4], 0.8)[character], abs=1e-3)
    live.page.evaluate("window.release()")
    expect(live.source).to_have_text("live, in your browser")
    live.to_the_end()
    assert live.written == RECORDING


def test_the_recording_ends_with_a_true_sentence_and_a_button(start):
    live = start(calm=True)
    live.view.refuse()
    live.main.press("Enter")
    live.beats(len(RECORDING) + 1)
    assert live.written == RECORDING
    expect(live.main).to_have_text("Write")
    expect(live.source).to_have_text("a recording")
    live.main.press("Enter")
    live.beats(2)  # the recording has the chances of one more letter
    expect(live.view.root.locator(".gf-says")).to_have_text(
        "The recording ends here. The model could not be loaded. Not today."
    )
    again = live.button("Load the model again")
    expect(again).to_be_visible()
    live.page.evaluate("window.mend()")
    again.press("Enter")
    expect(live.source).to_have_text("live, in your browser")
    live.button("One more").press("Enter")
    live.view.settle()
    assert len(live.written) == len(RECORDING) + 2


def test_where_the_recording_cannot_follow_it_waits_for_the_model(start):
    live = start(withheld=True)
    live.beats(4)
    live.view.control("Temperature").press("End")
    live.page.evaluate("for (let i = 0; i < 40; i++) window.beat()")
    expect(live.view.root.locator(".gf-says")).to_have_text(
        re.compile("^The recording ends here. (Wait|Load)ing .*the model")
    )
    live.page.evaluate("window.release()")
    live.view.settle()
    live.beats(5)
    assert live.written.startswith(RECORDING[:4])
    assert not RECORDING.startswith(live.written)


# --- the bars ---


def test_the_bars_are_the_probabilities_of_the_next_letter(start):
    live = start(calm=True, temperature=1.3)
    expected = predicted(PROMPT, 1.3)
    best = sorted(expected, key=lambda c: -expected[c])[:8]
    rows = live.rows()
    assert [name for name, _, _ in rows] == [*(NAMES.get(c, c) for c in best), "all others"]
    shares = [share for _, share, _ in rows]
    assert_close(np.array(shares[:8]), np.array([expected[c] for c in best]), 1e-3)
    assert sum(shares) == pytest.approx(1, abs=1e-3)
    assert not any(drawn for _, _, drawn in rows)


def test_the_temperature_moves_the_bars_before_anything_is_drawn(start):
    live = start(withheld=True, calm=True)
    before = live.rows()
    control = live.view.control("Temperature")
    control.focus()
    control.press("End")
    live.view.settle()
    hot = live.rows()
    control.press("Home")
    live.view.settle()
    cold = live.rows()
    assert [name for name, _, _ in hot] == [name for name, _, _ in cold] == [name for name, _, _ in before]
    assert hot[0][1] < before[0][1] - 0.05
    assert [share for _, share, _ in cold] == [1] + [0] * 8
    assert live.written == ""
    assert live.page.evaluate("window.asked") is None  # moving it needs no weights


@pytest.mark.weekly
def test_a_drawn_letter_without_a_bar_is_named_among_the_others(start):
    live = start(temperature=2.0, calm=True)
    for _ in range(60):
        live.button("One more").press("Enter")
        live.view.settle()
    text = live.written
    assert len(text) == 60
    far = [
        i
        for i, c in enumerate(text)
        if c not in sorted(p := predicted(PROMPT + text[:i]), key=lambda c: -p[c])[:8]
    ]
    assert far, "at temperature 2, some of 60 letters are not among the eight likeliest"
    live.view.set(written=text[: far[0]])
    live.button("Write").press("Enter")
    live.beats(1)
    assert live.written == text[: far[0] + 1]
    *_, (name, _, drawn) = live.rows()
    assert drawn
    assert name == f"{NAMES.get(text[far[0]], text[far[0]])} and others"


LABELS = """(root, labels) => {
  const label = root.querySelector(".gf-live-chances .gf-bar:last-child b");
  const row = label.parentElement;
  const clipped = (text) => {
    label.textContent = text;
    return label.scrollWidth > label.clientWidth || label.scrollHeight > row.clientHeight;
  };
  row.classList.add("gf-live-drawn");
  return labels.filter(clipped);
}"""


def test_every_name_fits_before_its_bar(start):
    live = start(calm=True)
    names = ["space", "line break", "tab", "non-breaking space", "W", "漢"]  # as in model.js
    for width in (1100, 560, 360):
        live.page.set_viewport_size({"width": width, "height": 900})
        assert live.view.root.evaluate(LABELS, [f"{name} and others" for name in names]) == [], width


def test_the_table_has_every_character(start):
    live = start(calm=True, temperature=0.5)
    _header, *rows = live.view.table()
    assert len(rows) == len(TOKENIZER.characters)
    model, tempered = predicted(PROMPT), predicted(PROMPT, 0.5)
    for name, p, after in rows:
        character = {word: c for c, word in NAMES.items()}.get(name, name)
        assert float(p) == pytest.approx(model[character], abs=1e-3)
        assert float(after) == pytest.approx(tempered[character], abs=1e-3)


# --- starting and stopping ---


@pytest.mark.weekly
def test_it_starts_by_itself_and_stops_and_may_go_on_or_start_over(start):
    live = start()
    live.to_the_end()
    assert live.written == RECORDING
    assert live.view.says.startswith("The model pauses here. Write makes it go on")
    expect(live.view.root.locator(".gf-live-heard")).to_have_text(re.compile("^The model has written: "))
    live.view.press("Temperature", "End")  # of a finished text: it goes on
    assert live.written == RECORDING  # first, only the bars move
    live.view.beat()
    expect(live.main).to_have_text("Pause")
    live.to_the_end()
    assert live.written.startswith(RECORDING)
    assert len(live.written) >= len(RECORDING) + FEWEST
    live.view.press("Temperature", "Home", *["ArrowRight"] * 8)
    assert live.view.now("temperature") == LiveWriter().temperature
    live.button("Start over").press("Enter")
    live.to_the_end()
    assert live.written
    assert live.written != RECORDING  # another text
    assert live.view.saved()["seed"] == 1


def test_it_starts_only_once_it_is_in_view(mount, page):
    page.evaluate(HOLD_BEATS)
    page.evaluate("document.querySelector('main').style.paddingTop = '3000px'")
    view = mount(LiveWriter(pace=SLOW))
    view.settle()
    expect(view.root.locator(".gf-live-main")).to_have_text("Start")
    assert page.evaluate("window.asked") is None
    view.root.scroll_into_view_if_needed()
    expect(view.root.locator(".gf-live-main")).to_have_text("Pause")


def test_under_reduced_motion_it_waits_for_the_reader(start):
    live = start(calm=True)
    expect(live.main).to_have_text("Start")
    assert not live.view.beat()
    assert live.written == ""
    assert live.page.evaluate("window.asked") is None
    live.button("One more").press("Enter")
    live.view.settle()
    assert live.written == RECORDING[:1]
    expect(live.main).to_have_text("Write")
    live.main.press("Enter")
    expect(live.main).to_have_text("Pause")
    live.beats(2)
    assert live.written == RECORDING[:3]
    live.main.press("Enter")
    live.view.control("Your text").fill("My kingdom for a ")
    live.view.settle()
    assert not live.view.beat()
    assert live.written == ""
    assert live.view.says.endswith("Press Write to see how the model goes on.")


def test_after_a_pause_nothing_starts_by_itself(start):
    live = start()
    live.beats(3)
    live.main.press("Enter")
    expect(live.main).to_have_text("Write")
    assert live.written == RECORDING[:3]
    live.view.press("Temperature", "ArrowRight")
    assert not live.view.beat()
    assert live.written == RECORDING[:3]
    live.main.press("Enter")
    live.beats(1)
    assert len(live.written) == 4


def test_it_keeps_no_more_than_so_many_letters(start):
    live = start(calm=True, written="a" * (LONGEST - 1))
    live.button("One more").press("Enter")
    live.view.settle()
    live.button("One more").press("Enter")
    live.view.settle()
    assert len(live.written) == LONGEST
    assert "keeps no more" in live.view.says
    live.main.press("Enter")
    assert not live.view.beat()
    assert len(live.written) == LONGEST


# --- the reader's own text ---


def test_a_text_of_the_readers_is_taken_up(start):
    live = start()
    live.beats(3)
    field = live.view.control("Your text")
    field.fill("My kingdom for a ")
    live.view.settle()
    assert live.written == ""
    expect(live.main).to_have_text("Write")  # it waits until the reader has stopped typing
    expected = predicted("My kingdom for a ", 0.8)
    assert live.rows()[0][1] == pytest.approx(max(expected.values()), abs=2e-3)
    live.beats(1 + 10)  # the first is the moment after the last key
    assert field.input_value() == "My kingdom for a "
    assert len(live.written) == 10
    live.button("Pause").press("Enter")
    field.press("End")
    field.press("x")
    assert live.written == ""
    field.press("Enter")  # at once
    live.beats(2)
    assert len(live.written) == 2


def test_shift_enter_breaks_a_line_and_enter_writes(start):
    live = start(calm=True)
    field = live.view.control("Your text")
    field.press("End")
    field.press("Shift+Enter")
    live.view.settle()
    assert field.input_value() == PROMPT + "\n"
    field.press("Enter")
    expect(live.main).to_have_text("Pause")
    assert field.input_value() == PROMPT + "\n"


# --- for everybody ---


def test_it_is_accessible_and_fits_a_phone(start, mount, shoot):
    live = start()
    live.beats(20)
    assert live.view.axe_violations() == []
    live.main.press("Enter")
    live.view.rest()
    assert live.view.axe_violations() == []
    chart = live.view.root.locator(".gf-live-chances [role=img]")
    assert re.match(r"The next character: \S+ [\d<> ]+ %, ", chart.get_attribute("aria-label"))
    live.page.set_viewport_size({"width": 360, "height": 800})
    live.view.settle()
    assert live.view.overflow() <= 0
    shoot("live-writer")


def test_while_it_writes_no_letter_is_read_aloud_by_itself_and_nothing_moves(start):
    live = start()
    live.page.evaluate("""() => {
      window.told = [];
      for (const region of document.querySelectorAll("[aria-live=polite], [role=status]")) {
        new MutationObserver(() => window.told.push(region.textContent))
          .observe(region, { childList: true, characterData: true, subtree: true });
      }
    }""")
    heights = set()
    for _ in range(40):
        live.view.beat()
        heights.add(live.view.root.bounding_box()["height"])
    live.view.rest()
    assert len(live.written) == 40
    assert len(live.page.evaluate("window.told")) <= 1
    assert len(heights) == 1


def test_it_leaves_nothing_behind(start):
    live = start()
    live.beats(2)
    live.page.evaluate("window.mounted[0].cleanup()")
    assert live.page.evaluate("window.mounted[0].model.listening()") == 1  # the slider's own
    written = live.written
    live.page.evaluate("window.beat()")
    assert live.written == written


# --- in Python ---


@pytest.mark.parametrize(
    "text", ["a" * 79, "a" * 80 + " ", "a" * 99, "a" * 100, "a" * 79 + "'", "a" * 79 + "\n", ""]
)
def test_both_languages_stop_at_the_same_place(call, text):
    assert call("live_writer", "isEnough", text) == is_enough(text)


def test_logits_survive_packing(call):
    logits = np.random.default_rng(0).normal(0, 8, (3, 65)).round(3)
    rows = call("writer", "unpackedLogits", packed_logits(logits))
    np.testing.assert_allclose(
        [list(row.values()) if isinstance(row, dict) else row for row in rows], logits, atol=1e-5
    )


def test_packed_logits_of_any_size_keep_their_probabilities(call):
    logits = np.array([[33.0, 32.0, -500.0], [3.0, 2.0, -500.0], [-40.0, -41.0, 10.0]])
    rows = call("writer", "unpackedLogits", packed_logits(logits))
    rows = np.array([list(row.values()) if isinstance(row, dict) else row for row in rows])
    np.testing.assert_allclose(softmax(rows), softmax(logits), atol=1e-6)
