"""Reads what a reader's own files hold for a training: one text from several files, or pairs of texts."""

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np

from glassformer import text as texts
from glassformer.atomic_files import replacing
from glassformer.shapes import Integer
from glassformer.text import BytePairTokenizer, CharTokenizer
from glassformer.untrusted_files import a_file, json_object

IDS = "ids.bin"
"""In a run's folder: the ids of a text that has many, after the checksums of text and tokenizer and of the ids."""

IN_MEMORY = 2**23  # ids of a text: 64 MB

PAIR_FILES = (".tsv", ".jsonl")
"""How the name of a file with pairs may end."""


class TextPair(NamedTuple):
    """A text to read, and the one to write in answer."""

    source: str
    target: str


class OwnText:
    """What `text` in [data] names: the book's Shakespeare, a file, all .txt files of a folder, or several.

    It is read whenever one iterates over it, in parts of about `text.PART` bytes, so it does not have to fit into
    memory. The next part begins with white space, so the tokens of all parts are those of the whole text; without
    white space, a part is longer.

    The files of a folder and of the folders in it come in the order of their paths, and several files or folders in the
    order of the list. Each text begins on a new line; with `document_end`, it comes between two texts instead.

    Raises:
        FileNotFoundError: a file is missing, or a folder has no .txt file.
        ValueError: a file is not text in UTF-8, or is empty; the message names it.
    """

    def __init__(self, text: str | Sequence[str] | None, document_end: str | None = None) -> None:
        self.is_the_books, self.end = text is None, document_end or "\n"
        self.files: list[Path] = []
        for name in map(Path, [text] if isinstance(text, str) else text or []):
            found = (
                sorted(name.rglob("*.txt"), key=lambda path: path.relative_to(name).parts)
                if name.is_dir()
                else [name]
            )
            if not found:
                raise FileNotFoundError(f"{name} is a folder without a file that ends in .txt")
            for file in found:
                a_file(file)
            self.files += found

    def __iter__(self) -> Iterator[str]:
        rest = ""
        for part in self._parts():
            known = len(rest)
            rest += part
            # The last white space, and then the beginning of it, unless only Python takes it for white space
            cut = len(rest[: max(rest.rfind(" ", known), rest.rfind("\n", known)) + 1].rstrip())
            if cut and rest[cut] not in "\x1c\x1d\x1e\x1f":
                yield rest[:cut]
                rest = rest[cut:]
        yield rest

    def check_end(self) -> None:
        """Checks that the character that ends a document is at most at the end of each of several files.

        Raises:
            ValueError: a file has it elsewhere.
        """
        for file in self.files if len(self.files) > 1 else ():
            before = ""
            for part in texts.parts_of(file):
                if self.end in (before + part)[:-1]:
                    raise ValueError(
                        f"document_end={self.end!r} stands between files, but {file} has this character in its text, "
                        "where it would end a document too: choose one that no file has"
                    )
                before = part[-1:]

    def _parts(self) -> Iterator[str]:
        if self.is_the_books:
            yield texts.corpus()
        last = self.end
        for file in self.files:
            if not last.endswith(self.end):
                yield self.end
            last = ""
            for part in texts.parts_of(file):
                yield part
                last = (last + part)[-len(self.end) :]


def ids_of(
    tokenizer: CharTokenizer | BytePairTokenizer, parts: Iterable[str], path: Path | None = None
) -> Integer[np.ndarray, " N"]:
    """Returns the ids of a text that is given in parts, as `OwnText` cuts it.

    More than `IN_MEMORY` ids are written to the file at `path` and stay there: reading a window reads those bytes. A
    file that already has the ids of this text with this tokenizer is used as it is, unless it is damaged.

    Raises:
        ValueError: the tokenizer lacks a character.
        OSError: a file cannot be read or written.
    """
    if isinstance(tokenizer, BytePairTokenizer) and _reaches_over_white_space(tokenizer):
        parts = ["".join(parts)]
    dtype, found, n_found = np.min_scalar_type(tokenizer.vocab_size - 1), [], 0
    if path is not None and path.is_file():
        with open(path, "rb") as file:
            same = file.read(32) == _digest(tokenizer, parts)
            if same and file.read(32) == hashlib.file_digest(file, "sha256").digest():
                return np.memmap(path, dtype, "r", offset=64)
    with ExitStack() as done:
        into, digest = None, hashlib.sha256()
        for part in parts:
            found.append(tokenizer.encode(part))
            n_found += len(found[-1])
            if path is not None and n_found > IN_MEMORY:
                if into is None:
                    into = done.enter_context(open(done.enter_context(replacing(path)), "wb"))
                    into.write(_digest(tokenizer, parts) + digest.digest())
                for ids in found:
                    digest.update(content := ids.astype(dtype).tobytes())
                    into.write(content)
                found.clear()
        if into is None:
            return np.concatenate(found)
        into.seek(32)
        into.write(digest.digest())
    assert path is not None
    return np.memmap(path, dtype, "r", offset=64)


def _digest(tokenizer: CharTokenizer | BytePairTokenizer, parts: Iterable[str]) -> bytes:
    """Returns 32 bytes that only the same text with the same tokenizer has."""
    digest = hashlib.sha256(tokenizer.to_json().encode())
    for part in parts:
        digest.update(part.encode())
    return digest.digest()


def _reaches_over_white_space(tokenizer: BytePairTokenizer) -> bool:
    """Returns whether a special token takes white space, so that a text cannot be cut before any."""
    added = tokenizer.tokenizer.get_added_tokens_decoder().values()
    return any(token.rstrip or token.content != "".join(token.content.split()) for token in added)


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
