"""Tests that docstrings of public functions, classes and modules begin as an English sentence does."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("src/glassformer", "tools")
FORBIDDEN = frozenset({"What", "Whether", "Where", "Who", "Of", "By"})


def odd_beginnings(source: str) -> Iterator[tuple[int, str]]:
    """Yields the line and the name of each public docstring that begins with one of the forbidden words."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        name = getattr(node, "name", "the module")
        words = (ast.get_docstring(node) or "").split(maxsplit=1)
        if (
            words
            and words[0].rstrip(",:;") in FORBIDDEN
            and (name.startswith("__") or not name.startswith("_"))
        ):
            yield node.body[0].lineno, name


def test_docstrings_begin_with_what_the_code_does() -> None:
    files = sorted(file for room in ROOMS for file in (ROOT / room).rglob("*.py"))
    assert files
    found = [
        f"{file.relative_to(ROOT)}:{line}: {name}"
        for file in files
        for line, name in odd_beginnings(file.read_text(encoding="utf-8"))
    ]
    assert not found, "begin with 'Returns …', 'Computes …' or an imperative instead:\n" + "\n".join(found)


@pytest.mark.parametrize("word", sorted(FORBIDDEN))
def test_each_forbidden_word_is_found(word: str) -> None:
    source = (
        f'"""{word} a module."""\ndef f():\n    """{word}, it is."""\ndef _g():\n    """{word} it is."""\n'
    )
    assert list(odd_beginnings(source)) == [(1, "the module"), (3, "f")]


def test_other_beginnings_are_not_found() -> None:
    source = 'def f():\n    """Returns whether it is."""\ndef g():\n    """Bytes of a file."""\nclass C:\n    x = 1\n'
    assert not list(odd_beginnings(source))
