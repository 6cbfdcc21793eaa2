"""Every exercise of the book by name: its words and its checks, from its chapter's folder.

The words (``exercises.toml``) are light, and read all at once. A chapter's judge is imported when one of its
exercises is asked for.
"""

import tomllib
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from glassformer import contents

from .exercise import Exercise, Prose


@cache
def catalogue() -> dict[str, Prose]:
    """Returns the text of each exercise by name, in the book's order."""
    prose = {}
    for chapter in contents.chapters():
        file = contents.folder(chapter.number) / "exercises.toml"
        said = tomllib.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
        shared = said.pop("mistakes", {})
        for name, own in said.items():
            prose[name] = Prose(name, chapter.number, **own | {"mistakes": shared | own["mistakes"]})
    return prose


def chapter_title(chapter: str) -> str:
    """The title of the chapter of that number."""
    return contents.chapter(chapter).title


def find(name: str) -> Exercise:
    """The exercise of that name. Imports its chapter and no other.

    Raises:
        KeyError: there is none.
    """
    return _chapter(catalogue()[name].chapter)[name]


def exercise(name: str, reference: Callable[..., Any], **judging: Any) -> Exercise:
    """A new exercise, with the prose of that name; for the chapters' modules. `judging` as `Exercise` has it."""
    return Exercise(catalogue()[name], reference, **judging)


@cache
def _chapter(chapter: str) -> dict[str, Exercise]:
    module = import_module(f"glassformer.chapters.ch{chapter}.judge")
    return {one.name: one for one in vars(module).values() if isinstance(one, Exercise)}
