"""Tests the field for the reader's own text: the text is kept, what the model does not know is marked and skipped."""

import itertools

import numpy as np
import pytest

from glassformer import shipped
from glassformer.chapters.ch03.attention_explorer import AttentionExplorer
from glassformer.chapters.ch05.logit_lens import LogitLens
from glassformer.chapters.ch06.neuron_explorer import NeuronExplorer
from glassformer.chapters.ch07.ablation_board import AblationBoard
from glassformer.chapters.ch11.beam_tree import BeamTree
from glassformer.chapters.ch11.sampling_lab import SamplingLab
from glassformer.chapters.ch12.date_translator import DateTranslator
from glassformer.chapters.ch12.fill_in import FillIn
from glassformer.chapters.ch18.router_view import RouterView
from glassformer.widgets import GlassMachine, LiveWriter

_, TOKENIZER = shipped.load()
KNOWN = TOKENIZER.characters
FAMILY = "\N{MAN}\N{ZERO WIDTH JOINER}\N{WOMAN}\N{ZERO WIDTH JOINER}\N{GIRL}"
ARABIC = "السلام"

# What a reader may type, what the model reads of it, and the sentence under the field.
TEXTS = {
    "known": ("To be", "To be", ""),
    "digits": (
        "I'm 25 and I love pizza",
        "I'm  and I love pizza",
        "The model has never seen 2 or 5, so it skips them.",
    ),
    "emoji": ("pizza 🍕!", "pizza !", "The model has never seen 🍕, so it skips it."),
    "joined emoji": (f"we {FAMILY}", "we ", f"The model has never seen {FAMILY}, so it skips it."),
    "accents": ("Café olé", "Caf ol", "The model has never seen é, so it skips it."),
    "combining marks": ("Cafe\u0301 to", "Caf to", "The model has never seen \u00e9, so it skips it."),
    "markup": (
        "<b>O</b>",
        "bO/b".replace("/", ""),
        "The model has never seen “<”, “>” or “/”, so it skips them.",
    ),
    "300 characters": ("To be or not to be, " * 15, "To be or not to be, " * 15, ""),
    "empty": (
        "",
        "\n",
        "Your text is empty, so the model starts from a line break, as at the beginning of a play.",
    ),
    "right to left": (
        f"O {ARABIC}!",
        "O !",
        "The model has never seen ا, ل, س or م, so it skips them.",
    ),
    "line breaks": ("To be,\n\nor not", "To be,\n\nor not", ""),
    "tabs": ("A\thorse", "Ahorse", "The model has never seen a tab, so it skips it."),
    "invisible": ("A\u200bhorse", "Ahorse", "The model has never seen U+200B, so it skips it."),
    "5,000 characters": ("My kingdom for a horse! 7 " * 200, "My kingdom for a horse!  " * 200, ""),
    "only unknown": (
        "124",
        "\n",
        "The model has never seen 1, 2 or 4, so it skips them. With nothing left to read, it starts from a line break, "
        "as at the beginning of a play.",
    ),
    "many unknown": (
        "012456789",
        "\n",
        "The model has never seen 0, 1, 2, 4, 5 or 4 other characters in your text, so it skips them. With nothing "
        "left to read, it starts from a line break, as at the beginning of a play.",
    ),
}


def field(view):
    return view.root.locator("textarea.gf-own-field")


def note(view):
    return view.root.locator(".gf-own-note").inner_text()


@pytest.mark.parametrize(("typed", "read", "says"), TEXTS.values(), ids=TEXTS)
def test_what_the_model_reads_of_a_text(call, typed, read, says):
    assert call("text_field", "readOf", typed, KNOWN) == read
    if says:
        assert "".join(call("text_field", "remark", typed, KNOWN)) == says
    parts = call("text_field", "runs", typed, KNOWN)
    assert "".join(part["text"] for part in parts) == typed
    assert all(set(part["text"]) <= set(KNOWN) for part in parts if part["known"])
    assert all(a["known"] != b["known"] for a, b in itertools.pairwise(parts))


def test_a_model_without_line_breaks_starts_from_its_first_character(call):
    assert call("text_field", "readOf", "", "xyz") == "x"
    assert call("text_field", "remark", "", "xyz") == ["Your text is empty, so the model starts from x."]


@pytest.mark.parametrize("name", ["empty", "digits", "known", "only unknown"])
def test_what_the_model_writes_comes_after_the_whole_text(call, name):
    typed, read, _ = TEXTS[name]
    longer = call("text_field", "continued", typed, "so", KNOWN)
    assert longer.startswith(typed)
    assert call("text_field", "readOf", longer, KNOWN) == read + "so"


VIEWS = {
    "glass machine": GlassMachine,
    "writer": lambda: LiveWriter(pace=10_000),
    "attention": AttentionExplorer,
    "lens": LogitLens,
    "neurons": NeuronExplorer,
    "ablation": AblationBoard,
    "beams": BeamTree,
    "sampling": SamplingLab,
    "dates": DateTranslator,
    "masked": FillIn,
    "router": RouterView,
}


@pytest.fixture
def calm(page):
    """Nothing moves by itself: a writer that plays asks for its model before the file can be refused."""
    page.emulate_media(reduced_motion="reduce")
    yield
    page.emulate_media(reduced_motion="no-preference")


@pytest.mark.sampled(6)
@pytest.mark.parametrize("make", VIEWS.values(), ids=VIEWS)
@pytest.mark.usefixtures("calm")
def test_every_view_keeps_the_text_marks_the_unknown_and_answers(mount, make):
    view = mount(make())
    view.refuse()
    field(view).fill("Ay, ay")
    assert "The model could not be loaded. Not today." in view.says
    view.page.evaluate("window.mend()")
    for typed in ("I'm 25 and I love 🍕 <b>", "", "é" * 3, "O " * 150):
        field(view).fill(typed)
        view.settle()
        assert field(view).input_value() == typed
        known = [c for c in typed if c in view.widget._characters]
        marked = "".join(view.root.locator(".gf-unknown").all_text_contents())
        assert marked == "".join(c for c in typed if c not in view.widget._characters)
        assert bool(marked) == note(view).startswith("The model has never seen")
        said = view.says
        assert said
        assert not any(waits in said for waits in ("did not come", "on its way", "Reading:", "Translating"))
        assert view.get("text")
        assert set(view.get("text")) <= set(known or view.widget._characters)
    assert view.saved()["typed"] == typed
    described = field(view).get_attribute("aria-describedby")
    assert view.root.locator(f"#{described}").get_attribute("aria-live") == "polite"
    assert view.axe_violations() == []


MARKS = """(field) => {
  // Where the browser draws the text that the glass has over a copy of the field's text, and where the field scrolls.
  const marks = field.parentElement.querySelector(".gf-own-marks");
  const [a, b] = [getComputedStyle(field), getComputedStyle(marks)];
  const same = ["fontFamily", "fontSize", "lineHeight", "paddingLeft", "paddingTop", "whiteSpace", "overflowWrap",
    "letterSpacing", "tabSize", "wordBreak", "direction", "textAlign", "fontKerning"];
  const box = marks.getBoundingClientRect();
  const own = field.getBoundingClientRect();
  return {
    differ: same.filter((name) => a[name] !== b[name]),
    left: box.left - own.left - field.clientLeft,
    top: box.top - own.top - field.clientTop + field.scrollTop,
    width: box.width - field.clientWidth,
    height: Math.max(box.height, field.clientHeight) - field.scrollHeight,
  };
}"""


@pytest.mark.weekly
@pytest.mark.parametrize("width", [390, 900])
def test_marks_lie_on_the_text(mount, width):
    """The glass and the field break the same lines: their contents have the same height at the same width."""
    view = mount(GlassMachine(), width=width)
    for name, typed in [(name, typed) for name, (typed, _, says) in TEXTS.items() if says or "5,000" in name]:
        field(view).fill(typed * (1 if len(typed) > 1000 else 12))
        for act in ("style = ''", "scrollTop = 1e6", "style.height = '180px', field.style.width = '70%'"):
            field(view).evaluate(f"(field) => void (field.{act})")
            view.rest()
            found = field(view).evaluate(MARKS)
            assert found.pop("differ") == [], name
            np.testing.assert_allclose(list(found.values()), 0, atol=1.01, err_msg=f"{name}: {found}")


def test_marks_are_there_in_forced_colours(mount, page, shoot):
    view = mount(GlassMachine())
    field(view).fill("I'm 25 and I love 🍕")
    view.rest()
    shoot("text-field")
    page.emulate_media(forced_colors="active")
    try:
        mark = view.root.locator(".gf-unknown").first
        assert mark.evaluate("e => getComputedStyle(e).color") == "rgba(0, 0, 0, 0)"
        assert "wavy" in mark.evaluate("e => getComputedStyle(e).textDecoration")
    finally:
        page.emulate_media(forced_colors="none")
