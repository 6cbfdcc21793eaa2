"""The chapters of the book: their numbers, titles and questions, from assets/chapters.toml and nowhere else."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources

from glassformer import _checks as checks


@dataclass(frozen=True)
class Chapter:
    """One chapter, written or planned."""

    number: str  # two digits, "04", as pages and files say it
    title: str
    question: str  # the one that it answers
    minutes: int | None = None  # what it takes; None: it is not written yet

    @property
    def name(self) -> str:
        """Of its text, its notebook, its practice and its page: "04-putting-order-in"."""
        return f"{self.number}-{self.title.lower().replace(' ', '-')}"

    @property
    def written(self) -> bool:
        """Whether there is such a page."""
        return self.minutes is not None


@cache
def chapters() -> tuple[Chapter, ...]:
    """All of them, in order."""
    file = resources.files("glassformer") / "assets" / "chapters.toml"
    return tuple(
        Chapter(number, **said) for number, said in tomllib.loads(file.read_text(encoding="utf-8")).items()
    )


def chapter(number: str) -> Chapter:
    """The chapter of that number, such as "04".

    Raises:
        ValueError: there is none; the message lists those there are.
    """
    by_number = {one.number: one for one in chapters()}
    checks.one_of("number", number, by_number)
    return by_number[number]
