"""A stage of the capstone: its words, and its checks in teaching order."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..adapter import GPT
from ..measures.ownership import told_if_borrowed
from ..words import Words, stages

Check = Callable[[GPT], None]


@dataclass(frozen=True)
class Stage:
    """One stage. A check gets the reader's design, and raises `Wrong` if something is wrong with it."""

    name: str
    checks: list[tuple[str, Check]] = field(default_factory=list)

    @property
    def words(self) -> Words:
        """The words about this stage."""
        return stages()[self.name]

    def check(self, title: str) -> Callable[[Check], Check]:
        """Decorate a function to make it the next check."""

        def add(function: Check) -> Check:
            self.checks.append((title, function))
            return function

        return add

    def your_own_code(self, piece: str, run: Callable[[GPT], Any]) -> None:
        """Adds the last check: while this piece runs, no part of a Transformer is somebody else's."""

        @self.check("it is your own code")
        def _(gpt: GPT) -> None:
            told_if_borrowed(gpt, piece, run)
