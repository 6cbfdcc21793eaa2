"""Defines how a chapter's answers are written: right ones, and wrong ones with what the message must contain."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from glassformer.exercises.catalogue import find
from glassformer.exercises.slip import Slip


class Alternative(NamedTuple):
    exercise: str
    function: Callable


class Mutant(NamedTuple):
    exercise: str
    function: Callable
    says: str  # a phrase of the verdict, which names this very mistake


def edited(exercise: str, *edits: str, **names: object) -> Callable:
    """Returns the book's answer with pieces of its code replaced, as `Exercise.slip` makes a mistake."""
    book = find(exercise)
    return Slip(book.answer, book.reference.__name__, book.short or book.reference, edits, names).function


class Answers:
    """Collects the functions of one chapter: with decorators, or as the book's with a slip."""

    def __init__(self):
        self.alternatives: list[Alternative] = []
        self.mutants: list[Mutant] = []

    def right(self, exercise):
        def add(function):
            self.alternatives.append(Alternative(exercise, function))
            return function

        return add

    def wrong(self, exercise, says):
        def add(function):
            self.mutants.append(Mutant(exercise, function, says))
            return function

        return add

    def slip(self, exercise, says, *edits, **names):
        self.mutants.append(Mutant(exercise, edited(exercise, *edits, **names), says))


def all_answers() -> dict[str, Answers]:
    """Returns the answers of every chapter that has a ``tests/chapters/chNN/answers.py``, by chapter number."""
    files = sorted((Path(__file__).parents[1] / "chapters").glob("ch*/answers.py"))
    names = [file.parent.name for file in files]
    return {name[2:]: import_module(f"tests.chapters.{name}.answers").ANSWERS for name in names}
