"""Tests Predict: it takes an answer by keyboard and says what came out without judging it."""

import re

import numpy as np
import pytest
from playwright.sync_api import expect
from traitlets import TraitError

from glassformer import contents
from glassformer.widgets import Predict

NUMBER = {
    **{"question": "What is the probability at *temperature* 2?", "kind": "number"},
    **{"from": 0.0, "to": 1.0, "step": 0.01, "answer": 0.41, "axis": "probability"},
}
POINT = {
    **{"question": "How long does a step take?", "kind": "point", "from": 0, "to": 1000, "step": 10},
    **{"answer": 240, "axis": "time", "unit": "ms"},
    "marks": [{"at": 16, "label": "a frame"}, {"at": 900, "label": "a heartbeat"}],
}
CHOICE = {
    **{"question": "Where does `attention` look?", "kind": "choice", "answer": 1},
    "options": ["the first letter", "the character *just before*", "everywhere"],
}
ORDER = {
    **{"question": "What hurts most?", "kind": "order", "answer": [2, 0, 1]},
    "options": ["leave one out", "run one twice", "turn all around"],
}
KINDS = {"number": NUMBER, "point": POINT, "choice": CHOICE, "order": ORDER}
ANSWERS = {"number": [0.6], "point": [30], "choice": [2], "order": [1, 2, 0]}
BELOW = "Open the heading below to see the rest."  # there is none on a blank page


def asked(table):
    return Predict(table, name="one", chapter="99")


def show(view):
    view.root.get_by_role("button", name="Show", exact=True).press("Enter")
    view.settle()


def outcome(view):
    """Returns the sentence about what came out, which has the focus, without the words about the fold."""
    expect(view.root.locator(".gf-says")).to_be_focused()
    return view.says.removesuffix(BELOW).strip()


def plea(view):
    view.settle()
    return view.root.locator(".gf-plea").inner_text()


def test_a_number_is_typed_and_entered(mount):
    view = mount(asked(NUMBER))
    assert "0.41" not in view.root.inner_text()
    view.press("Your number", "0", ".", "6", "Enter")
    assert outcome(view) == "You said 0.60; it came out as 0.41."
    assert view.saved() == {"committed": [0.6], "shown": True}
    assert view.widget.committed == [0.6]
    pins = view.root.locator(".gf-panel:not(.gf-away) .gf-pin").all_inner_texts()
    assert pins == ["your answer: 0.60", "what came out: 0.41"]


def test_a_number_is_chosen_with_the_slider(mount):
    view = mount(asked(NUMBER))
    slider = view.control("probability")
    assert slider.get_attribute("aria-valuetext") == "not chosen yet"
    view.press("probability", "Home", "ArrowRight")
    assert slider.get_attribute("aria-valuetext") == "0.01"
    assert view.control("Your number").input_value() == "0.01"
    view.press("probability", "Enter")
    assert outcome(view) == "You said 0.01; it came out as 0.41."


def test_the_middle_of_the_slider_is_an_answer_only_if_it_is_chosen(mount):
    view = mount(asked(NUMBER))
    show(view)
    assert plea(view) == "Choose a number first, with the slider or in the field. A guess is enough."
    view.control("probability").click()
    show(view)
    assert outcome(view).startswith("You said 0.50")


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ("2", "The axis goes from 0 to 1. Choose a number on it."),
        ("-1", "The axis goes from 0 to 1. Choose a number on it."),
        ("1e", "That is not a number. Type one with digits, such as 0."),
        ("", "Choose a number first, with the slider or in the field. A guess is enough."),
    ],
)
def test_an_impossible_number_gets_a_plain_sentence(mount, typed, sentence):
    view = mount(asked(NUMBER))
    view.press("Your number", *typed, "Enter")
    assert plea(view) == sentence
    expect(view.control("Your number")).to_be_focused()
    assert view.get("shown") is False
    assert view.saved() == {}


def test_a_point_on_an_axis_with_named_marks(mount):
    view = mount(asked(POINT))
    marks = view.root.locator("form .gf-place").all_inner_texts()
    assert marks == ["a frame", "a heartbeat"]
    show(view)
    assert plea(view) == "Choose a point on the axis first. A guess is enough."
    view.press("time (ms)", "End", "Enter")
    assert outcome(view) == "You said 1,000 ms; it came out as 240 ms."


def test_marks_are_where_their_numbers_are(mount):
    view = mount(asked(POINT))
    view.press("time (ms)", "End", "Enter")
    axis = view.root.locator(".gf-panel:not(.gf-away) .gf-line").bounding_box()
    places = view.root.locator(".gf-panel:not(.gf-away) .gf-pin").evaluate_all(
        "pins => pins.map((pin) => pin.getBoundingClientRect().x)"
    )
    np.testing.assert_allclose([(x - axis["x"]) / axis["width"] for x in places], [1, 0.24], atol=0.005)


BETWEEN = [(2, 1.8), (2, 2.1), (2, 2)]  # on a phone, neither side of the middle has room for a name
ASIDE = [(3.2, 2.9), (3.2, 3.4), (0.2, 0.3)]


@pytest.mark.parametrize(
    ("width", "answer", "said"),
    [*((700, *pair) for pair in BETWEEN + ASIDE), *((360, *pair) for pair in ASIDE)],
)
def test_no_mark_crosses_the_name_of_the_other(mount, width, answer, said):
    question = Predict(NUMBER | {"to": 4.0, "answer": answer}, name="one", chapter="99")
    question.committed, question.shown = [said], True
    view = mount(question, width=width)
    view.settle()
    boxes = view.root.locator(".gf-panel:not(.gf-away) .gf-pin").evaluate_all(
        "pins => pins.map((pin) => [pin, pin.firstChild].map((one) => one.getBoundingClientRect().toJSON()))"
    )
    (_, name), (higher, other) = sorted(boxes, key=lambda both: -both[1]["bottom"])
    assert other["bottom"] <= name["top"] + 1
    padding = 5
    assert not name["x"] + padding < higher["x"] < name["right"] - padding
    assert 0 < name["x"] + padding < name["right"] - padding < width
    assert view.overflow() == 0


def test_a_choice(mount):
    view = mount(asked(CHOICE))
    show(view)
    assert plea(view) == "Choose one of the options first. A guess is enough."
    view.press("everywhere", "Space", "Enter")
    assert outcome(view) == "You said “everywhere”; it came out as “the character just before”."
    rows = view.root.locator(".gf-panel:not(.gf-away) .gf-outcome li").all_inner_texts()
    assert [re.sub(r"\s+", " ", row) for row in rows] == [
        "the first letter",
        "the character just before what came out",
        "everywhere your answer",
    ]


def test_a_choice_without_an_answer_calls_nothing_right(mount):
    view = mount(asked({key: value for key, value in CHOICE.items() if key != "answer"}))
    view.press("everywhere", "Space", "Enter")
    assert outcome(view) == "You said “everywhere”. What came out is below."
    assert view.root.locator(".gf-panel:not(.gf-away) .gf-came").count() == 0


def test_an_order_by_keyboard(mount):
    view = mount(asked(ORDER))
    show(view)  # as the list begins
    assert plea(view) == "Move at least one line first. A guess is enough."
    assert view.get("shown") is False
    up = view.root.get_by_role("button", name="Move turn all around up")
    up.press("Enter")
    expect(up).to_be_focused()
    expect(view.root.locator(".gf-told")).to_have_text("turn all around is now number 2 of 3.")
    up.press("Space")
    up.press("Space")  # already at the top: it keeps the focus
    expect(up).to_be_focused()
    show(view)
    assert outcome(view) == "You put them in this order, and this is how it came out."
    assert view.saved()["committed"] == [2, 0, 1]


def test_the_same_answer_is_not_praised(mount):
    view = mount(asked(NUMBER))
    view.press("Your number", "0", ".", "4", "1", "Enter")
    assert outcome(view) == "You said 0.41, and it came out as 0.41."


@pytest.mark.parametrize("kind", KINDS)
def test_no_answer_is_judged(mount, kind):
    view = mount(asked(KINDS[kind]))
    view.root.get_by_role("button", name="Just show me").press("Enter")
    assert view.get("shown") is True
    assert view.get("committed") == []
    words = view.root.inner_text().lower()
    assert not re.search(r"wrong|correct|right|mistake|well done|✓|✗|your answer:", words)


@pytest.mark.parametrize("kind", KINDS)
def test_change_keeps_the_answer_and_forget_does_not(mount, kind):
    view = mount(asked(KINDS[kind]))
    view.set(committed=ANSWERS[kind], shown=True)
    before = view.now("committed")
    view.root.get_by_role("button", name="Change my answer").press("Enter")
    assert view.get("shown") is False
    show(view)
    assert view.get("committed") == before
    view.root.get_by_role("button", name="Forget my answer").press("Enter")
    view.root.get_by_role("button", name="Forget it for good").press("Enter")
    assert (view.get("committed"), view.get("shown")) == ([], False)


# The height of the card, and the largest gap in it: between neighbours of what is visible, and at its foot.
GAPS = """(root) => {
  const { height, bottom: foot } = root.getBoundingClientRect();
  const panel = root.querySelector(".gf-panel:not(.gf-away)");
  const parts = [root.querySelector(".gf-hint"), ...panel.children].map((part) => part.getBoundingClientRect());
  const gaps = parts.map(({ bottom }, i) => (parts[i + 1]?.top ?? foot) - bottom);
  return [height, Math.max(...gaps)];
}"""


@pytest.mark.parametrize("kind", KINDS)
def test_it_keeps_no_empty_space_and_nothing_above_the_answer_moves(mount, kind):
    view = mount(asked(KINDS[kind]))
    hint = view.root.locator(".gf-hint")
    for width in (360, 900):
        view.page.set_viewport_size({"width": width, "height": 900})
        view.set(committed=[], shown=False)
        height, gap = view.root.evaluate(GAPS)
        assert gap < 0.1 * height
        before = hint.bounding_box()
        view.set(committed=ANSWERS[kind], shown=True)
        height, gap = view.root.evaluate(GAPS)
        assert gap < 0.1 * height
        assert hint.bounding_box() == before
        assert view.overflow() == 0


@pytest.mark.parametrize("kind", KINDS)
def test_targets_are_large_enough_and_axe_finds_nothing(mount, kind, shoot):
    view = mount(asked(KINDS[kind]), width=390)
    targets = view.root.locator("form button, form input:not([type=radio]), form label.gf-option")
    for box in [target.bounding_box() for target in targets.all()]:
        assert min(box["width"], box["height"]) >= 24
    assert view.axe_violations() == []
    shoot(f"predict-{kind}-asked")
    view.set(committed=ANSWERS[kind], shown=True)
    assert view.axe_violations() == []
    shoot(f"predict-{kind}-shown")


NEXT_CELL = """(root, button) => {
  root.classList.add("jp-Cell");
  const next = document.createElement("section");
  next.className = "jp-Cell";
  next.innerHTML = `${button}<div class="jp-RenderedMarkdown"><h4>Count them</h4></div>`;
  next.querySelector("button")?.addEventListener("click", ({ target }) => target.classList.toggle("jp-mod-collapsed"));
  root.after(next);
}"""


def test_in_a_notebook_it_presses_the_button_of_the_next_heading(mount):
    view = mount(asked(CHOICE))
    button = '<button class="jp-collapseHeadingButton jp-mod-collapsed" aria-label="Fold"></button>'
    view.root.evaluate(NEXT_CELL, button)
    view.root.get_by_role("button", name="Just show me").press("Enter")
    assert view.says == "It came out as “the character just before”."
    expect(view.page.locator("section button")).not_to_have_class(re.compile("jp-mod-collapsed"))
    view.root.get_by_role("button", name="Forget my answer").press("Enter")
    expect(view.page.locator("section button")).to_have_class(re.compile("jp-mod-collapsed"))


def test_in_a_notebook_without_that_button_it_names_the_heading(mount):
    view = mount(asked(CHOICE))
    view.root.evaluate(NEXT_CELL, "")
    view.root.get_by_role("button", name="Just show me").press("Enter")
    assert view.says.endswith("Open the heading “Count them” below to see the rest.")


def test_an_answer_is_there_when_the_reader_comes_back_and_is_none_to_another_question(again):
    view = again(asked(CHOICE))
    view.control("everywhere").check()
    show(view)
    assert again(asked(CHOICE)).says.startswith("You said “everywhere”")
    assert again(asked(CHOICE | {"question": "Where does it look now?"})).says == ""


NO_ANSWERS = [
    *(("number", [2]), ("number", ["0.6"]), ("number", [0.6, 0.7])),
    *(("point", [-1]), ("choice", [3]), ("order", [0, 0, 1])),
]


@pytest.mark.parametrize(("kind", "committed"), NO_ANSWERS)
def test_what_is_no_answer_is_not_recalled(again, page, kind, committed):
    view = again(asked(KINDS[kind]))
    view.root.get_by_role("button", name="Just show me").press("Enter")
    tamper = """committed => {
        const [key] = Object.keys(localStorage);
        localStorage[key] = JSON.stringify({ ...JSON.parse(localStorage[key]), committed });
    }"""
    page.evaluate(tamper, committed)
    view = again(asked(KINDS[kind]))
    assert (view.get("committed"), view.get("shown")) == ([], True)


# --- the table ---


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (NUMBER | {"kind": "guess"}, "kind='guess' must be one of choice, number, order, point"),
        (NUMBER | {"question": " "}, "question=' ' must be a text that is not empty"),
        (NUMBER | {"options": ["a"]}, "options=['a'] is not a key of a number"),
        (NUMBER | {"from": 1}, "from=1 must be less than to=1.0"),
        (NUMBER | {"to": "1"}, "to='1' must be a number"),
        (NUMBER | {"step": 0}, "step=0 must be more than 0"),
        (NUMBER | {"step": 2}, "step=2 must be more than 0 and no more than the length of the axis"),
        (NUMBER | {"answer": 1.5}, "answer=1.5 must be a number from 0 to 1"),
        (NUMBER | {"answer": float("nan")}, "answer=nan must be a number"),
        (NUMBER | {"axis": ""}, "axis='' must be a text"),
        (
            NUMBER | {"axis": "rise (nats)", "unit": "nats"},
            "axis='rise (nats)' must not name the unit 'nats'",
        ),
        (POINT | {"marks": [{"at": 2000, "label": "far"}]}, "must be a list of { at = a number on the axis"),
        (POINT | {"marks": [{"at": 2, "label": "x" * 33}]}, "label = up to 32 characters }"),
        (CHOICE | {"options": ["one"]}, "must have from 2 to 7 options"),
        (CHOICE | {"options": ["one", "one"]}, "has the same option twice"),
        (CHOICE | {"answer": 3}, "answer=3 must be the index of an option, from 0 to 2"),
        (CHOICE | {"answer": True}, "answer=True must be the index of an option"),
        (CHOICE | {"step": 1}, "step=1 is not a key of a choice"),
        (ORDER | {"answer": [0, 0, 1]}, "answer=[0, 0, 1] must list each of [0, 1, 2] once"),
        (ORDER | {"answer": [0, 1, 2]}, "must differ from the order of the options"),
        ({key: NUMBER[key] for key in NUMBER if key != "answer"}, "answer=None must be given"),
    ],
)
def test_a_malformed_table_does_not_load(table, message):
    with pytest.raises(ValueError, match=re.escape(message)) as raised:
        asked(table)
    assert "[one]" in str(raised.value)


@pytest.mark.parametrize(
    ("kind", "bad"), [("number", [2.0]), ("point", [-1]), ("choice", [3]), ("order", [0, 1])]
)
def test_an_impossible_answer_is_refused(kind, bad):
    with pytest.raises(TraitError, match="must"):
        asked(KINDS[kind]).committed = bad


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """Makes chapter 99, with four predictions."""
    (tmp_path / "ch99").mkdir()
    (tmp_path / "ch98").mkdir()
    (tmp_path / "ch99" / "predictions.toml").write_text(
        '[hotter]\nquestion = "How much?"\nkind = "number"\nfrom = 0.0\nto = 1.0\nstep = 0.01\nanswer = 0.4\n'
        'axis = "p"\n[looks]\nquestion = "Where?"\nkind = "choice"\noptions = ["here", "there"]\nanswer = 1\n'
        '[ranks]\nquestion = "Which?"\nkind = "order"\noptions = ["a", "b"]\nanswer = [1, 0]\n'
        '[open]\nquestion = "Which?"\nkind = "choice"\noptions = ["a", "b"]\n'
    )
    monkeypatch.setattr(contents, "PLACE", tmp_path)


def test_predictions_are_loaded_by_name(stored):
    view = Predict.load("99", "hotter")
    assert (view.chapter, view.name, view.answer, view.digits) == ("99", "hotter", [0.4], 2)
    with pytest.raises(ValueError, match="name='colder' is not a prediction of chapter 99: hotter, looks"):
        Predict.load("99", "colder")
    with pytest.raises(ValueError, match=r"chapter='98' has no predictions\.toml"):
        Predict.load("98", "hotter")


@pytest.mark.parametrize(
    ("name", "same", "other"),
    [
        ("hotter", [0.4, 0.4049, np.float32(0.3951)], [0.41, 0.406, 0.394, float("nan")]),
        ("looks", [1, "there", np.int64(1)], [0, "here", "nowhere"]),
        ("ranks", [[1, 0], ["b", "a"], np.array([1, 0])], [[0, 1], ["a", "b"], [1]]),
    ],
)
def test_a_stored_answer_is_held_to_what_a_cell_computes(stored, name, same, other):
    for value in same:
        Predict.came_out("99", name, value)
    for value in other:
        with pytest.raises(AssertionError, match=rf"chapter 99, \[{name}\]: answer=.* but the cell computed"):
            Predict.came_out("99", name, value)


def test_an_open_question_has_nothing_to_hold(stored):
    with pytest.raises(ValueError, match="has no answer that could be compared"):
        Predict.came_out("99", "open", 1)


def test_a_notebook_stores_the_question_for_readers_of_text():
    bundle = asked(CHOICE)._repr_mimebundle_()
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    assert data["text/plain"] == "Predict: Where does `attention` look?"
