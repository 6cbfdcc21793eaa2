"""Tests every exercise of the book: right answers pass, and wrong ones fail with a message that names the mistake.

The classic mistakes of a chapter are also submitted as answers here. `tests/chapters/chNN/answers.py` has right answers
that differ from the book's, and answers that are wrong in other ways.
"""

import ast
import builtins
import inspect
import re
import warnings
from pathlib import Path

import nbformat
import numpy as np
import pytest
import torch

from glassformer.exercises import attempt as engine
from glassformer.exercises import exercises, expect
from glassformer.exercises.attempt import RIGHT, STUB, WRONG, attempt
from glassformer.exercises.catalogue import catalogue
from glassformer.exercises.slip import Slip
from glassformer.exercises.source import imports_in, names_used
from tools.extensions.practice import task
from tools.shared import chapter_facts

from .answers import all_answers
from .once import found_once

ALL = list(all_answers().values())
ALTERNATIVES = [answer for answers in ALL for answer in answers.alternatives]
MUTANTS = [mutant for answers in ALL for mutant in answers.mutants]
MISTAKES = [(exercise, mistake) for exercise in exercises() for mistake in exercise.mistakes]

BY_NAME = {exercise.name: exercise for exercise in exercises()}
CHAPTERS = sorted({prose.chapter for prose in catalogue().values()})
EXERCISES = pytest.mark.parametrize("exercise", exercises(), ids=lambda exercise: exercise.name)
NOTEBOOKS = Path(__file__).parents[2] / "book" / "chapters" / "exercises"
IN_SINGLE_PRECISION = {
    "waves_of_a_tutorial", "wavelengths_from_inv_freq", "rotary_of_hugging_face", "rotary_of_meta",
    "orthogonal_in_single_precision",
}  # fmt: skip
SECONDS = 60.0  # the machine that tests may be busy; the checks themselves take milliseconds


def of(answer):
    return f"{answer.exercise}-{answer.function.__name__}"


@pytest.fixture(scope="module")
def stubs():
    """Returns, by exercise, its stub, and the names that the practice notebook has there: imports, other answers."""
    found = {}
    for file in (NOTEBOOKS.parents[2] / "notebooks" / "exercises").glob("*.ipynb"):
        codes = [cell.source for cell in nbformat.read(file, 4).cells if cell.cell_type == "code"]
        names = {"In": codes[:1]}
        exec("\n".join(map(str, imports_in(ast.parse(codes[0]).body))), names)
        for code in codes[1:]:
            names = dict(names)
            for name in re.findall(r'mine\("([\w.]+)"', code):
                names[BY_NAME[name].reference.__name__] = BY_NAME[name].reference
            if asked := task(code):
                found[asked.name] = asked.stub, names
                names = {**names, asked.function: BY_NAME[asked.name].reference}
    return found


@EXERCISES
def test_what_reveal_shows_fits_into_the_notebook_and_is_right(exercise, stubs):
    stub, names = stubs[exercise.name]
    names = dict(names)
    exec(exercise.answer, names)
    tree = ast.parse(exercise.answer)
    node = tree.body[-1]
    said = [getattr(one, name, None) for one in ast.walk(tree) for name in ("annotation", "returns")]
    assert not any(said)
    assert ast.unparse(node.args) == ast.unparse(ast.parse(stub).body[-1].args)
    assert ast.get_docstring(node) is None
    assert names_used(exercise.answer) - set(names) <= set(dir(builtins))
    outcome = attempt(exercise, names[exercise.reference.__name__], SECONDS)
    assert (outcome.status, outcome.message) == (RIGHT, "")


@pytest.mark.parametrize("exercise", [one for one in exercises() if one.short], ids=lambda one: one.name)
def test_the_librarys_own_function_is_right(exercise):
    outcome = attempt(exercise, exercise.reference, SECONDS)
    assert (outcome.status, outcome.message) == (RIGHT, "")


@pytest.mark.parametrize("answer", ALTERNATIVES, ids=of)
def test_another_right_answer_is_right_and_of_single_precision_there_is_a_word(answer):
    outcome = attempt(BY_NAME[answer.exercise], answer.function, SECONDS)
    assert (outcome.status, outcome.message) == (RIGHT, "")
    said = any("seven digits" in sentence for sentence in outcome.aside)
    assert said == (answer.function.__name__ in IN_SINGLE_PRECISION)


def nested(wrap):
    """Applies it to every value of a pair or a dictionary, or to a single value."""

    def one(result):
        if isinstance(result, dict):
            return {name: wrap(value) for name, value in result.items()}
        if hasattr(result, "__next__") or getattr(result, "requires_grad", False):
            return result  # what has to go on, or back, cannot be handed over as anything else
        return result if isinstance(result, str) else wrap(result)

    return lambda result: tuple(map(one, result)) if isinstance(result, tuple) else one(result)


def single(value):
    array = np.asarray(value)
    return array.astype(np.float32) if array.dtype.kind == "f" else array


WRAPPINGS = {
    "lists": nested(lambda value: np.asarray(value).tolist()),
    "lists of tensors": nested(
        lambda value: [torch.as_tensor(row) for row in value] if np.ndim(value) else torch.tensor(value)
    ),
    "tensors": nested(lambda value: torch.as_tensor(np.asarray(value))),
    "tensors in single precision": nested(lambda value: torch.as_tensor(single(value))),
    "a list of both": lambda result: list(result) if isinstance(result, tuple) else result,
    "tuples in lists": nested(
        lambda value: (
            [tuple(row) if row.ndim else row[()] for row in np.asarray(value)] if np.ndim(value) else value
        )
    ),
    "arrays without axes": nested(lambda value: np.asarray(value) if np.ndim(value) == 0 else value),
    "lists of arrays": nested(lambda value: list(value) if np.ndim(value) else value),
    "numbers of NumPy": nested(lambda value: single(value)[()]),
}
# The engine unwraps them, whichever exercise it is: arrays, several parts, a number, a text, a dictionary, a generator
WRAPPED = """
attention.softmax attention.attention positions.rotary stream.layer_norm generating.draw generating.beam tokens.decode
training.clip training.batches training.adamw back.block_backward families.shifted
"""


@pytest.mark.parametrize("wrap", WRAPPINGS.values(), ids=WRAPPINGS)
@pytest.mark.parametrize(
    "exercise", [BY_NAME[name] for name in WRAPPED.split()], ids=lambda exercise: exercise.name
)
def test_a_right_answer_is_right_however_it_is_wrapped(exercise, wrap):
    function = exercise.reference
    outcome = attempt(exercise, lambda *args, **sizes: wrap(function(*args, **sizes)), SECONDS)
    assert (outcome.status, outcome.message) == (RIGHT, "")
    assert all("seven digits" in sentence for sentence in outcome.aside)


@pytest.mark.parametrize("mutant", MUTANTS, ids=of)
def test_a_wrong_answer_is_told_its_own_mistake(mutant):
    outcome = attempt(BY_NAME[mutant.exercise], mutant.function, SECONDS)
    assert outcome.status == WRONG
    assert mutant.says in outcome.message


@pytest.fixture(scope="module")
def once():
    return found_once(engine._failure)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("exercise", "mistake"), MISTAKES, ids=lambda value: value.name)
def test_a_classic_mistake_is_named_and_no_other_and_none_is_near_to_being_right(
    exercise, mistake, monkeypatch, once
):
    monkeypatch.setattr(engine, "_failure", once)
    monkeypatch.setattr(expect, "SINGLE", 3e-5)  # thirty times what single precision asks for
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what NumPy says of a mistake is not for whoever made another
        outcome = attempt(exercise, mistake.function, SECONDS)
    assert outcome.status == WRONG
    assert outcome.message.endswith(mistake.says)


def test_a_slip_finds_every_name_that_it_uses():
    made = [(exercise.name, mistake, inspect.unwrap(mistake.function)) for exercise, mistake in MISTAKES]
    unknown = [
        (name, mistake.name, names)
        for name, mistake, slip in made
        if isinstance(slip, Slip)
        and (names := names_used(slip.code) - slip.scope.keys() - set(dir(builtins)))
    ]
    assert unknown == []


@EXERCISES
def test_the_notebooks_stub_is_not_attempted(exercise):
    stub = _stub(exercise)
    outcome = attempt(exercise, stub, SECONDS)
    assert outcome.status == STUB
    assert stub.__name__ == exercise.reference.__name__


@EXERCISES
def test_an_exercise_is_complete(exercise):
    name, prose = exercise.name, exercise.prose
    assert len(prose.hints) == 3
    assert len(set(prose.hints)) == 3
    assert all(hint.strip() for hint in prose.hints)
    assert len(exercise.checks) >= 3
    assert len({check.title for check in exercise.checks}) == len(exercise.checks)
    assert all(check.steps for check in exercise.checks)
    assert prose.difficulty in (1, 2, 3)
    assert prose.minutes > 0
    assert prose.source
    assert prose.why
    assert set(prose.builds_on) <= set(catalogue())
    assert sum(answer.exercise == name for answer in ALTERNATIVES) >= 1
    assert len(exercise.mistakes) >= 3


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_sentence_belongs_to_a_mistake(chapter):
    listed = [exercise for exercise in exercises() if exercise.prose.chapter == chapter]
    shared = set.intersection(*(set(exercise.prose.mistakes) for exercise in listed))
    made = {exercise.name: {mistake.name for mistake in exercise.mistakes} for exercise in listed}
    for exercise in listed:
        assert set(exercise.prose.mistakes) - made[exercise.name] <= shared
        assert not any("{" in mistake.says for mistake in exercise.mistakes)
    assert shared <= set.union(*made.values())


@EXERCISES
def test_a_practice_notebook_says_what_the_data_says(exercise):
    prose = exercise.prose
    heading, _, body = _section(exercise).partition("\n")
    assert heading.endswith(f" · {prose.title}")
    line = f'*{prose.stars} · {prose.minutes} minutes · {prose.source} · stuck? `hint("{prose.name}")`*'
    assert " ".join(body.strip().partition("\n\n")[0].split()) == line
    for name in prose.builds_on:
        assert f'mine("{name}")' in _practice(prose.chapter)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_practice_notebook_has_every_exercise_in_order_and_no_other(chapter):
    text = _practice(chapter)
    asked = re.findall(r'^\w+ = check\(\s*"([^"]+)"', text, re.MULTILINE)
    assert asked == [prose.name for prose in catalogue().values() if prose.chapter == chapter]
    headings = re.findall(r"^## (\d+) · ", text, re.MULTILINE)
    assert headings == [str(number + 1) for number in range(len(asked))]


def _practice(chapter):
    (path,) = NOTEBOOKS.glob(f"{chapter}-*.md")
    return chapter_facts.text(path)


def _section(exercise):
    """Returns the part of the notebook under the exercise's own heading."""
    parts = re.split(r"^## ", _practice(exercise.prose.chapter), flags=re.MULTILINE)
    (section,) = [part for part in parts if re.search(rf'= check\(\s*"{re.escape(exercise.name)}"', part)]
    return section


def _stub(exercise):
    """Returns the function that the learner fills in, from its cell in the notebook."""
    (cell,) = re.findall(
        r"```{code-cell}[^\n]*\n((?:(?!```).)*?)\w+ = check\(\s*\"" + re.escape(exercise.name),
        _section(exercise),
        flags=re.DOTALL,
    )
    scope: dict = {}
    exec(cell, scope)
    return next(value for name, value in scope.items() if name != "__builtins__" and callable(value))
