"""Tests the glass machine in letters and in words: it shows what the NumPy model computes, however it is operated."""

import json

import numpy as np
import pytest
from mounting import WITHHOLD
from own_models import TOKENIZER, small
from playwright.sync_api import expect
from traitlets import TraitError

from glassformer.config import ModelConfig
from glassformer.generate import distribution, draw
from glassformer.generate.reader import window_start
from glassformer.inside.lens import logit_lens
from glassformer.scratch import softmax
from glassformer.trace import trace
from glassformer.widgets import GlassMachine
from glassformer.widgets.engine.model import LINE, source_of
from glassformer.widgets.engine.mulberry import uniform
from glassformer.widgets.glass_machine import OPENING, OPENINGS, STEPS, picture

SOURCES = {"letters": source_of("shakespeare"), "words": source_of("words")}
MODELS = {reads: source.model for reads, source in SOURCES.items()}
TOKEN = {"letters": "character", "words": "token"}  # what the view calls a token
KNOWN = SOURCES["letters"].tokenizer.characters
TEXT = "My lord, I will not stay to hear the king"
LONG = {
    "letters": (LINE + "\n") * 4,
    "words": "What is your fortune? Speak again, good sir, and let me know it all.\n" * 6,
}
TOUR = "Take the tour: six steps"
in_both = pytest.mark.parametrize("reads", SOURCES)


def seen(token):
    return token.replace(" ", "␣").replace("\n", "⏎")


def pieces(text, reads):
    tokenizer = SOURCES[reads].tokenizer
    return [tokenizer.decode([i]) for i in tokenizer.encode(text)]


def of(text, reads):
    """Returns the ids of a text that the model sees, and how many it does not."""
    ids = SOURCES[reads].tokenizer.encode(text)
    start = int(window_start(len(ids), SOURCES[reads].config.context_length))
    return ids[start:], start


def traced(text, reads="letters"):
    with trace() as found:
        MODELS[reads](of(text, reads)[0][None])
    return found


def assert_shows(view, text, position):
    """Compares both tables with NumPy, at a position of the whole text."""
    reads = view.get("reads")
    (ids, start), decode = of(text, reads), SOURCES[reads].tokenizer.decode
    lens, heads = view.tables()
    expected = softmax(logit_lens(MODELS[reads], ids).astype(np.float64))[:, position - start]
    for row, probabilities in zip(lens[1:], expected, strict=True):
        best = np.argsort(-probabilities, kind="stable")[:4]
        np.testing.assert_allclose([float(p) for p in row[2::2]], probabilities[best], atol=1.01e-4)
        likely = np.flatnonzero(probabilities >= probabilities[best[-1]] - 2e-4)
        assert set(row[1::2]) <= {seen(decode([i])) for i in likely}
        if probabilities[best[0]] > probabilities[best[1]] + 1e-3:
            assert row[1] == seen(decode([best[0]]))
    tokens = [seen(decode([i])) for i in ids]
    looks = [
        of_one
        for weights in traced(text, reads).arrays("weights")
        for of_one in weights[0, :, position - start]
    ]
    for row, weights in zip(heads[1:], looks, strict=True):
        for token, back, share in filter(None, (row[1:4], row[4:7])):
            s = position - start - int(back)
            assert token == tokens[s]
            assert float(share) == pytest.approx(weights[s], abs=6e-4)
        assert float(row[3]) == pytest.approx(weights[: position - start + 1].max(), abs=6e-4)


def open_part(view):
    """Waits until the weights have arrived and the whole text has been read."""
    view.root.locator("[tabindex='0'][data-part]").focus()
    view.rest()


def columns(view):
    return [text for text in view.root.locator("[data-part='text'] .gf-cells span").all_inner_texts() if text]


def named(view, name):
    return view.root.get_by_role("button", name=name, exact=True)


def press(view, name):
    named(view, name).press("Enter")


def drawn(view, count):
    """Waits until so many tokens were drawn."""
    view.page.wait_for_function("n => window.mounted[0].model.get('drawn') === n", arg=count)


def radio(view, name):
    return view.root.get_by_role("radio", name=name, exact=True)


def switch(view, name):
    radio(view, name).check()
    view.rest()
    assert view.get("reads") == name


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


def test_both_models_have_the_same_shape():
    letters, words = SOURCES["letters"].config, SOURCES["words"].config
    for name in ("n_layers", "n_heads", "d_model", "d_ff"):
        assert getattr(letters, name) == getattr(words, name), name


BEGINNING = (
    "After “s”, position 14: with all 4 blocks, “e” gets 98 %. At temperature 0.8 that becomes "
    "> 99 %. The next character in the text is “e”."
)


@pytest.mark.sampled(2)
@in_both
def test_it_is_there_before_the_weights_are_and_stays_the_same(mount, reads):
    view = mount(GlassMachine(reads=reads))
    text, position = OPENINGS[reads], {"letters": 14, "words": 4}[reads]
    assert (view.get("text"), view.get("position")) == (text, position)
    assert columns(view) == [seen(token) for token in pieces(text, reads)][: len(columns(view))]
    if reads == "letters":
        assert view.says == BEGINNING
    assert_shows(view, text, position)
    before = view.tables()[0]
    assert view.page.evaluate("window.asked") is None
    open_part(view)
    asked = {"letters": 1, "words": 2}[
        reads
    ]  # the weights; of words also the vocabulary, and nothing of letters
    assert view.page.evaluate("window.asked") == asked
    assert view.tables()[0] == before
    assert_shows(view, text, position)
    open_part(mount(GlassMachine(reads=reads)))
    assert view.page.evaluate("window.asked") == asked


@pytest.mark.sampled(2)
@in_both
@pytest.mark.parametrize("text", ["I", "What light through yonder window breaks?\nIt is the east"])
def test_it_reads_what_is_typed(mount, reads, text):
    view = mount(GlassMachine(reads=reads))
    view.control("Your text").fill(text)
    open_part(view)
    assert view.saved()["text"] == text
    assert_shows(view, text, len(pieces(text, reads)) - 1)
    view.press("Position", "Home")
    assert_shows(view, text, 0)


@pytest.mark.sampled(2)
@in_both
def test_of_a_longer_text_it_shows_what_the_model_still_sees(mount, reads):
    text, context = LONG[reads], SOURCES[reads].config.context_length
    view = mount(GlassMachine(reads=reads, text=text))
    ids, start = of(text, reads)
    assert start > 0
    line = f"The model sees at most {context} {TOKEN[reads]}s at a time, now the last {len(ids)} of {start + len(ids)}."
    for _ in range(2):  # as stored, and read
        assert line in view.root.locator(".gf-earlier").inner_text()
        lost = "".join(pieces(text, reads)[:start])
        assert view.root.locator(".gf-earlier s").text_content().endswith(lost[-38:])
        assert_shows(view, text, start + len(ids) - 1)
        open_part(view)
    view.press("Position", "Home")
    assert view.get("position") == start
    assert f"position {start}" in view.says
    assert_shows(view, text, start)


def test_a_key_press_in_a_long_text_reads_one_character(mount):
    """The window moves only once in half a context, so what was read stays useful."""
    text = ("To be, or not to be, " * 15)[:300]
    view = mount(GlassMachine(text=text))
    open_part(view)
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
    start = window_start(len(text) + 1, SOURCES["letters"].config.context_length)
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
    assert "".join(columns(view)) == seen(OPENING)
    assert_shows(view, OPENING, len(OPENING) - 1)


def test_characters_that_it_does_not_know_are_skipped_in_words_too(mount):
    view = mount(GlassMachine(reads="words"))
    for typed, text in {"I'm 25 and I 🍕": "I'm  and I ", "": "\n", "é": "\n", "naïve": "nave"}.items():
        view.control("Your text").fill(typed)
        view.rest()
        assert view.control("Your text").input_value() == typed
        assert view.get("text") == text
        marked = "".join(view.root.locator(".gf-unknown").all_text_contents())
        assert marked == "".join(c for c in typed if c not in KNOWN)
        assert_shows(view, text, len(pieces(text, "words")) - 1)


# --- words of the view ---


def words_of(view):
    """Returns everything that the view says or names, except what the model or the reader wrote."""
    return view.root.evaluate(
        """(root) => {
          const names = [...root.querySelectorAll("[aria-label]")].map((e) => e.getAttribute("aria-label"));
          const text = [...root.querySelectorAll("p, dt, label, button, legend, caption, .gf-legend span")];
          const told = text.filter((e) => !e.matches(".gf-own-note, .gf-reads-note")).map((e) => e.textContent);
          return [...names, ...told].join("\\n");
        }"""
    )


@pytest.mark.weekly
@pytest.mark.parametrize(("reads", "never"), [("words", "character"), ("letters", "token")])
def test_it_says_token_or_character_everywhere(mount, reads, never):
    view = mount(GlassMachine(reads=reads, text=LONG["words"]))
    open_part(view)
    view.tables()
    told = []
    for part in ("text", "stream 0", "stream 3", "guess 1", "guess 4", "head 1 1", "feedforward 2"):
        view.set(part=part, position=view.get("position") - 1)
        view.rest()
        told.append(words_of(view))
    told += [words_of(view) for _ in tour(view)]
    assert never not in "\n".join(told).lower()
    assert TOKEN[reads] in "\n".join(told)
    expect(named(view, f"One {TOKEN[reads]}")).to_be_visible()


# --- writing ---


def logits_after(text, reads):
    """Returns the logits after a text, and the same with −∞ for tokens whose characters the model has never learned."""
    tokenizer = SOURCES[reads].tokenizer
    known = [set(tokenizer.decode([i])) <= set(KNOWN) for i in range(tokenizer.vocab_size)]
    logits = MODELS[reads](of(text, reads)[0][None])[0, -1:].astype(np.float64)
    return logits, np.where(known, logits, -np.inf)


def greedy(text, count, reads="letters"):
    """Returns a text continued by its likeliest tokens."""
    for _ in range(count):
        text += SOURCES[reads].tokenizer.decode([int(logits_after(text, reads)[1].argmax())])
    return text


@in_both
def test_it_writes_and_takes_back(mount, reads):
    text = "To be, or not to"
    view = mount(GlassMachine(reads=reads, temperature=0, text=text))
    for count in (1, 2, 3):
        press(view, f"One {TOKEN[reads]}")
        drawn(view, count)
        assert view.get("text") == greedy(text, count, reads)
    assert view.saved()["drawn"] == 3
    assert view.control("Your text").input_value() == view.get("text")
    press(view, "Take one back")
    assert view.get("text") == greedy(text, 2, reads)
    assert view.get("position") == len(pieces(text, reads)) + 1


@pytest.mark.sampled(2)
@in_both
def test_it_draws_as_python_does_and_only_what_it_has_learned(mount, reads):
    view = mount(GlassMachine(reads=reads, temperature=2, text=TEXT))
    text = TEXT
    for count in range(4):
        press(view, f"One {TOKEN[reads]}")
        drawn(view, count + 1)
        logits, writable = logits_after(text, reads)
        p = np.where(writable > -np.inf, distribution(logits, temperature=2), 0)
        text += SOURCES[reads].tokenizer.decode([int(draw(p / p.sum(), uniform(count, 1))[0])])
        assert view.get("text") == text
    assert set(text) <= set(KNOWN)


def test_each_press_writes_a_character_however_fast(mount):
    text = "To be, or not to"
    view = mount(GlassMachine(temperature=0, text=text))
    named(view, "One character").evaluate("button => { for (let i = 0; i < 3; i++) button.click(); }")
    drawn(view, 3)
    assert view.get("text") == greedy(text, 3)


@pytest.mark.weekly
def test_it_goes_on_writing_until_it_has_written_enough(mount):
    view = mount(GlassMachine())
    press(view, "Write")
    view.settle()  # a drawing is busy for as long as it writes
    assert not view.get("text")[len(OPENING)].isspace()  # what a stranger sees first is a letter
    assert view.get("drawn") == 80
    assert len(view.get("text")) == len(OPENING) + 80
    assert named(view, "Write").is_visible()
    second = mount(GlassMachine())
    press(second, "Write")
    second.settle()
    assert second.get("text") == view.get("text")


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


@pytest.mark.sampled(2)
@pytest.mark.parametrize("typed", [None, "To be"])
def test_what_was_being_computed_when_it_was_stopped_is_not_written(mount, typed):
    view = mount(GlassMachine(temperature=0))
    open_part(view)
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
    assert named(view, "Write").is_visible()


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
    p = softmax(MODELS["letters"](of(OPENING, "letters")[0][None])[0].astype(np.float64))
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


@pytest.mark.weekly
def test_what_the_model_wrote_is_shaded(mount):
    view = mount(GlassMachine(temperature=0))
    shaded = lambda: "".join(view.root.locator(".gf-by-model").all_text_contents())  # noqa: E731
    field = view.control("Your text")
    field.fill("To be 7, ")
    press(view, "One character")
    drawn(view, 1)
    switch(view, "words")
    press(view, "One token")
    drawn(view, 2)
    view.rest()
    mine, whole = "To be 7, ", field.input_value()
    assert whole.startswith(mine)
    assert shaded() == whole.removeprefix(mine) != ""
    assert "The model wrote the shaded part." in view.root.locator(".gf-own-note").inner_text()
    field.press("Home")
    field.press("A")  # at the beginning, in the reader's own part
    view.rest()
    assert shaded() == whole.removeprefix(mine)
    field.press("End")
    field.press("z")
    view.rest()
    assert shaded() == whole.removeprefix(mine)
    assert view.axe_violations() == []
    field.fill("")
    view.rest()
    assert shaded() == ""


# --- looking ---


def test_every_part_is_reached_and_opened_by_arrows(mount):
    view = mount(GlassMachine())
    open_part(view)
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
    open_part(view)
    for part, says, facts in OPEN:
        view.set(part=part)
        assert says in view.says
        assert facts in " ".join(view.root.locator(".gf-detail").inner_text().split())


@pytest.mark.sampled(2)
@in_both
def test_the_numbers_of_a_part_are_those_of_numpy(mount, reads):
    view = mount(GlassMachine(reads=reads, text=TEXT, part="stream 2", position=5))
    open_part(view)
    [*_, stream], wrote, [neurons] = (
        [a[0, 5] for part, _, name, a in traced(TEXT, reads) if (part, name) == ("decoder: block 1", wanted)]
        for wanted in ("stream", "write", "neurons")
    )
    shown = view.root.locator(".gf-facts dd").all_inner_texts()
    assert shown == ["128", *(f"{np.linalg.norm(x):.2f}" for x in (stream, *wrote))]
    view.set(part="text")
    view.rest()
    assert f"Its id, {of(TEXT, reads)[0][5]}, selects a row" in view.says
    view.set(part="feedforward 1")
    view.rest()
    shown = " ".join(view.root.locator(".gf-facts").inner_text().split())
    for i in np.argsort(-np.abs(neurons))[:4]:
        assert f"neuron {i} {neurons[i]:.2f}".replace("-", "−") in shown


def test_pointing_opens_a_part_for_as_long_as_it_lasts(mount):
    view = mount(GlassMachine())
    open_part(view)
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
    np.testing.assert_allclose(np.square(shares), traced(OPENING).arrays("weights")[1][0, 2, 20], atol=2e-3)
    assert view.root.locator(".gf-lit").evaluate_all("all => all.map((e) => e.dataset.part)") == ["stream 1"]
    view.page.mouse.move(2, 2)
    assert view.says == pinned
    head.click(position={"x": 5, "y": box["height"] * 20.5 / 35})
    view.page.mouse.move(2, 2)
    assert (view.get("part"), view.get("position")) == ("head 1 2", 20)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("text", [LINE, LONG["letters"]], ids=["short", "beyond the context"])
def test_pointing_paints_nothing_anew(mount, text):
    view = mount(GlassMachine(text=text))
    open_part(view)
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
    press(view, TOUR)
    for step in range(1, STEPS + 1):
        view.rest()
        yield step, view.says
        view.page.keyboard.press("Enter")  # the focus stays on *Next*
    view.rest()


def test_the_tour_says_what_is_true_of_the_model(mount):
    view = mount(GlassMachine())
    weights = np.stack([array[0] for array in traced(OPENING).arrays("weights")])  # (L, H, T, T)
    past = np.arange(1, len(OPENING))
    one_back = weights[:, :, past, past - 1].mean(axis=-1)
    best = logit_lens(MODELS["letters"], of(OPENING, "letters")[0])[:, 14].argmax(axis=-1)
    found = [seen(SOURCES["letters"].tokenizer.decode([i])) for i in best]
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


def test_the_tour_is_true_of_tokens(mount):
    view = mount(GlassMachine(reads="words", text=TEXT))
    press(view, TOUR)
    view.rest()
    said = "This stripe is one {}’s vector: 128 numbers, made from those the model has learned for “{}”."
    assert view.says == said.format("token", seen(pieces(TEXT, "words")[-1]))
    switch(view, "letters")
    assert view.get("step") == 1
    assert view.says == said.format("character", "g")


def test_the_tour_does_not_start_by_itself_and_leaves_no_trace(mount):
    view = mount(GlassMachine(part="head 1 2", position=9))
    view.rest()
    start = named(view, TOUR)
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
    press(view, TOUR)
    keys = ["ArrowRight", "ArrowRight", "ArrowLeft", "ArrowLeft", "ArrowLeft", *["ArrowRight"] * 7, "Escape"]
    steps = []
    for key in keys:
        view.page.keyboard.press(key)
        steps.append(view.get("step"))
    assert steps == [2, 3, 2, 1, 1, 2, 3, 4, 5, 6, 6, 6, 0]


@pytest.mark.weekly
def test_the_tour_is_true_of_any_text(mount):
    view = mount(GlassMachine())
    for text in ("O", "ab", "I'm 25", "", "\n\n"):
        view.control("Your text").fill(text)
        for _, says in tour(view):
            assert says.count(".") >= 1, text
            assert not any(wrong in says for wrong in ("undefined", "NaN", "null")), text


def test_typing_ends_the_tour(mount):
    view = mount(GlassMachine())
    press(view, TOUR)
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


# --- switching ---


def test_it_keeps_text_and_place_in_both_directions(mount):
    view = mount(GlassMachine(text=TEXT, position=TEXT.index("king") + 1, part="head 1 2"))
    switch(view, "words")
    assert pieces(TEXT, "words")[view.get("position")] == " king"
    assert (view.get("text"), view.get("part")) == (TEXT, "head 1 2")
    assert "“␣king”" in view.says
    switch(view, "letters")
    assert view.get("position") == TEXT.index("king") + 1  # as it was left
    switch(view, "words")
    view.press("Position", "ArrowLeft")
    switch(view, "letters")
    assert view.get("position") == TEXT.index(" king") - 1  # the last character of “ the”
    assert view.control("Your text").input_value() == TEXT


def test_the_first_text_loses_its_last_space_and_gets_it_back(mount):
    view = mount(GlassMachine())
    switch(view, "words")
    assert view.get("text") == OPENING.rstrip()
    assert pieces(OPENING, "words")[view.get("position")] == " horse"
    switch(view, "letters")
    assert (view.get("text"), view.get("position")) == (OPENING, 14)
    view.control("Your text").fill("My horse ")
    switch(view, "words")
    assert view.get("text") == "My horse "  # the reader's own
    assert "the space at the end of your text" in view.root.locator(".gf-own-note").inner_text()


def test_by_keyboard_and_touch(mount):
    view = mount(GlassMachine())
    radio(view, "letters").focus()
    view.page.keyboard.press("ArrowRight")
    view.rest()
    assert view.get("reads") == "words"
    assert radio(view, "words").evaluate("radio => radio === document.activeElement")
    radio(view, "letters").locator("xpath=..").tap()
    view.rest()
    assert view.get("reads") == "letters"


def assert_in_letters(view):
    assert "One character" in view.root.inner_text()
    assert "".join(columns(view)) == seen(view.get("text"))
    assert "token" not in view.root.locator(".gf-says").inner_text()


def test_while_it_loads_everything_is_still_in_letters(mount):
    view = mount(GlassMachine())
    view.page.evaluate(WITHHOLD, "of words")
    radio(view, "words").check()
    view.page.wait_for_function("window.withheld() === 2")
    assert view.get("reads") == "letters"
    assert (
        view.root.locator(".gf-reads-note").inner_text()
        == "Waiting for the model that reads words … Until then, the machine reads letters."
    )
    assert_in_letters(view)
    view.control("Your text").fill("A king")
    view.settle()
    assert_in_letters(view)
    view.page.evaluate("window.release()")
    view.rest()
    assert view.get("reads") == "words"
    assert columns(view) == ["A", "␣king"]


def test_whoever_changes_their_mind_stays_in_letters(mount):
    view = mount(GlassMachine())
    view.page.evaluate(WITHHOLD, "of words")
    radio(view, "words").check()
    view.page.wait_for_function("window.withheld() === 2")
    radio(view, "letters").check()
    view.page.evaluate("window.release()")
    view.rest()
    assert view.get("reads") == "letters"
    assert view.root.locator(".gf-reads-note").inner_text() == "Here every character is a token."
    assert_in_letters(view)
    switch(view, "words")  # it has arrived meanwhile
    assert view.page.evaluate("window.asked") == 2


def test_a_switch_pauses_the_writing(mount):
    view = mount(GlassMachine(temperature=0, text=TEXT))
    press(view, "Write")
    view.page.wait_for_function("window.mounted[0].model.get('drawn') > 1")
    radio(view, "words").check()
    view.page.wait_for_function("window.mounted[0].model.get('reads') === 'words'")
    view.rest()
    drawn = view.get("drawn")
    assert named(view, "Write").is_visible()
    assert drawn < 80
    text = view.get("text")
    assert_shows(view, text, view.get("position"))


def test_python_switches_as_well(mount):
    view = mount(GlassMachine(text=TEXT))
    view.set(reads="words", position=2)
    view.rest()
    assert_shows(view, TEXT, 2)
    assert named(view, "One token").is_visible()
    view.set(reads="letters", position=2)
    view.rest()
    assert "position 2" in view.says
    assert named(view, "One character").is_visible()


# --- for everybody ---


IN_VIEW = """([part, panel]) => {
  const inside = ({ left, top, right, bottom }) =>
    left >= 0 && top >= 0 && right <= document.documentElement.clientWidth && bottom <= innerHeight;
  const box = part.getBoundingClientRect();
  const at = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
  return [inside(box), inside(panel.getBoundingClientRect()), part.contains(at)];
}"""


@pytest.mark.weekly
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
    panel = view.root.locator(".gf-machine-panel")

    def are_in_view(part):
        found = view.page.evaluate(IN_VIEW, [part.element_handle(), panel.element_handle()])
        return found == [True, True, True]

    for part in view.root.locator("[data-part]").all():
        part.evaluate("part => part.scrollIntoView({ block: 'nearest' })")
        part.hover() if width == 1280 else part.tap()
        view.settle()
        assert are_in_view(part), part.get_attribute("data-part")
    places = set()
    for _ in tour(view):
        assert are_in_view(view.root.locator(".gf-open")), view.get("part")
        places.add(view.root.get_by_role("group", name="The tour").bounding_box()["y"])
        text = view.root.locator("[data-part='text']").bounding_box()
        end = panel.bounding_box()["y"] if width == 390 else height
        assert 0 <= text["y"] < text["y"] + text["height"] <= end, view.get("part")
    if width == 1280:  # on a phone, the panel is a sheet at the bottom of the screen
        assert len(places) == 1, f"the button for the next step moves: {sorted(places)}"


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
    open_part(view)
    for part in ("text", "stream 2", "feedforward 1", "head 0 0", "guess 2", "guess 4"):
        view.set(part=part)
        panel = view.root.locator(".gf-machine-panel")
        assert panel.evaluate("panel => panel.scrollWidth <= panel.clientWidth"), part


@pytest.mark.sampled(2)
@in_both
def test_it_is_accessible_and_fits_a_phone(mount, shoot, reads):
    view = mount(GlassMachine(reads=reads, text=LONG[reads]))
    open_part(view)
    assert view.axe_violations() == []
    shoot(f"glass-{reads}")
    for width in (390, 360):
        view.page.set_viewport_size({"width": width, "height": 900})
        view.rest()
        assert view.overflow() <= 0
        assert len(columns(view)) >= 5
        shoot(f"glass-{reads}-{width}")
    if reads == "words":  # in a column there is room for a word
        cells = view.root.locator("[data-part='text'] .gf-cells span")
        assert min(cells.evaluate_all("all => all.map((e) => e.clientWidth)")) >= 44
    press(view, TOUR)
    view.rest()
    shoot(f"glass-{reads}-tour")
    assert view.axe_violations() == []


# --- from Python ---


def test_words_belong_to_the_books_letters_alone():
    view = GlassMachine(small(), tokenizer=TOKENIZER)
    assert view._words == {}
    with pytest.raises(
        TraitError, match="reads='words' needs model='shakespeare', but the model is 'your model'"
    ):
        view.reads = "words"
    assert view._file("weights of words") is None
    assert GlassMachine()._words == json.loads(SOURCES["words"].config.to_json())
    assert ModelConfig.from_json(json.dumps(GlassMachine()._words)) == SOURCES["words"].config
