"""How a chapter's answers are written down: right ones, and classic wrong ones with what must be said."""

from collections.abc import Callable
from typing import NamedTuple


class Alternative(NamedTuple):
    exercise: str
    function: Callable


class Mutant(NamedTuple):
    exercise: str
    function: Callable
    says: str  # a phrase of the verdict, which names this very mistake


class Answers:
    """Collects one chapter's functions by decoration."""

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
