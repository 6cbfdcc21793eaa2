"""Tests the glass machine in words: it shows what the NumPy model computes, and switches without losing anything."""

import json

import numpy as np
import pytest
from playwright.sync_api import expect
from traitlets import TraitError

from glassformer import widgets
from glassformer.config import ModelConfig
from glassformer.generate import distribution, draw
from glassformer.generate.reader import window_start
from glassformer.inside.lens import logit_lens
from glassformer.scratch import softmax
from glassformer.trace import trace
from glassformer.widgets import GlassMachine
from glassformer.widgets.engine.model import ModelView, source_of
from glassformer.widgets.engine.mulberry import uniform
from glassformer.widgets.glass_machine import OPENING, OPENINGS

SOURCE = source_of("words")
MODEL, TOKENIZER, CONTEXT = SOURCE.model, SOURCE.tokenizer, SOURCE.config.context_length
KNOWN = source_of("shakespeare").tokenizer.characters
TEXT = "My lord, I will not stay to hear the king"
LONG = "What is your fortune? Speak again, good sir, and let me know it all.\n" * 6


def pieces(text):
    return [TOKENIZER.decode([i]) for i in TOKENIZER.encode(text)]


def seen(token):
    return token.replace(" ", "␣").replace("\n", "⏎")


def of(text):
    """Returns the ids of a text that the model sees, and how many it does not."""
    ids = TOKENIZER.encode(text)
    start = int(window_start(len(ids), CONTEXT))
    return ids[start:], start


def assert_shows(view, text, position):
    """Compares both tables with NumPy, at a position of the whole text."""
    ids, start = of(text)
    lens, heads = view.tables()
    expected = softmax(logit_lens(MODEL, ids).astype(np.float64))[:, position - start]
    for row, probabilities in zip(lens[1:], expected, strict=True):
        best = np.argsort(-probabilities, kind="stable")[:4]
        np.testing.assert_allclose([float(p) for p in row[2::2]], probabilities[best], atol=1.01e-4)
        shown = [
            seen(TOKENIZER.decode([i]))
            for i in np.flatnonzero(probabilities >= probabilities[best[-1]] - 2e-4)
        ]
        assert set(row[1::2]) <= set(shown)
        if probabilities[best[0]] > probabilities[best[1]] + 1e-3:
            assert row[1] == seen(TOKENIZER.decode([best[0]]))
    with trace() as found:
        MODEL(ids[None])
    looks = [weights[0, head, position - start] for weights in found.arrays("weights") for head in range(4)]
    tokens = [seen(TOKENIZER.decode([i])) for i in ids]
    for row, weights in zip(heads[1:], looks, strict=True):
        for token, back, share in filter(None, (row[1:4], row[4:7])):
            s = position - start - int(back)
            assert token == tokens[s]
            assert float(share) == pytest.approx(weights[s], abs=6e-4)
        assert float(row[3]) == pytest.approx(weights[: position - start + 1].max(), abs=6e-4)


def radio(view, name):
    return view.root.get_by_role("radio", name=name, exact=True)


def switch(view, name):
    radio(view, name).check()
    view.rest()
    assert view.get("reads") == name


def open_part(view):
    view.root.locator("[tabindex='0'][data-part]").focus()
    view.rest()


def columns(view):
    return [text for text in view.root.locator("[data-part='text'] .gf-cells span").all_inner_texts() if text]


def note(view):
    return view.root.locator(".gf-reads-note").inner_text()


# --- what it shows ---


def test_both_models_have_the_same_shape():
    letters, words = source_of("shakespeare").config, SOURCE.config
    for name in ("n_layers", "n_heads", "d_model", "d_ff"):
        assert getattr(letters, name) == getattr(words, name), name


def test_in_words_from_the_start(mount):
    view = mount(GlassMachine(reads="words"))
    text = OPENINGS["words"]
    assert view.get("text") == text
    assert view.get("position") == 4
    assert pieces(text)[4] == " horse"
    assert columns(view) == [seen(token) for token in pieces(text)][: len(columns(view))]
    assert_shows(view, text, 4)
    assert view.page.evaluate("window.asked") is None
    before = view.tables()[0]
    open_part(view)
    assert (
        view.page.evaluate("window.asked") == 2
    )  # the weights and the vocabulary of words, and nothing of letters
    assert view.tables()[0] == before
    assert_shows(view, text, 4)


@pytest.mark.parametrize("text", ["I", TEXT, "ROMEO:\nO, she doth teach the torches to burn bright!\n"])
def test_it_reads_what_is_typed(mount, text):
    view = mount(GlassMachine())
    switch(view, "words")
    view.control("Your text").fill(text)
    view.rest()
    assert (view.get("text"), view.get("position")) == (text, len(pieces(text)) - 1)
    assert_shows(view, text, len(pieces(text)) - 1)
    view.press("Position", "Home")
    assert_shows(view, text, 0)


def test_beyond_the_window(mount):
    view = mount(GlassMachine(reads="words", text=LONG))
    ids, start = of(LONG)
    assert start > 0
    for _ in range(2):  # as stored, and read
        line = f"The model sees at most {CONTEXT} tokens at a time, now the last {len(ids)} of {start + len(ids)}."
        assert line in view.root.locator(".gf-earlier").inner_text()
        lost = TOKENIZER.decode(TOKENIZER.encode(LONG)[:start])
        assert view.root.locator(".gf-earlier s").text_content().endswith(lost[-38:])
        assert_shows(view, LONG, start + len(ids) - 1)
        open_part(view)
    view.press("Position", "Home")
    assert view.get("position") == start
    assert f"position {start}" in view.says
    assert_shows(view, LONG, start)


def test_the_numbers_of_a_part(mount):
    view = mount(GlassMachine(reads="words", text=TEXT, part="stream 2", position=5))
    open_part(view)
    with trace() as found:
        MODEL(TOKENIZER.encode(TEXT)[None])
    [*_, stream] = [a[0, 5] for p, _, name, a in found if (p, name) == ("decoder: block 1", "stream")]
    wrote = [a[0, 5] for p, _, name, a in found if (p, name) == ("decoder: block 1", "write")]
    shown = view.root.locator(".gf-facts dd").all_inner_texts()
    assert shown == ["128", *(f"{np.linalg.norm(x):.2f}" for x in (stream, *wrote))]
    view.set(part="text")
    view.rest()
    assert f"Its id, {TOKENIZER.encode(TEXT)[5]}, selects a row" in view.says


def test_unknown_characters_are_skipped_as_in_letters(mount):
    view = mount(GlassMachine())
    switch(view, "words")
    for typed, text in {"I'm 25 and I 🍕": "I'm  and I ", "": "\n", "é": "\n", "naïve": "nave"}.items():
        view.control("Your text").fill(typed)
        view.rest()
        assert view.control("Your text").input_value() == typed
        assert view.get("text") == text
        marked = "".join(view.root.locator(".gf-unknown").all_text_contents())
        assert marked == "".join(c for c in typed if c not in KNOWN)
        assert_shows(view, text, len(pieces(text)) - 1)


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


@pytest.mark.parametrize(
    ("reads", "says", "never"), [("words", "token", "character"), ("letters", "character", "token")]
)
def test_it_says_token_or_character_everywhere(mount, reads, says, never):
    view = mount(GlassMachine(reads=reads, text=LONG))
    open_part(view)
    view.tables()
    told = []
    for part in ("text", "stream 0", "stream 3", "guess 1", "guess 4", "head 1 1", "feedforward 2"):
        view.set(part=part, position=view.get("position") - 1)
        view.rest()
        told.append(words_of(view))
    view.root.get_by_role("button", name="Take the tour: six steps").press("Enter")
    for _ in range(6):
        view.rest()
        told.append(words_of(view))
        view.page.keyboard.press("Enter")
    assert never not in "\n".join(told).lower()
    assert says in "\n".join(told)
    expect(view.root.get_by_role("button", name=f"One {says}", exact=True)).to_be_visible()


def test_the_tour_is_true_of_tokens(mount):
    view = mount(GlassMachine(reads="words", text=TEXT))
    view.root.get_by_role("button", name="Take the tour: six steps").press("Enter")
    view.rest()
    last = seen(pieces(TEXT)[-1])
    assert view.says == (
        f"This stripe is one token’s vector: 128 numbers, made from those the model has learned for “{last}”."
    )
    switch(view, "letters")
    assert view.get("step") == 1
    assert view.says == (
        "This stripe is one character’s vector: 128 numbers, made from those the model has learned for “g”."
    )


# --- writing ---


def writable(logits):
    """Sets the logits of tokens with characters that never occurred to −∞."""
    known = [set(TOKENIZER.decode([i])) <= set(KNOWN) for i in range(TOKENIZER.vocab_size)]
    return np.where(known, logits, -np.inf)


def press(view, name):
    view.root.get_by_role("button", name=name, exact=True).press("Enter")


def test_it_writes_and_takes_back_tokens(mount):
    view = mount(GlassMachine(reads="words", temperature=0, text=TEXT))
    expected = [TEXT]
    for count in (1, 2, 3):
        press(view, "One token")
        view.page.wait_for_function("n => window.mounted[0].model.get('drawn') === n", arg=count)
        logits = writable(MODEL(of(expected[-1])[0][None])[0, -1])
        expected.append(expected[-1] + TOKENIZER.decode([int(logits.argmax())]))
        assert view.get("text") == expected[-1]
    press(view, "Take one back")
    last = pieces(expected[-1])[-1]
    assert view.get("text") == expected[-1].removesuffix(last)


def test_it_draws_as_python_does_and_only_what_it_has_learned(mount):
    view = mount(GlassMachine(reads="words", temperature=2, text=TEXT))
    text = TEXT
    for drawn in range(4):
        press(view, "One token")
        view.page.wait_for_function("n => window.mounted[0].model.get('drawn') === n", arg=drawn + 1)
        logits = MODEL(of(text)[0][None])[0, -1:].astype(np.float64)
        p = np.where(writable(logits) > -np.inf, distribution(logits, temperature=2), 0)
        text += TOKENIZER.decode([int(draw(p / p.sum(), uniform(drawn, 1))[0])])
        assert view.get("text") == text
    assert set(text) <= set(KNOWN)


def test_what_the_model_wrote_is_shaded(mount):
    view = mount(GlassMachine(temperature=0))
    shaded = lambda: "".join(view.root.locator(".gf-by-model").all_text_contents())  # noqa: E731
    field = view.control("Your text")
    field.fill("To be 7, ")
    press(view, "One character")
    view.page.wait_for_function("window.mounted[0].model.get('drawn') === 1")
    switch(view, "words")
    press(view, "One token")
    view.page.wait_for_function("window.mounted[0].model.get('drawn') === 2")
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


# --- switching ---


def test_it_keeps_text_and_place_in_both_directions(mount):
    view = mount(GlassMachine(text=TEXT, position=TEXT.index("king") + 1, part="head 1 2"))
    switch(view, "words")
    assert pieces(TEXT)[view.get("position")] == " king"
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
    assert pieces(OPENING)[view.get("position")] == " horse"
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


def hold_answers(view):
    """From now on, answers about words wait until `let` is called."""
    view.page.evaluate(
        """() => {
          const real = window.fileOf;
          window.held = [];
          window.fileOf = async (what, digest) => {
            if (what.includes("of words")) await new Promise((go, stop) => held.push({ go, stop }));
            return real(what, digest);
          };
          window.let = () => { window.fileOf = real; held.splice(0).forEach(({ go }) => go()); };
        }"""
    )


def assert_in_letters(view):
    assert "One character" in view.root.inner_text()
    assert "".join(columns(view)) == seen(view.get("text"))
    assert "token" not in view.root.locator(".gf-says").inner_text()


def test_while_it_loads_everything_is_still_in_letters(mount):
    view = mount(GlassMachine())
    hold_answers(view)
    radio(view, "words").check()
    view.page.wait_for_function("window.held.length === 2")
    assert view.get("reads") == "letters"
    assert note(view) == "Waiting for the model that reads words … Until then, the machine reads letters."
    assert_in_letters(view)
    view.control("Your text").fill("A king")
    view.settle()
    assert_in_letters(view)
    view.page.evaluate("window.let()")
    view.rest()
    assert view.get("reads") == "words"
    assert columns(view) == ["A", "␣king"]


def test_whoever_changes_their_mind_stays_in_letters(mount):
    view = mount(GlassMachine())
    hold_answers(view)
    radio(view, "words").check()
    view.page.wait_for_function("window.held.length === 2")
    radio(view, "letters").check()
    view.page.evaluate("window.let()")
    view.rest()
    assert view.get("reads") == "letters"
    assert note(view) == "Here every character is a token."
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
    assert view.root.get_by_role("button", name="Write", exact=True).is_visible()
    assert drawn < 80
    text = view.get("text")
    assert_shows(view, text, view.get("position"))


def test_python_switches_as_well(mount):
    view = mount(GlassMachine(text=TEXT))
    view.set(reads="words", position=2)
    view.rest()
    assert_shows(view, TEXT, 2)
    assert view.root.get_by_role("button", name="One token", exact=True).is_visible()
    view.set(reads="letters", position=2)
    view.rest()
    assert "position 2" in view.says
    assert view.root.get_by_role("button", name="One character", exact=True).is_visible()


def test_it_is_accessible_and_fits_a_phone(mount, shoot):
    view = mount(GlassMachine(reads="words", text=LONG))
    open_part(view)
    assert view.axe_violations() == []
    shoot("glass-words")
    for width in (390, 360):
        view.page.set_viewport_size({"width": width, "height": 900})
        view.rest()
        assert view.overflow() <= 0
        assert len(columns(view)) >= 5
        widths = view.root.locator("[data-part='text'] .gf-cells span").evaluate_all(
            "all => all.map((e) => e.clientWidth)"
        )
        assert min(widths) >= 44
        shoot(f"glass-words-{width}")


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)])
def test_on_every_step_of_the_tour_the_text_is_in_view_and_its_buttons_stay(mount, width, height):
    view = mount(GlassMachine(), width=width)
    view.page.set_viewport_size({"width": width, "height": height})
    view.page.evaluate(
        "document.body.style.cssText = 'padding: 300px 16px 900px; max-width: 710px; margin: auto'"
    )
    view.root.get_by_role("button", name="Take the tour: six steps").press("Enter")
    places = set()
    for _ in range(6):
        view.rest()
        places.add(view.root.get_by_role("group", name="The tour").bounding_box()["y"])
        box = view.root.locator("[data-part='text']").bounding_box()
        panel = view.root.locator(".gf-machine-panel").bounding_box()
        end = panel["y"] if width == 390 else height
        assert 0 <= box["y"] < box["y"] + box["height"] <= end, view.get("part")
        view.page.keyboard.press("Enter")
    if width == 1280:  # on a phone, the panel is a sheet at the bottom of the screen
        assert len(places) == 1, f"the button for the next step moves: {sorted(places)}"


# --- from Python ---


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"reads": "syllables"}, "reads"),
        ({"reads": "words", "text": "a 7"}, r"text\[2\]='7' is not one of the 65 characters"),
        ({"reads": "words", "text": ""}, "text='' has no characters"),
        ({"model": "words"}, r"model='words' reads BytePairTokenizer tokens.*GlassMachine\(reads='words'\)"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(TraitError, match=message):
        GlassMachine(**settings)


READERS = [
    name
    for name in widgets.__all__
    if isinstance(getattr(widgets, name), type) and issubclass(getattr(widgets, name), ModelView)
]


@pytest.mark.parametrize("name", READERS)
def test_every_view_refuses_a_model_of_byte_pairs_by_name(name):
    with pytest.raises(
        TraitError, match="model='words' reads BytePairTokenizer tokens; a view shows characters"
    ):
        getattr(widgets, name)(model="words")


def test_words_belong_to_the_books_letters_alone(monkeypatch):
    view = GlassMachine()
    monkeypatch.setattr(view, "_name", "runs/mine")
    with pytest.raises(
        TraitError, match="reads='words' needs model='shakespeare', but the model is 'runs/mine'"
    ):
        view.reads = "words"
    assert view._file("weights of words") is None
    assert GlassMachine()._words == json.loads(SOURCE.config.to_json())
    assert ModelConfig.from_json(json.dumps(GlassMachine()._words)) == SOURCE.config


def test_a_stored_notebook_stays_small():
    in_letters, in_words = (
        len(json.dumps(GlassMachine(reads=reads)._stored)) for reads in ("letters", "words")
    )
    assert in_words < in_letters
