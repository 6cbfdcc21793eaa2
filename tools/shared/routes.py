"""The ways through the book, from ``book/routes.toml``: their pages, sections and minutes.

A stop that is only some sections of a chapter takes their share of the chapter's minutes. The share is one of words; a
view or a prediction counts as `A_VIEW` words, because readers try it out.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docutils.nodes import make_id

from glassformer import contents

ROOT = Path(__file__).resolve().parents[2]
A_VIEW = 300  # words, which take a bit more than a minute
VIEW = re.compile(r"(?:widgets\.)?[A-Z][A-Za-z]+(?:\.load)?\(")
CODE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
SECTION = re.compile(r"^## (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Stop:
    """A page of a route, or those sections of it that are read."""

    page: str  # "notebooks/03-attention"
    title: str
    minutes: int
    sections: tuple[
        tuple[str, str], ...
    ] = ()  # the heading of each and its id on the site; empty: the whole page


@dataclass(frozen=True)
class Route:
    """One way through the book; `name` is what addresses say, "?route=evening"."""

    name: str
    title: str
    question: str
    text: str
    stops: tuple[Stop, ...]

    @property
    def minutes(self) -> int:
        """Returns how long all its stops take."""
        return sum(stop.minutes for stop in self.stops)


def routes() -> list[Route]:
    """Returns the routes in order, without those that lead to a page of ``book/`` which does not exist.

    Raises:
        KeyError: a stop names a section that its chapter does not have.
    """
    tables = tomllib.loads((ROOT / "book" / "routes.toml").read_text(encoding="utf-8"))["route"]
    every = [{"chapter": one.number} for one in contents.chapters() if one.written]
    found = [
        Route(**one | {"stops": tuple(_stop(**stop) for stop in one.get("stops", every))}) for one in tables
    ]
    return [one for one in found if all(_exists(stop.page) for stop in one.stops)]


def _exists(page: str) -> bool:
    return not page.startswith("book/") or (ROOT / f"{page}.md").exists()


def _stop(*, chapter: str = "", sections: tuple[str, ...] = (), more: int = 0, **own: Any) -> Stop:
    """Returns a stop, from its entry in the table."""
    if not chapter:
        return Stop(**own)
    one = contents.chapter(chapter)
    minutes = one.minutes or 0
    if sections:
        sizes = _sizes((ROOT / "book" / "chapters" / f"{one.name}.md").read_text(encoding="utf-8"))
        read = sum(sizes[heading] for heading in sections)
        minutes = max(5, 5 * round(minutes * read / sum(sizes.values()) / 5)) + more
    return Stop(
        f"notebooks/{one.name}", one.heading, minutes, tuple((name, make_id(name)) for name in sections)
    )


def _sizes(text: str) -> dict[str, int]:
    """Returns how many words each section of a chapter has; those before the first are under "". Views count, too."""
    in_code = [found.span() for found in CODE.finditer(text)]
    heads = [one for one in SECTION.finditer(text) if not any(a < one.start() < b for a, b in in_code)]
    ends = [*(one.start() for one in heads), len(text)]
    parts = {"": text[: ends[0]]} | {
        one[1]: text[one.start() : end] for one, end in zip(heads, ends[1:], strict=True)
    }
    return {
        name: len(part.split()) + A_VIEW * sum(bool(VIEW.match(line)) for line in part.splitlines())
        for name, part in parts.items()
    }
