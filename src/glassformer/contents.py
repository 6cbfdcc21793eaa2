"""The table of contents: every chapter's number, title, question and minutes, from the folders in ``chapters/``.

A chapter is a folder, ``chapters/ch05`` for chapter 05. Nothing else in the package lists the chapters. They are
grouped in parts: ``chapters/parts.toml`` says with which chapter each part begins.
"""

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from glassformer import _checks as checks

PLACE = Path(__file__).parent / "chapters"
NUMERALS = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII")


@dataclass(frozen=True)
class Chapter:
    """One chapter, written or planned."""

    number: str  # two digits, "04", as in pages and file names
    title: str
    question: str  # the question that it answers
    minutes: int | None = None  # how long it takes; None if it is not written yet
    practice: str = (
        ""  # what the first page and the texts say of its practice; tools/shared/chapter_facts.py fills it in
    )
    practice_time: str = ""  # how long its practice takes, if that is not the sum of its exercises' minutes

    @property
    def written(self) -> bool:
        """Returns whether there is such a page."""
        return self.minutes is not None

    @property
    def name(self) -> str:
        """Returns the name of its text, notebook and page: "04-putting-order-in"."""
        return f"{self.number}-{self.title.lower().replace(',', '').replace(' ', '-')}"

    @property
    def practice_name(self) -> str:
        """Returns the name of its practice's text, notebook and page, with its folder: "exercises/04-practice".

        It does not end like the chapter's, because a tab of JupyterLab shows only what follows the folder.
        """
        return f"exercises/{self.number}-practice"

    @property
    def heading(self) -> str:
        """Returns its number and title as every heading and list shows them: "04 · Putting order in"."""
        return f"{self.number} · {self.title}"

    @property
    def practice_heading(self) -> str:
        """Returns the heading of its practice: "04 · Practice: putting order in"."""
        return f"{self.number} · Practice: {self.title[0].lower()}{self.title[1:]}"


@dataclass(frozen=True)
class Part:
    """One part of the book, a group of chapters in a row."""

    numeral: str  # "II"
    title: str
    chapters: tuple[Chapter, ...]  # its chapters

    @property
    def heading(self) -> str:
        """Returns its number and title as every heading and list shows them: "II · The machine"."""
        return f"{self.numeral} · {self.title}"


def chapters() -> tuple[Chapter, ...]:
    """Returns all chapters, in order."""
    return tuple(map(chapter, numbers()))


def parts() -> tuple[Part, ...]:
    """Returns the parts of the book, in order; together they hold every chapter once.

    Raises:
        ValueError: the parts in ``parts.toml`` do not begin with the first chapter, are not in order, or begin with a
            chapter that does not exist.
    """
    listed = tomllib.loads((PLACE / "parts.toml").read_text(encoding="utf-8"))["part"]
    first, there = [part["begins"] for part in listed], numbers()
    if first[:1] != there[:1] or first != sorted(set(first) & set(there)):
        raise ValueError(
            f"parts.toml: the parts begin with chapters {first}, but these must be in order, exist, and start with the"
            f" first of {there}"
        )
    return tuple(
        Part(
            NUMERALS[place],
            part["title"],
            tuple(chapter(number) for number in there if begin <= number < end),
        )
        for place, (part, begin, end) in enumerate(zip(listed, first, [*first[1:], "99"], strict=True))
    )


def numbers() -> list[str]:
    """Returns the numbers of all chapters, in order, from the names of their folders."""
    return sorted(found[1] for entry in PLACE.iterdir() if (found := re.fullmatch(r"ch(\d\d)", entry.name)))


def folder(number: str) -> Path:
    """Returns the folder of the chapter with that number, such as "04"; it need not exist."""
    return PLACE / f"ch{number}"


def chapter(number: str) -> Chapter:
    """Returns the chapter with that number, such as "04", without reading any other.

    Raises:
        ValueError: there is no such chapter; the message lists the existing ones.
    """
    if not (isinstance(number, str) and re.fullmatch(r"\d\d", number) and folder(number).is_dir()):
        checks.one_of("number", number, numbers())
    return _chapter(number)


@cache
def _chapter(number: str) -> Chapter:
    said = (folder(number) / "chapter.toml").read_text(encoding="utf-8")
    return Chapter(number, **tomllib.loads(said))
