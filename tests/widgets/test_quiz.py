"""Tests Quiz: right is right, every option explains itself, and a malformed quiz does not load."""

import json

import pytest
from playwright.sync_api import expect
from traitlets import TraitError

from glassformer import contents
from glassformer.widgets import Quiz

SAMPLE = """
[[question]]
text = "What is `q @ k.T`?"

[[question.option]]
text = "The *weights*."
why = "Those come after the softmax, <b>not</b> before."

[[question.option]]
text = "The scores."
correct = true
why = "One number for each query and key."

[[question.option]]
text = "The output, 2*3*4 of it, or 2*3*."
why = "That needs the values too."

[[question]]
text = "Which of these bias the scores?"
multiple = true

[[question.option]]
text = "ALiBi"
correct = true
why = "It subtracts from the scores."

[[question.option]]
text = "RoPE"
why = "It rotates queries and keys."

[[question.option]]
text = "T5"
correct = true
why = "A learned number for each bucket."
"""


@pytest.fixture
def quiz(mount):
    return mount(Quiz.from_toml(SAMPLE))


def feedback(view, question):
    view.settle()
    return view.root.locator(".gf-feedback").nth(question).inner_text().split("\n\n")


def marks(view, question):
    view.settle()
    return view.root.locator("fieldset").nth(question).locator(".gf-mark").all_inner_texts()


def test_a_choice_is_answered_at_once(quiz):
    assert quiz.says == "2 questions, none answered yet."
    assert feedback(quiz, 0) == [""]
    quiz.control("The weights.").check()
    assert feedback(quiz, 0) == ["✗ No. Those come after the softmax, <b>not</b> before."]
    assert marks(quiz, 0) == ["✗", "", ""]
    assert quiz.says == "0 of 2 right, 0 at the first try."
    quiz.control("The scores.").check()
    assert feedback(quiz, 0) == ["✓ Right. One number for each query and key."]
    assert marks(quiz, 0) == ["✗", "✓", ""]
    assert quiz.says == "1 of 2 right, 0 at the first try."
    assert feedback(quiz, 1) == [""]
    assert quiz.saved() == {"answers": [[[0], [1]], []]}
    assert quiz.widget.first_try() == 0


def test_right_at_the_first_try_counts_even_if_one_looks_further(quiz):
    quiz.control("The scores.").check()
    assert quiz.says == "1 of 2 right, 1 at the first try."
    quiz.control("The output, 2*3*4 of it, or 2*3*.").check()
    assert feedback(quiz, 0) == ["✗ No. That needs the values too."]
    assert quiz.says == "1 of 2 right, 1 at the first try."
    quiz.saved()
    assert quiz.widget.first_try() == 1


def test_arrows_move_and_space_chooses(quiz):
    quiz.page.keyboard.press("Tab")
    for key in ["ArrowDown", "ArrowDown", "ArrowDown", "ArrowUp", "ArrowUp"]:
        quiz.page.keyboard.press(key)  # three down comes round to the first, two up to the second
    assert quiz.get("answers") == [[], []]
    quiz.page.keyboard.press("Space")
    assert quiz.get("answers") == [[[1]], []]
    assert feedback(quiz, 0) == ["✓ Right. One number for each query and key."]


def test_several_right_options_are_ticked_then_checked(quiz):
    check = quiz.root.get_by_role("button", name="Check")
    quiz.press("ALiBi", "Space")
    quiz.press("RoPE", "Space")
    assert quiz.get("answers") == [[], []]
    check.press("Enter")
    assert feedback(quiz, 1) == [
        "✓ Right. “ALiBi”: It subtracts from the scores.",
        "✗ No. “RoPE”: It rotates queries and keys.",
        "1 more applies.",
    ]
    assert quiz.says == "0 of 2 right, 0 at the first try."
    quiz.press("T5", "Space")
    check.press("Enter")
    assert quiz.says == "0 of 2 right, 0 at the first try."  # all, and one too many
    quiz.press("RoPE", "Space")
    check.press("Enter")
    assert feedback(quiz, 1) == [
        "✓ Right. “ALiBi”: It subtracts from the scores.",
        "✓ Right. “T5”: A learned number for each bucket.",
    ]
    assert quiz.says == "1 of 2 right, 0 at the first try."
    assert quiz.saved() == {"answers": [[], [[0, 1], [0, 1, 2], [0, 2]]]}


def test_a_quoted_option_does_not_end_its_sentence(mount):
    quiz = mount(
        Quiz.from_toml(SAMPLE.replace('"ALiBi"', '"It is ALiBi."').replace('"T5"', '"T5: *learned.*"'))
    )
    for option in ("It is ALiBi.", "T5: learned."):
        quiz.control(option).check()
    quiz.root.get_by_role("button", name="Check").press("Enter")
    assert [line.partition("”")[0] for line in feedback(quiz, 1)] == [
        "✓ Right. “It is ALiBi",
        "✓ Right. “T5: learned.",
    ]


def test_checking_nothing_says_what_to_do(quiz):
    quiz.root.get_by_role("button", name="Check").press("Enter")
    assert feedback(quiz, 1) == ["Tick what applies, then check."]


def test_start_again(quiz):
    quiz.control("The weights.").check()
    again = quiz.root.get_by_role("button", name="Start again")
    again.press("Enter")
    sure = quiz.root.get_by_role("button", name="Forget my answers")
    expect(sure).to_be_focused()
    sure.blur()
    expect(again).to_be_visible()  # the question is taken back
    assert marks(quiz, 0) != ["", "", ""]
    again.press("Enter")
    sure.press("Enter")
    assert quiz.says == "2 questions, none answered yet."
    assert feedback(quiz, 0) == [""]
    assert marks(quiz, 0) == ["", "", ""]
    expect(quiz.control("The weights.")).not_to_be_checked()
    assert quiz.saved() == {"answers": [[], []]}


def test_starting_again_right_after_a_choice_takes_it_back(quiz):
    quiz.root.evaluate("""root => {
      root.querySelector("input").click();
      [...root.querySelectorAll("button")].find((button) => button.textContent === "Start again").click();
      document.activeElement.click(); // it asks first
    }""")
    quiz.settle()
    assert quiz.root.locator("input:checked").count() == 0
    assert quiz.saved() == {"answers": [[], []]}


def test_answers_come_back_with_the_notebook(mount):
    quiz = Quiz.from_toml(SAMPLE)
    quiz.answers = [[[0]], [[0, 2]]]
    view = mount(quiz)
    assert view.says == "1 of 2 right, 1 at the first try."
    expect(view.control("The weights.")).to_be_checked()
    assert feedback(view, 0)[0].startswith("✗ No.")
    assert marks(view, 1) == ["✓", "", "✓"]


# --- the browser keeps the answers ---------------------------------------------------------------------------


def test_answers_are_there_when_the_reader_comes_back(again):
    first = again(Quiz.from_toml(SAMPLE))
    first.control("The weights.").check()
    first.control("The scores.").check()
    first.settle()
    back = again(Quiz.from_toml(SAMPLE))
    assert back.says == "1 of 2 right, 0 at the first try."
    assert feedback(back, 0)[0].startswith("✓ Right.")
    assert marks(back, 0) == ["✗", "✓", ""]
    assert back.saved() == {"answers": [[[0], [1]], []]}  # and Python knows


def test_start_again_forgets_what_the_browser_kept(again):
    view = again(Quiz.from_toml(SAMPLE))
    view.control("The weights.").check()
    view.root.get_by_role("button", name="Start again").press("Enter")
    view.root.get_by_role("button", name="Forget my answers").press("Enter")
    view.settle()
    assert again(Quiz.from_toml(SAMPLE)).says == "2 questions, none answered yet."
    assert view.page.evaluate("localStorage.length") == 0


def test_answers_to_other_questions_are_not_taken_for_answers_to_these(again):
    view = again(Quiz.from_toml(SAMPLE))
    view.control("The weights.").check()
    view.settle()
    other = Quiz.from_toml(changed("The *weights*.", "The weights, scaled."))
    assert again(other).says == "2 questions, none answered yet."


def test_answers_that_python_has_come_first(again):
    view = again(Quiz.from_toml(SAMPLE))
    view.control("The weights.").check()
    view.settle()
    quiz = Quiz.from_toml(SAMPLE)
    quiz.answers = [[[2]], []]
    assert again(quiz).get("answers") == [[[2]], []]


def test_what_is_no_answer_is_not_recalled(again):
    asked = [
        [one["text"], *(option["text"] for option in one["options"])]
        for one in Quiz.from_toml(SAMPLE).questions
    ]
    tampered = (7, [[]], [[[0]], 7], [[["0"]], []], [[[3]], []], [[[-1]], []], [[0], []])
    for kept in (
        "null",
        "nonsense",
        *(json.dumps({"asked": asked, "answers": answers}) for answers in tampered),
    ):
        again(Quiz.from_toml(SAMPLE)).page.evaluate(
            "kept => localStorage.setItem('glassformer.quiz: What is `q @ k.T`?', kept)", kept
        )
        assert again(Quiz.from_toml(SAMPLE)).says == "2 questions, none answered yet."


def test_where_nothing_may_be_kept_the_quiz_works_and_promises_nothing(quiz):
    assert quiz.page.evaluate("() => { try { return !localStorage } catch { return true } }")
    assert "browser" not in quiz.root.locator(".gf-hint").first.inner_text()
    quiz.control("The weights.").check()
    assert quiz.says == "0 of 2 right, 0 at the first try."


def test_python_can_ask_other_questions(quiz):
    quiz.control("The scores.").check()
    quiz.saved()
    quiz.set(questions=quiz.widget.questions[1:])
    assert quiz.says == "Not answered yet."
    expect(quiz.root.locator("fieldset")).to_have_count(1)


def test_code_and_emphasis_are_elements_and_all_else_is_text(quiz):
    assert quiz.root.locator("code").all_inner_texts() == ["q @ k.T"]
    assert quiz.root.locator("em").all_inner_texts() == ["weights"]
    quiz.control("The weights.").check()
    assert "<b>not</b>" in feedback(quiz, 0)[0]


@pytest.mark.parametrize("width", [900, 360])
def test_accessible_in_both_themes_and_on_a_phone(mount, shoot, width):
    view = mount(Quiz.from_toml(SAMPLE), width=width)
    assert view.axe_violations() == []
    view.control("The weights.").check()
    view.control("ALiBi").check()
    view.root.get_by_role("button", name="Check").click()
    view.settle()
    shoot(f"quiz-{width}")
    assert view.axe_violations() == []
    assert view.overflow() == 0
    for option in view.root.locator(".gf-option, button").all():
        assert option.bounding_box()["height"] >= 24


# --- quizzes that are not well made -------------------------------------------------------------------------


def changed(old, new):
    assert old in SAMPLE
    return SAMPLE.replace(old, new, 1)


WHY = "One number for each query and key."
NONE_OF_MANY = changed('"ALiBi"\ncorrect = true', '"ALiBi"').replace('"T5"\ncorrect = true', '"T5"')
ONE_OPTION = """
[[question]]
text = "?"
[[question.option]]
text = "a"
why = "b"
correct = true
"""

BAD = {
    "two right options": (
        changed('why = "That needs', 'correct = true\nwhy = "That needs'),
        "question 1 has 2 right options; it needs exactly 1, unless `multiple` is true",
    ),
    "no right option": (changed("correct = true\n", ""), "question 1 has 0 right options"),
    "none of many": (NONE_OF_MANY, "question 2 has no right option"),
    "no explanation": (changed(f'why = "{WHY}"', ""), "question 1, option 2 has no 'why'"),
    "an empty explanation": (changed(WHY, "  "), "question 1, option 2 has no 'why'"),
    "no question": (changed("Which of these bias the scores?", ""), "question 2 has no 'text'"),
    "a misspelt key": (changed("correct =", "corect ="), "question 1, option 2 has an unknown key 'corect'"),
    "a word for true": (
        changed("correct = true", 'correct = "yes"'),
        "question 1, option 2: correct='yes' should be true or false",
    ),
    "one option": (ONE_OPTION, "question 1 has 1 options, but it needs at least 2"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_quiz_that_is_not_well_made_does_not_load(case):
    text, message = BAD[case]
    with pytest.raises(TraitError, match=message):
        Quiz.from_toml(text)


def test_a_file_of_something_else_does_not_load():
    with pytest.raises(ValueError, match=r"a quiz is a list of \[\[question\]\] tables"):
        Quiz.from_toml("[[exercise]]\ntext = 'x'")


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ([[]], "answers has 1 entries for 2 questions"),
        ([[[3]], []], "answers: question 1 has no option 3"),
        ([[[-1]], []], "-1"),
    ],
)
def test_impossible_answers_raise(answers, message):
    quiz = Quiz.from_toml(SAMPLE)
    with pytest.raises(TraitError, match=message):
        quiz.answers = answers


def test_a_chapter_without_a_quiz():
    with pytest.raises(ValueError, match=r"chapter='99' has no quiz; these chapters have one: .*04"):
        Quiz.load("99")


@pytest.mark.parametrize("chapter", [one.number for one in contents.chapters()])
def test_the_books_quizzes_do_not_give_themselves_away(chapter):
    """tests/site/test_widgets.py chooses every option of theirs."""
    questions = Quiz.load(chapter).questions
    assert len(questions) >= 6
    right = [i for q in questions for i, o in enumerate(q["options"]) if o.get("correct")]
    assert len(set(right)) >= 3, "the right option is nearly always in the same place"
