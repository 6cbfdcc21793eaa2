"""Reads what a reader's own files hold for a training: one text from several files, or pairs of texts."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from glassformer import text as texts
from glassformer.untrusted_files import json_object

PAIR_FILES = (".tsv", ".jsonl")
"""How the name of a file with pairs may end."""


class TextPair(NamedTuple):
    """A text to read, and the one to write in answer."""

    source: str
    target: str


def content_of(text: str | Sequence[str] | None, document_end: str | None = None) -> str:
    """Returns what `text` in [data] names: the book's Shakespeare, a file, all .txt files of a folder, or several.

    The files of a folder and of the folders in it come in the order of their paths, and several files or folders in the
    order of the list. Each text begins on a new line; with `document_end`, it comes between two texts instead.

    Raises:
        FileNotFoundError: a file is missing, or a folder has no .txt file.
        ValueError: a file is not text in UTF-8, or is empty; the message names it.
    """
    if text is None:
        return texts.corpus()
    files: list[Path] = []
    for name in map(Path, [text] if isinstance(text, str) else text):
        found = (
            sorted(name.rglob("*.txt"), key=lambda path: path.relative_to(name).parts)
            if name.is_dir()
            else [name]
        )
        if not found:
            raise FileNotFoundError(f"{name} is a folder without a file that ends in .txt")
        files += found
    parts = [texts.read_text(file) for file in files]
    end = document_end or "\n"
    ended = [part if part.endswith(end) else f"{part}{end}" for part in parts[:-1]]
    return "".join([*ended, parts[-1]])


def read_pairs(path: str | os.PathLike) -> list[TextPair]:
    """Returns the pairs in a file, one per line, in UTF-8.

    A line of a .tsv file is the source, a tab and the target, without quotes, escapes or a header. A line of a .jsonl
    file is a JSON object with the fields "source" and "target"; other fields are ignored.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: its name has another ending, it is not text in UTF-8, or a line is no pair; the message names the
            line, which counts from 1.
    """
    path = Path(path)
    if path.suffix not in PAIR_FILES:
        raise ValueError(f"{path} must end in {' or '.join(PAIR_FILES)}")
    lines = texts.read_text(path).removesuffix("\n").split("\n")
    of_line = _of_tsv if path.suffix == ".tsv" else _of_jsonl
    return [of_line(line, f"{path}, line {i}") for i, line in enumerate(lines, start=1)]


def _of_tsv(line: str, name: str) -> TextPair:
    columns = line.split("\t")
    if len(columns) != 2:
        raise ValueError(
            f"{name} must have two columns with a tab between them, source and target, but has {len(columns)}"
        )
    source, target = columns
    return _checked(source, target, name)


def _of_jsonl(line: str, name: str) -> TextPair:
    given = json_object(line, name)
    for field in TextPair._fields:
        if not isinstance(given.get(field), str):
            raise ValueError(f"{name} needs the field {field!r}, a string")
    return _checked(given["source"], given["target"], name)


def _checked(source: str, target: str, name: str) -> TextPair:
    if not source:
        raise ValueError(f"{name} has an empty source, but there must be something to read")
    return TextPair(source, target)
