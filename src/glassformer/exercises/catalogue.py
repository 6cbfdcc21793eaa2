"""Every exercise of the book by name: its words and its checks, from its chapter's folder.

The words (``exercises.toml``) are light. Whoever asks for one exercise reads the chapters up to its own, and imports
its own chapter's judge.
"""

import tomllib
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from glassformer import contents
from glassformer.lookups import lookup

from .exercise import Exercise, Prose


@lookup
def prose(name: str) -> Prose | None:
    """Returns what the exercise of that name says and asks, or None: there is no such exercise."""
    for number in contents.one_by_one():
        if name in of_chapter(number):
            return of_chapter(number)[name]
    return None


@lookup
def of_chapter(number: str) -> dict[str, Prose]:
    """Returns what each exercise of one chapter says and asks, by name, in the chapter's order; maybe none."""
    return _of_chapter(number)


@cache  # of look-ups alone
def _of_chapter(number: str) -> dict[str, Prose]:
    file = contents.folder(number) / "exercises.toml"
    said = tomllib.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    shared = said.pop("mistakes", {})
    return {
        name: Prose(name, number, **own | {"mistakes": shared | own["mistakes"]})
        for name, own in said.items()
    }


def catalogue() -> dict[str, Prose]:
    """Returns what each exercise of the book says and asks, by name, in order. Reads all chapters' words."""
    return {name: prose for one in contents.chapters() for name, prose in of_chapter(one.number).items()}


def find(name: str) -> Exercise:
    """Returns the exercise of that name. Imports the judge of its chapter and no other.

    Raises:
        KeyError: there is none.
    """
    return _judged(_known(name).chapter)[name]


def exercise(name: str, reference: Callable[..., Any], **judging: Any) -> Exercise:
    """Returns a new exercise with the prose of that name, for the chapters' judges; `judging` as `Exercise` has it.

    Raises:
        KeyError: no exercise of that name has prose.
    """
    return Exercise(_known(name), reference, **judging)


def _known(name: str) -> Prose:
    found = prose(name)
    if found is None:
        raise KeyError(name)
    return found


@cache
def _judged(chapter: str) -> dict[str, Exercise]:
    judge = import_module(f"glassformer.chapters.ch{chapter}.judge")
    return {one.name: one for one in vars(judge).values() if isinstance(one, Exercise)}
