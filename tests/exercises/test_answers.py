"""Every exercise of the book: right answers pass, wrong ones fail with a message that names the mistake."""

import re
from pathlib import Path

import pytest

from glassformer.exercises import exercises
from glassformer.exercises.attempt import RIGHT, STUB, WRONG, attempt

from .answers_04 import ANSWERS as ANSWERS_04

ALL = [ANSWERS_04]
ALTERNATIVES = [answer for answers in ALL for answer in answers.alternatives]
MUTANTS = [mutant for answers in ALL for mutant in answers.mutants]

BY_NAME = {exercise.name: exercise for exercise in exercises()}
NOTEBOOKS = Path(__file__).parents[2] / "book" / "chapters" / "exercises"
SECONDS = 60.0  # the machine that tests may be busy; the checks themselves take milliseconds


def of(answer):
    return f"{answer.exercise}-{answer.function.__name__}"


@pytest.mark.parametrize("exercise", exercises(), ids=lambda exercise: exercise.name)
def test_the_reference_is_right(exercise):
    outcome = attempt(exercise, exercise.reference, SECONDS)
    assert (outcome.status, outcome.message) == (RIGHT, "")


@pytest.mark.parametrize("answer", ALTERNATIVES, ids=of)
def test_another_right_answer_is_right(answer):
    outcome = attempt(BY_NAME[answer.exercise], answer.function, SECONDS)
    assert (outcome.status, outcome.message) == (RIGHT, "")


@pytest.mark.parametrize("mutant", MUTANTS, ids=of)
def test_a_wrong_answer_is_told_its_own_mistake(mutant):
    outcome = attempt(BY_NAME[mutant.exercise], mutant.function, SECONDS)
    assert outcome.status == WRONG
    assert mutant.says in outcome.message


@pytest.mark.parametrize("exercise", exercises(), ids=lambda exercise: exercise.name)
def test_the_notebooks_stub_is_not_attempted(exercise):
    stub = _stub(exercise)
    outcome = attempt(exercise, stub, SECONDS)
    assert outcome.status == STUB
    assert stub.__name__ == exercise.reference.__name__


@pytest.mark.parametrize("exercise", exercises(), ids=lambda exercise: exercise.name)
def test_an_exercise_is_complete(exercise):
    name = exercise.name
    assert len(exercise.hints) == 3
    assert len(set(exercise.hints)) == 3
    assert all(hint.strip() for hint in exercise.hints)
    assert len(exercise.checks) >= 3
    assert len({check.title for check in exercise.checks}) == len(exercise.checks)
    assert exercise.difficulty in (1, 2, 3)
    assert exercise.minutes > 0
    assert exercise.source
    assert exercise.why
    assert sum(answer.exercise == name for answer in ALTERNATIVES) >= 1
    assert sum(mutant.exercise == name for mutant in MUTANTS) >= 3


@pytest.mark.parametrize("exercise", exercises(), ids=lambda exercise: exercise.name)
def test_an_exercise_is_in_its_practice_notebook(exercise):
    text = _practice(exercise.chapter)
    section = _section(exercise)
    assert text.count(f'= check("{exercise.name}", ') == 1
    assert exercise.stars in section
    assert f"{exercise.minutes} minutes" in section
    assert f'hint("{exercise.name}")' in section


def test_the_practice_notebook_has_no_other_exercises():
    for chapter in {exercise.chapter for exercise in exercises()}:
        asked = re.findall(r'^\w+ = check\("([^"]+)"', _practice(chapter), re.MULTILINE)
        assert asked == [exercise.name for exercise in exercises() if exercise.chapter == chapter]


def _practice(chapter):
    (path,) = NOTEBOOKS.glob(f"{chapter:02d}-*.md")
    return path.read_text(encoding="utf-8")


def _section(exercise):
    """The part of the notebook under the exercise's own heading."""
    parts = re.split(r"^## ", _practice(exercise.chapter), flags=re.MULTILINE)
    (section,) = [part for part in parts if f'= check("{exercise.name}"' in part]
    assert exercise.title in section.splitlines()[0]
    return section


def _stub(exercise):
    """The function of the cell that the learner is to fill in, as the notebook has it."""
    (cell,) = re.findall(
        r"```{code-cell}[^\n]*\n((?:(?!```).)*?)\w+ = check\(\"" + re.escape(exercise.name),
        _section(exercise),
        flags=re.DOTALL,
    )
    scope: dict = {}
    exec(cell, scope)
    return next(value for name, value in scope.items() if name != "__builtins__" and callable(value))
