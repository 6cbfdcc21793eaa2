"""Reads small JSON and TOML documents from outside within limits, or refuses them with a one-sentence message.

The author of a file is unknown before it is read. So it must be a regular file and not a device, of a
plausible size, in UTF-8, not nested too deep, and its numbers must be finite. Every message begins with the
file's name.
"""

import json
import math
import os
import re
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import numpy as np

from glassformer import _checks as checks

BYTES = {"JSON": 16 * 1024**2, "TOML": 16 * 1024}
"""The maximal size of a document. Those on the hub are below a tenth; `tomllib` takes hours for long dotted keys."""

DEPTH = 64
"""How deeply objects and lists may be nested."""

Trail = tuple[str | int, ...]  # the keys and numbers that lead to an entry

NO_LIMIT = (("time_step_limit",),)
"""Lists in which infinity says that there is no limit."""

LARGEST = checks.LARGEST
LARGEST_WEIGHT = 1e19  # the square of a larger one overflows float32 and leads to NaN
DIGITS = 400  # a whole number with more digits is too large


ADDRESS = re.compile(
    r"[a-z][a-z0-9+.-]+:/+[^/]|(www\.[^/]+\.|huggingface\.co/|hf\.co/|github\.com/)", re.IGNORECASE
)
"""How a web address begins, also as `Path` writes it, with one slash."""

SIGNS = (
    (
        b"version https://git-lfs",
        "a pointer of Git LFS in place of the file itself, which `git lfs pull` fetches",
    ),
    (b"<!DOCTYPE html", "a web page: download the file itself, not the page that shows it"),
    (b"<html", "a web page: download the file itself, not the page that shows it"),
    (b"GGUF", "a GGUF file of llama.cpp"),
    (b"PK\x03\x04", "a zip archive, which PyTorch's pickles are, too"),
    (b"\x80", "a pickle of Python, which can run any program when it is opened"),
    (b"\x89HDF", "an HDF5 file, as TensorFlow writes it"),
    (b"\x93NUMPY", "an array of NumPy"),
    (b"\x1f\x8b", "compressed (gzip)"),
    (b"\x08", "a file of ONNX"),
    (b"%PDF", "a PDF"),
    (b"\x89PNG", "a picture"),
)
"""How files begin that are taken for others, and what they are."""

TENSORS = "a file of weights (safetensors)"


def no_address(path: object, instead: str = "a file or folder on this machine") -> None:
    """Checks that a path is no web address; `instead` says what to give in its place.

    Raises:
        FileNotFoundError: it is one.
    """
    if ADDRESS.match(str(path)) and not os.path.lexists(str(path)):
        written = re.sub(":/(?!/)", "://", str(path), count=1)
        raise FileNotFoundError(
            f"{checks.shown(written)} is a web address, from which nothing is downloaded: give {instead}"
        )


def seems(path: Traversable) -> str:
    """Returns what a file is by its first bytes, if it is something else than it seems by its name; otherwise ""."""
    with reading(path), path.open("rb") as file:
        return named(file.read(64))


@contextmanager
def reading(path: Traversable) -> Iterator[None]:
    """Makes an error of the system name the file: one that comes after it was opened names none."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise type(error)(error.errno, error.strerror, str(path)) from error


@contextmanager
def errors_about(what: str) -> Iterator[None]:
    """Puts the name of the file, flag or part that they are about in front of messages about its content."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise ValueError(f"{what} {error}") from error


def named(begin: bytes) -> str:
    """Returns what a file is that begins with these bytes, or ""."""
    if begin[8:9] == b"{" and 0 in begin[:8]:
        return TENSORS
    begin = begin.removeprefix(b"\xef\xbb\xbf").lstrip()
    return next((what for sign, what in SIGNS if begin.lower().startswith(sign.lower())), "")


def read_json(path: Traversable) -> dict[str, Any]:
    """Reads the JSON object in a file.

    Raises:
        FileNotFoundError: there is no such file.
        OSError: it cannot be opened.
        ValueError: it is a folder or a device, too large, not in UTF-8, no JSON object, nested too deep, a field
            is there twice, or a number is not finite. The message names the file and, where there is one, the field.
    """
    return json_object(text_in(path, BYTES["JSON"]), str(path))


def json_object(text: str, name: str) -> dict[str, Any]:
    """Parses a text that is a JSON object; messages call the text `name`.

    Raises:
        ValueError: it is no JSON object, nested too deep, an object has a field twice, or a number is not finite.
    """
    twice: list[str] = []

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """Returns the object with these fields, and notes a name that occurs twice: Python would keep the last."""
        fields = dict(pairs)
        if len(fields) < len(pairs):
            seen: set[str] = set()
            twice.extend(key for key, _ in pairs if key in seen or seen.add(key))
        return fields

    try:
        given = json.loads(text, parse_int=_whole, object_pairs_hook=once)
    except ValueError as error:
        if not text.strip():
            raise ValueError(f"{name} is empty") from None
        if what := named(text[:64].encode()):
            raise ValueError(f"{name} is not JSON but {what}") from None
        raise ValueError(f"{name} is not JSON: {error}") from None
    except RecursionError:
        raise _too_deep(name) from None
    if not isinstance(given, dict):
        raise ValueError(f"{name} must be a JSON object of fields, not {given!r:.40}")
    if twice:
        raise ValueError(f"{name} has the field {checks.shown(twice[0])!r} twice in one object")
    return _bounded(given, name)


def toml_tables(text: str, name: str) -> dict[str, Any]:
    """Parses a text in TOML into its tables; messages call the text `name`.

    Raises:
        ValueError: it is not TOML, too long, nested too deep, or a number is not finite.
    """
    if len(text) > BYTES["TOML"]:
        raise ValueError(f"{name} has {len(text):,} characters, but at most {BYTES['TOML']:,} are allowed")
    try:
        given = tomllib.loads(text)
    except ValueError as error:
        raise ValueError(f"{name} is not TOML: {error}") from None
    except RecursionError:
        raise _too_deep(name) from None
    return _bounded(given, name)


def text_in(path: Traversable, at_most: int) -> str:
    """Reads a UTF-8 file of at most so many bytes; a byte order mark at the start is left out.

    Raises:
        FileNotFoundError, OSError, ValueError: as `read_json`.
    """
    return decoded(bytes_in(path, at_most), path)


def bytes_in(path: Traversable, at_most: int | None = None) -> bytes:
    """Returns the bytes of a file, at most so many. Refuses anything that is not a file, such as a pipe or a device.

    Raises:
        FileNotFoundError: there is no such file.
        IsADirectoryError: it is a folder.
        OSError: it cannot be opened or read. The message names it.
        ValueError: it is a device, or has more bytes, or more than there is memory.
    """
    a_file(path)
    with reading(path), path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        if at_most is None:
            checks.fits(str(path), size)
        elif size > at_most:
            raise ValueError(f"{path} is larger than {at_most:,} bytes, the most that such a file may have")
        file.seek(0)
        return file.read(size)


def a_file(path: Traversable) -> None:
    """Checks that there is a file of that name, or a link to one, so that reading it will end.

    Raises:
        FileNotFoundError: nothing exists at `path`.
        IsADirectoryError: it is a folder.
        ValueError: it is neither a file nor a folder.
    """
    if path.is_file():
        return
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, not a file")
    if getattr(path, "exists", bool)():
        raise ValueError(f"{path} is not a file: it is a pipe or a device, which may never end")
    if getattr(path, "is_symlink", bool)():
        raise FileNotFoundError(f"{path} is a link to something that is missing")
    no_address(path)
    raise FileNotFoundError(f"{path} is missing")


def decoded(content: bytes, name: object, begins: int = 0) -> str:
    """Decodes bytes in UTF-8, without a byte order mark at the start; `begins` is their place in the file `name`.

    Raises:
        ValueError: they are not in UTF-8, or no text at all. The message names the byte.
    """
    if not begins and content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ValueError(f"{name} is in UTF-16, as its first two bytes show: save it in UTF-8")
    what = "" if begins else named(content[:64])
    if (zero := content.find(0)) >= 0:
        raise ValueError(f"{name} is not text" + (f" but {what}" if what else f": byte {begins + zero} is 0"))
    mark = b"" if begins else b"\xef\xbb\xbf"
    try:
        return content.removeprefix(mark).decode("utf-8")
    except UnicodeDecodeError as error:
        if what:
            raise ValueError(f"{name} is not text but {what}") from None
        place = error.start + (len(mark) if content.startswith(mark) else 0)
        raise ValueError(
            f"{name} is not in UTF-8: byte {begins + place} is 0x{content[place]:02x} ({error.reason}). "
            "If it is text in another encoding, such as Latin-1, save it in UTF-8"
        ) from None


def check_weights(name: str, values: np.ndarray) -> None:
    """Checks that all numbers of an array from a file are finite and smaller than `LARGEST_WEIGHT`.

    Raises:
        ValueError: one is not. The message begins with `name`.
    """
    # With a NaN, minimum and maximum are NaN too.
    if not values.size or (float(values.min()) > -LARGEST_WEIGHT and float(values.max()) < LARGEST_WEIGHT):
        return
    wrong = np.unravel_index(np.argmax(~(np.abs(values.astype(np.float64)) < LARGEST_WEIGHT)), values.shape)
    place = f" at {', '.join(map(str, wrong))}" if values.ndim else ""
    raise ValueError(
        f"{name} contains {values[wrong]:g}{place}: every weight must be finite and smaller than {LARGEST_WEIGHT:g}"
    )


def check_version(path: Path, found: Any, known: str) -> None:
    """Raises a ValueError if a file's format is the known one but for its number, as in "glassformer model 2"."""
    if isinstance(found, str) and found != known and found.rpartition(" ")[0] == known.rpartition(" ")[0]:
        raise ValueError(
            f"{path} has the format {checks.shown(repr(found))}, which another version of Glassformer wrote: this "
            f"one reads {known!r}"
        )


def _whole(digits: str) -> int | float:
    """Parses a whole number of JSON; one beyond float64 becomes infinite and is refused with its field."""
    return int(digits) if len(digits) < DIGITS else float(f"{'-' * digits.startswith('-')}inf")


def _bounded(given: dict[str, Any], name: str) -> dict[str, Any]:
    """Returns the document after checking that it is not nested too deep and all its numbers are finite."""
    level: list[tuple[Trail, Any]] = [((), given)]
    for _ in range(DEPTH):
        below: list[tuple[Trail, Any]] = []
        for trail, value in level:
            for key, entry in value.items() if isinstance(value, dict) else enumerate(value):
                if isinstance(entry, dict | list):
                    below.append(((*trail, key), entry))
                elif isinstance(entry, int | float) and not -LARGEST <= entry <= LARGEST:
                    if entry == math.inf and trail in NO_LIMIT:
                        continue
                    said = entry if isinstance(entry, float) else math.inf if entry > 0 else -math.inf
                    raise ValueError(
                        f"{name}: {_place((*trail, key))}={said} must be finite, "
                        f"at most {LARGEST:.2g} in absolute value"
                    )
        if not below:
            return given
        level = below
    raise _too_deep(name)


def _place(trail: Trail) -> str:
    """Returns the path to an entry: `rope_parameters.factor`, `eos_token_id[1]`."""
    keys = (f"[{key}]" if isinstance(key, int) else f".{checks.shown(key)}" for key in trail)
    return "".join(keys).removeprefix(".")


def _too_deep(name: str) -> ValueError:
    return ValueError(f"{name} is nested deeper than {DEPTH} objects or lists")
