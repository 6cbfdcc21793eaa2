"""Tests the glass machine: it shows what the NumPy model computes, by keyboard, by pointer and while typing."""

import numpy as np
import pytest
from traitlets import TraitError

from glassformer import shipped
from glassformer.inside.lens import logit_lens
from glassformer.scratch import softmax
from glassformer.trace import trace
from glassformer.widgets import GlassMachine
from glassformer.widgets.engine.model import LINE
from glassformer.widgets.glass_machine import picture

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
    assert view.says.startswith(
        "At “s”, position 14: after all 4 blocks the model writes “e” next, with 98 %."
    )
    letters = view.root.locator("[data-part='text'] .gf-cells").inner_text().replace("\n", "")
    assert letters == LINE.replace(" ", "␣")
    lens, _ = view.tables()
    for row, expected in zip(lens[1:], guesses(LINE, 14), strict=True):
        assert row[1::2] == [character for character, _ in expected]
    assert view.page.evaluate("window.asked") is None


def test_with_the_weights_it_shows_the_same_and_more(mount):
    view = mount(GlassMachine())
    before = view.tables()[0]
    read(view)
    assert view.tables()[0] == before
    assert_shows(view, LINE, 14)
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
    view = mount(GlassMachine(text=text))
    view.control("Your text").focus()
    read(view)
    assert f"The model sees the last {CONTEXT} characters." in view.root.inner_text()
    assert view.root.locator(".gf-earlier s").text_content() == text[: len(text) - CONTEXT]
    assert_shows(view, text[-CONTEXT:], CONTEXT - 1)
    view.press("Position", "Home")
    assert f"position {len(text) - CONTEXT}:" in view.says
    assert_shows(view, text[-CONTEXT:], 0)


def test_characters_that_it_does_not_know_are_named(mount):
    view = mount(GlassMachine())
    view.control("Your text").fill("A 7€ horse")
    assert view.says.startswith("The model has never met “7”, “€”: it knows 65 characters")
    assert view.get("text") == LINE
    view.control("Your text").fill("")
    assert view.says == "It needs at least one character to begin from."
    view.control("Your text").fill("To")
    read(view)
    assert_shows(view, "To", 1)


# --- writing ---


def test_it_writes_and_takes_back(mount):
    view = mount(GlassMachine(temperature=0, text="To be, or not to"))
    text = "To be, or not to"
    write = view.root.get_by_role("button", name="Write", exact=True)
    for _ in range(3):
        write.press("Enter")
        text += TOKENIZER.decode([int(MODEL(TOKENIZER.encode(text)[None])[0, -1].argmax())])
        assert view.get("text") == text
    assert view.saved()["drawn"] == 3
    view.root.get_by_role("button", name="Back", exact=True).press("Enter")
    assert view.get("text") == text[:-1]
    assert view.get("position") == len(text) - 2


def test_each_press_writes_a_character_however_fast(mount):
    text = "To be, or not to"
    view = mount(GlassMachine(temperature=0, text=text))
    write = view.root.get_by_role("button", name="Write", exact=True)
    write.evaluate("button => { for (let i = 0; i < 3; i++) button.click(); }")
    for _ in range(3):
        text += TOKENIZER.decode([int(MODEL(TOKENIZER.encode(text)[None])[0, -1].argmax())])
    assert view.get("text") == text
    assert view.get("drawn") == 3


def test_writing_goes_on_from_the_text_that_the_model_has(mount):
    view = mount(GlassMachine(temperature=0))
    view.control("Your text").fill("A 7")
    view.root.get_by_role("button", name="Write", exact=True).press("Enter")
    assert view.get("drawn") == 1
    assert view.control("Your text").input_value() == view.get("text") == LINE + "\n"
    assert view.says.startswith("At a new line, position 41")


def test_a_text_may_not_grow_for_ever(mount):
    view = mount(GlassMachine(text="ha" * 500))
    view.root.get_by_role("button", name="Write", exact=True).press("Enter")
    assert view.says == "The text has 1000 characters, and that is as many as it may have."
    assert len(view.get("text")) == 1000


def test_at_a_temperature_it_draws_another_each_time_and_the_same_again(mount):
    def written(drawn):
        view = mount(GlassMachine(temperature=2, text="A", drawn=drawn))
        view.root.get_by_role("button", name="Write", exact=True).press("Enter")
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
    assert view.get("position") == len(LINE) - 1


OPEN = [
    ("text", "Its id, 57, picks a row", "numbers 128"),
    ("stream 0", "nothing of the others yet", "length "),
    ("stream 2", "after block 1: what it was, plus", "attention wrote "),
    (
        "guess 1",
        "if it stopped after block 0 the model would write “t” next, with 42 %. After all 4: “e”, 98 %. In the",
        "42 %",
    ),
    ("head 3 2", "Block 3, head 2, at “s”, position 14: it looks ", "%"),
    (
        "feedforward 1",
        "it sees this position alone. The strongest of its 344 neurons is ",
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
        MODEL(TOKENIZER.encode(LINE)[None])
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
    head.hover(position={"x": 5, "y": box["height"] * 20.5 / 41})
    assert view.says.startswith("Block 1, head 2, at a blank, position 20: it looks 56 % at “!”, 4 back")
    shares = view.root.locator("[data-part='text'] .gf-cells span").evaluate_all(
        "cells => cells.map((cell) => Number(cell.style.getPropertyValue('--share')))"
    )
    with trace() as seen:
        MODEL(TOKENIZER.encode(LINE)[None])
    np.testing.assert_allclose(np.square(shares), seen.arrays("weights")[1][0, 2, 20], atol=2e-3)
    assert view.root.locator(".gf-lit").evaluate_all("all => all.map((e) => e.dataset.part)") == ["stream 1"]
    view.page.mouse.move(2, 2)
    assert view.says == pinned
    head.click(position={"x": 5, "y": box["height"] * 20.5 / 41})
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


# --- for everybody ---


def test_it_is_accessible_and_fits_a_phone(mount, shoot):
    view = mount(GlassMachine())
    view.rest()
    assert view.axe_violations() == []
    shoot("glass")
    view.page.set_viewport_size({"width": 360, "height": 900})
    view.rest()
    assert view.overflow() <= 0
    shoot("glass-phone")


@pytest.mark.parametrize(
    ("traits", "message"),
    [
        ({"part": "guess 5"}, "part='guess 5' is not text, stream or guess 0 to 4"),
        ({"part": "head 0 4"}, "for a head which of 4"),
        ({"part": "tail"}, "part='tail'"),
        ({"position": -1}, "position"),
        ({"temperature": 2.5}, "temperature"),
        ({"text": ""}, "text has 0 characters, but must have 1 to 1000"),
        ({"text": "a 7"}, r"text\[2\]='7' is not one of the 65 characters"),
        ({"model": "masked"}, "model='masked' belongs to the family encoder; it must be decoder"),
        (
            {"model": "runs/none"},
            "model='runs/none' is neither a folder nor one of shakespeare, masked, dates",
        ),
    ],
)
def test_wrong_settings_are_refused(traits, message):
    with pytest.raises(TraitError, match=message):
        GlassMachine(**traits)
