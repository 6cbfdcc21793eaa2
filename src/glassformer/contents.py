"""The table of contents: every chapter's number, title, question and minutes, from the folders in ``chapters/``.

A chapter is a folder, ``chapters/ch05`` for chapter 05. Nothing else in the package lists the chapters.
"""

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from glassformer import _checks as checks

PLACE = Path(__file__).parent / "chapters"


@dataclass(frozen=True)
class Chapter:
    """One chapter, written or planned."""

    number: str  # two digits, "04", as pages and files say it
    title: str
    question: str  # the one that it answers
    minutes: int | None = None  # what it takes; None: it is not written yet

    @property
    def name(self) -> str:
        """The name of its text, notebook, practice and page: "04-putting-order-in"."""
        return f"{self.number}-{self.title.lower().replace(' ', '-')}"

    @property
    def written(self) -> bool:
        """Says whether there is such a page."""
        return self.minutes is not None


@cache
def chapters() -> tuple[Chapter, ...]:
    """Returns all chapters, in order."""
    numbers = sorted(
        found[1] for entry in PLACE.iterdir() if (found := re.fullmatch(r"ch(\d\d)", entry.name))
    )
    return tuple(Chapter(number, **_read(number, "chapter.toml")) for number in numbers)


def folder(number: str) -> Path:
    """Returns the folder of the chapter with that number, such as "04"; it need not exist."""
    return PLACE / f"ch{number}"


def _read(number: str, name: str) -> dict[str, Any]:
    return tomllib.loads((folder(number) / name).read_text(encoding="utf-8"))


def chapter(number: str) -> Chapter:
    """The chapter of that number, such as "04".

    Raises:
        ValueError: there is none; the message lists those there are.
    """
    by_number = {one.number: one for one in chapters()}
    checks.one_of("number", number, by_number)
    return by_number[number]
