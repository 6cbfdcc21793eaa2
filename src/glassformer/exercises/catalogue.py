"""Finds every exercise by name: its prose and its checks, from its chapter's folder or a folder that a teacher adds.

The prose (``exercises.toml``) is quick to read. Looking up one exercise reads the prose of the chapters up to its own
and imports its judge: the module in its chapter's ``judges`` that is named after it.
"""

import sys
import tomllib
from collections.abc import Callable
from functools import cache
from importlib import import_module, invalidate_caches
from pathlib import Path
from types import ModuleType
from typing import Any

from glassformer import contents
from glassformer.untrusted_files import errors_about

from .exercise import Exercise, Prose

_added: dict[Path, dict[str, Prose]] = {}  # what `add_exercises` has read, by folder


def prose(name: str) -> Prose | None:
    """Returns the prose of the exercise with that name, or None if there is no such exercise."""
    for number in contents.numbers():
        if name in of_chapter(number):
            return of_chapter(number)[name]
    return next((those[name] for those in _added.values() if name in those), None)


@cache
def of_chapter(number: str) -> dict[str, Prose]:
    """Returns the prose of each exercise of one chapter, by name, in the chapter's order; there may be none."""
    file = contents.folder(number) / "exercises.toml"
    return _read(file, number) if file.is_file() else {}


def add_exercises(folder: Path | str) -> list[str]:
    """Adds the exercises of a folder that is like a chapter's, and returns their names.

    The folder has ``exercises.toml``, and ``judges``. If you change it, add it again.

    Raises:
        OSError: its ``exercises.toml`` cannot be read.
        ValueError: it is not like a chapter's, or has an exercise whose name is already in use.
    """
    folder = Path(folder).resolve()
    file, number = folder / "exercises.toml", f"own{[*_added, folder].index(folder)}"
    with errors_about(f"{file}:"):
        those = _read(file, number)
    if taken := sorted(those.keys() & (catalogue().keys() - _added.get(folder, {}).keys())):
        raise ValueError(f"{file}: {taken[0]!r} is the name of another exercise already")
    _added[folder] = those
    package = f"glassformer.chapters.ch{number}"
    for name in [name for name in sys.modules if f"{name}.".startswith(f"{package}.")]:
        del sys.modules[name]
    sys.modules[package] = ModuleType(package)
    sys.modules[package].__path__ = [str(folder)]  # where `find` looks for the judges
    invalidate_caches()
    return list(those)


def _read(file: Path, number: str) -> dict[str, Prose]:
    said = tomllib.loads(file.read_text(encoding="utf-8"))
    shared = said.pop("mistakes", {})
    return {
        name: Prose(name, number, **own | _mistakes(shared | own.get("mistakes", {})))
        for name, own in said.items()
    }


def _mistakes(said: dict[str, str | list[Any]]) -> dict[str, dict[str, Any]]:
    """Returns the sentences, and the replaced pieces of code where a sentence is the first entry of a list.

    Several ways to make the same mistake are lists of their own.
    """
    listed = {name: [one] if isinstance(one, str) else one for name, one in said.items()}
    return {
        "mistakes": {name: sentence for name, (sentence, *_) in listed.items()},
        "slips": {
            name: ways if isinstance(ways[0], list) else [ways] for name, (_, *ways) in listed.items() if ways
        },
    }


def catalogue() -> dict[str, Prose]:
    """Returns the prose of each exercise, by name, in order: the book's, then added ones. Reads all chapters' files."""
    those = [*map(of_chapter, contents.numbers()), *_added.values()]
    return {name: prose for some in those for name, prose in some.items()}


def find(name: str) -> Exercise:
    """Returns the exercise of that name. Imports its own judge, and the modules that this judge builds on.

    Raises:
        KeyError: there is no exercise of that name.
        ImportError: the exercise has words but no judge.
    """
    module = f"glassformer.chapters.ch{_known(name).chapter}.judges.{name.rpartition('.')[2]}"
    try:
        judge = import_module(module)
    except ModuleNotFoundError as missing:
        if missing.name is None or not module.startswith(missing.name):
            raise  # a judge imports what does not exist
        raise ImportError(f"exercise {name!r} has a text but no judge: {module} does not exist.") from None
    for one in vars(judge).values():
        if isinstance(one, Exercise) and one.name == name:
            return one
    raise ImportError(f"exercise {name!r} has a text but no judge: {module} does not define one.")


def exercise(name: str, reference: Callable[..., Any], **judging: Any) -> Exercise:
    """Returns a new exercise with the prose of that name. Judges call it; `judging` holds the fields of `Exercise`.

    Raises:
        KeyError: no exercise of that name has prose.
    """
    return Exercise(_known(name), reference, **judging)


def _known(name: str) -> Prose:
    found = prose(name)
    if found is None:
        raise KeyError(name)
    return found
