"""Reads the capstone's words from ``capstone.toml``: stages, the pieces of an adapter, mistakes."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from glassformer import contents


@dataclass(frozen=True)
class Words:
    """The words about a stage: its title and chapter, the pieces it needs and uses, why it works, three hints."""

    title: str
    chapter: str
    needs: Sequence[str]
    why: str
    hints: Sequence[str]


@dataclass(frozen=True)
class Piece:
    """One function of an adapter: how it is called, what it does; how functions of the reader's file make it."""

    call: str
    says: str
    uses: Sequence[str]
    from_mine: str


@dataclass(frozen=True)
class Mistake:
    """Says what is wrong and how it causes what was seen, which chapter has the idea, and what to write instead."""

    says: str
    chapter: str
    instead: str


@cache
def words_under(heading: str) -> dict[str, Any]:
    """Returns a part of ``capstone.toml``, whose first lines say what each part has."""
    return tomllib.loads((contents.folder("15") / "capstone.toml").read_text(encoding="utf-8"))[heading]


@cache
def stages() -> dict[str, Words]:
    """Returns the words about each stage, in order."""
    return {name: Words(**said) for name, said in words_under("stage").items()}


@cache
def pieces() -> dict[str, Piece]:
    """Returns the functions that an adapter may have, in the order in which it is written out."""
    return {name: Piece(**said) for name, said in words_under("piece").items()}


@cache
def mistakes() -> dict[str, Mistake]:
    """Returns every mistake that can be named."""
    return {name: Mistake(**said) for name, said in words_under("mistake").items()}


def remark(name: str, /, **facts: Any) -> str:
    """Returns a remark about a design that is accepted, with these facts filled in."""
    return words_under("remark")[name].format(**facts)
