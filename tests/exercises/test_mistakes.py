"""Tests how a classic mistake is recognised: it gives the same wrong value for the same arguments."""

import dataclasses
import subprocess
import sys
import warnings

import numpy as np
import pytest

from glassformer.exercises import attempt as attempt_module
from glassformer.exercises.attempt import RIGHT, WRONG, attempt
from glassformer.exercises.catalogue import _mistakes, catalogue, find
from glassformer.exercises.exercise import Exercise, Prose
from glassformer.exercises.timelimit import OutOfTime

AMPLE = 60.0  # seconds


def double(x, times=2):
    """The reference of the exercise below."""
    return times * x


@pytest.fixture
def exercise():
    sentences = {
        "square": "You squared it.",
        "tens": "You added ten.",
        "loops": "{letter} loops.",
        "raises": "No.",
    }
    prose = Prose("test.double", "04", "t", "s", 1, 1, why="w", hints=("a", "b", "c"), mistakes=sentences)
    made = Exercise(prose, double)
    made.mistake("raises", lambda x: [][1])
    made.mistake("square", lambda x, times=2: x**times)
    made.mistake("tens", lambda x, times=2: x + 10)
    made.case("two", np.array([2.0]), want=[4.0])
    made.case("ten and three", np.array([10.0]), want=[20.0])
    made.also(np.array([3.0]), want=[6.0])
    made.case("cubes and threefold", np.array([3.0]), times=3, want=[9.0])
    return made


def said(exercise, function):
    return attempt(exercise, function, AMPLE).message


def test_a_mistake_is_named_in_whichever_check_it_shows(exercise):
    assert said(exercise, lambda x, times=2: x**times).endswith(
        "should be [20]; yours is [100]. You squared it."
    )
    # The same mistake, made for one argument only: no check foresaw that.
    assert said(exercise, lambda x, times=2: x**2 if x[0] == 3 else 2 * x).endswith(
        "yours is [9]. You squared it."
    )


def test_what_coincides_with_the_right_answer_on_these_arguments_is_not_named(exercise):
    message = said(exercise, lambda x, times=2: np.array([4.5]))  # 2² = 2·2, 10 + 10 = 2·10
    assert message == "double([2]) should be [4]; yours is [4.5]."
    message = said(exercise, lambda x, times=2: 2 * x if x[0] != 10 else x + 9)
    assert message == "double([10]) should be [20]; yours is [19]."


def test_of_two_mistakes_that_coincide_the_first_is_named(exercise):
    exercise.mistakes.reverse()
    assert said(exercise, lambda x, times=2: x + 10).endswith("yours is [12]. You added ten.")
    exercise.prose.mistakes["also tens"] = "You appended a one."
    exercise.mistake("also tens", lambda x, times=2: 10 + x)
    assert said(exercise, lambda x, times=2: x + 10).endswith("You added ten.")
    exercise.mistakes.insert(0, exercise.mistakes.pop())
    assert said(exercise, lambda x, times=2: x + 10).endswith("You appended a one.")


def test_of_two_mistakes_that_coincide_the_other_calls_tell_which_it_is(exercise):
    exercise.prose.mistakes["hundred"] = "You answered a hundred."
    exercise.mistake("hundred", lambda x, times=2: 0 * x + (100 if x[0] == 10 else 4))
    for function, sentence in (
        (lambda x, times=2: 1.0 * x**times, "You squared it."),
        (lambda x, times=2: 0 * x + (100 if x[0] == 10 else 4), "You answered a hundred."),
    ):
        assert said(exercise, function) == f"double([10]) should be [20]; yours is [100]. {sentence}"
    # No other call is as either mistake has it: then it is the likelier one.
    assert said(exercise, lambda x, times=2: 2 * x if x[0] != 10 else 10 * x).endswith("You squared it.")


def test_all_zeros_are_a_mistake_only_if_they_are_that_mistake_throughout(exercise):
    exercise.prose.mistakes["clipped"] = "You clipped it."
    exercise.mistake("clipped", lambda x, times=2: np.minimum(2 * x, 0))
    assert said(exercise, lambda x, times=2: 0 * x).endswith("You clipped it.")
    exercise.case("negative numbers", np.array([-1.0]), want=[-2.0])
    assert said(exercise, lambda x, times=2: 0 * x) == "double([2]) should be [4]; yours is [0]."
    assert said(exercise, lambda x, times=2: np.minimum(x, 0) * 2).endswith("You clipped it.")


def test_a_value_at_another_place_is_not_the_same(exercise):
    # 3 → 9 is what squaring gives there, and what is said to be wrong here is 10 → 9.
    assert said(exercise, lambda x, times=2: np.array([4.0 if x[0] == 2 else 9.0])) == (
        "double([10]) should be [20]; yours is [9]."
    )


def test_the_name_of_a_mistake_replaces_the_general_advice(exercise):
    exercise.case("with advice", np.array([5.0]), want=[10.0], advice="Think of twins.")
    assert said(exercise, lambda x, times=2: times * x if x[0] < 5 or x[0] == 10 else x) == (
        "double([5]) should be [10]; yours is [5]. Think of twins."
    )
    assert said(exercise, lambda x, times=2: times * x if x[0] < 5 or x[0] == 10 else x**2) == (
        "double([5]) should be [10]; yours is [25]. You squared it."
    )


def test_a_mistake_that_raises_is_known_by_its_error(exercise):
    def with_error(words):
        def answer(x, times=2):
            if x[0] == 10:
                raise ValueError(words)
            return times * x

        return answer

    exercise.prose.mistakes["too short"] = "You forgot a row."
    exercise.mistake("too short", with_error("3 rows, not 4"))
    assert said(exercise, with_error("3 rows, not 4")).endswith("You forgot a row.")
    assert said(exercise, with_error("4 rows, not 5")).endswith(": `raise ValueError(words)`)")


def test_a_verdict_stands_where_its_mistakes_take_too_long(exercise, monkeypatch):
    limits = []

    def call_within(seconds, work):
        limits.append(seconds)
        if len(limits) == 2:
            raise OutOfTime(stopped=True)
        return work()

    monkeypatch.setattr(attempt_module, "call_within", call_within)
    outcome = attempt(exercise, lambda x, times=2: x**times, AMPLE)
    assert limits == [AMPLE, AMPLE]
    assert (outcome.status, outcome.passed) == (WRONG, 1)
    assert outcome.message == "double([10]) should be [20]; yours is [100]."


def test_a_right_answer_meets_no_mistake(exercise):
    def never(x, times=2):
        raise AssertionError

    exercise.prose.mistakes["never"] = "Never."
    exercise.mistake("never", never)
    assert attempt(exercise, double, AMPLE).status == RIGHT


def test_a_mistake_must_have_its_sentence(exercise):
    with pytest.raises(KeyError, match="unheard of"):
        exercise.mistake("unheard of", double)


def test_a_slip_is_the_answer_with_a_piece_of_its_code_replaced(exercise):
    exercise.prose.mistakes["minus"] = exercise.prose.mistakes["halved"] = "You took it away."
    exercise.slip("minus", "times * x", "-times * x")
    exercise.slip("halved", "times * x", "half * x", half=0.5)
    assert [one.function(np.array([3.0])).item() for one in exercise.mistakes[-2:]] == [-6.0, 1.5]
    assert said(exercise, lambda x, times=2: -2 * x).endswith("yours is [-4]. You took it away.")
    assert exercise.answer.endswith("return times * x")


def test_a_mistake_may_stand_with_its_sentence_alone_and_comes_first(exercise):
    ways = [["times * x", "x**times"], ["times * x", "times * x * x"]]
    prose = dataclasses.replace(exercise.prose, slips={"square": ways})
    made = Exercise(prose, double)
    made.mistake("tens", lambda x, times=2: x**times)
    made.case("ten", np.array([10.0]), want=[20.0])
    assert said(made, lambda x, times=2: x**times).endswith("yours is [100]. You squared it.")
    assert said(made, lambda x, times=2: times * x**2).endswith("yours is [200]. You squared it.")
    with pytest.raises(ValueError, match="'x / times' is not in the answer"):
        Exercise(dataclasses.replace(prose, slips={"square": [["x / times", ""]]}), double)


def test_in_the_catalogue_a_sentence_may_be_followed_by_pieces_of_code():
    said = {"one": "A.", "two": ["B.", "x", "y"], "three": ["C.", ["x", "y"], ["x", "z", "w", ""]]}
    assert _mistakes(said) == {
        "mistakes": {"one": "A.", "two": "B.", "three": "C."},
        "slips": {"two": [["x", "y"]], "three": [["x", "y"], ["x", "z", "w", ""]]},
    }


def test_what_a_slip_replaces_must_be_there(exercise):
    with pytest.raises(ValueError, match=r"'x \* times' is not in the answer:\ndef double"):
        exercise.slip("square", "x * times", "x**times")


def test_the_right_value_may_be_computed_once_from_the_same_arguments(exercise):
    asked = []
    exercise.case("nine", np.array([9.0]), times=3, want=lambda *args, **options: asked.append(1) or [27.0])
    assert not asked
    assert [said(exercise, double), said(exercise, lambda x, times=2: times * x + (x[0] == 9))] == [
        "", "double([9], times=3) should be [27]; yours is [28].",
    ]  # fmt: skip
    assert asked == [1]


def test_what_numpy_warns_of_in_a_mistake_is_not_shown(exercise):
    exercise.prose.mistakes["divided"] = "You divided by it."
    exercise.mistake("divided", lambda x, times=2: x / 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isinf(exercise.mistakes[-1].function(np.array([1.0])))


def test_letters_fill_a_sentence(exercise):
    exercise.mistake("loops", double, letter="K")
    assert exercise.mistakes[-1].says == "K loops."


def test_a_call_is_told_in_words(exercise):
    assert exercise._call((np.array([2.0, -1.0]),), {"times": 0.5}) == "double([2, -1], times=0.5)"
    assert exercise._call((np.array([2.5]), 3), {}) == "double(x, 3)"
    assert exercise._call((np.ones((2, 2)),), {}) == "double(x)"
    assert exercise._call((np.ones(9),), {"times": np.ones(9)}) == "double(x, times=times)"


# The letter of a width, and others that used to be told wrongly


@pytest.mark.parametrize(
    ("name", "answer", "says"),
    [
        ("positions.rope_score", lambda q, k, d, base=1e4: _score(q, k, d, np.ones(len(q) // 2)), "base**(-2i/K)"),
        ("positions.sinusoidal", lambda p, d, base=1e4: np.stack([np.sin(p), np.cos(p)] * (d // 2), 1), "(-2i/D)"),
    ],
    ids=["K", "D"],
)  # fmt: skip
def test_the_width_has_the_exercises_own_letter(name, answer, says):
    assert says in said(find(name), answer)


def _score(q, k, distance, frequencies):
    half = len(q) // 2
    turn = (q[:half] + 1j * q[half:]) * np.conj(k[:half] + 1j * k[half:])
    return float((turn * np.exp(1j * distance * frequencies)).sum().real)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (lambda attention, x: 0, "should be True or False; yours is 0. Return `bool(…)`."),
        (lambda attention, x: [True] * len(x), "a single True or False; yours is an array of shape (24,)."),
    ],
    ids=["0", "a row each"],
)
def test_neither_yes_nor_no_gets_no_hint_about_shuffles(answer, says):
    assert said(find("positions.sees_order"), answer).endswith(says)


# Found by name


def test_an_exercise_is_found_by_name_and_torch_stays_out():
    program = """
import sys
import glassformer.exercises as ours
from glassformer.exercises.catalogue import catalogue
judges = lambda: [name for name in sys.modules if ".judges" in name]
assert not judges(), "by import"
ours.hint("positions.rotary")
ours.progress()
ours.check("positions.nowhere", len)
assert not judges(), "by words"
ours.check("positions.wavelengths", lambda d_model, base=1e4: d_model)
own = "glassformer.chapters.ch04.judges"
assert judges() == [own, f"{own}.rotations", f"{own}.wavelengths"]
for name, prose in catalogue().items():
    if prose.chapter == "04":
        ours.check(name, lambda *args, **kwargs: 1)
        ours.reveal(name)
assert "torch" not in sys.modules
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_every_exercise_of_the_catalogue_has_its_checks():
    for name, prose in catalogue().items():
        assert find(name).prose == prose
