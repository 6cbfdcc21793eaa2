"""Reads and writes the reader's own file: a module of the functions that they wrote and `check` accepted.

``my_transformer.py`` is next to the notebooks. Readers may edit it freely, so this code changes only the lines that
it must and leaves all others identical, byte for byte.
"""

import ast
import builtins
import contextlib
import difflib
import importlib.util
import io
import os
import re
import symtable
import sys
import tokenize
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from glassformer.atomic_files import locked, write_whole

from .source import (
    MODULE,
    CannotSaveError,
    Definition,
    Piece,
    Taken,
    first_line,
    imports_in,
    names_used,
    take,
)
from .timelimit import OutOfTime, Stop, call_within

ENVIRONMENT = "GLASSFORMER_MINE"
SECONDS = 5.0  # time limit for importing the reader's file

NEW = '"""My own Transformer: what I wrote and Glassformer\'s exercises accepted. Mine to edit, import and show."""\n'

ADDED, SAME, DIFFERENT, REPLACED = "added", "same", "different", "replaced"


@dataclass(frozen=True)
class Saved:
    """The outcome of `save`: one of the four words above, what was added or replaced, the diff, and the old copy."""

    status: str
    besides: tuple[str, ...] = ()
    instead: tuple[str, ...] = ()
    diff: str = ""
    copy: Path | None = None


def own_path() -> Path:
    """Returns the path of the reader's file: the environment's choice, the notebooks' folder, or the current one."""
    chosen = os.environ.get(ENVIRONMENT)
    if chosen:
        return Path(chosen)
    here = Path.cwd()
    folder = next((folder for folder in (here, *here.parents) if folder.name == "notebooks"), here)
    return folder / f"{MODULE}.py"


def within_reach() -> None:
    """Make ``from my_transformer import …`` work in this kernel, even in the folder of the practice notebooks."""
    with contextlib.suppress(OSError):  # a kernel whose folder was deleted
        folder = own_path().parent
        if folder.name == "notebooks" and folder != Path.cwd() and str(folder) not in sys.path:
            sys.path.append(str(folder))  # last, so that it hides no other module


def save(function: Callable[..., Any], *, replace: bool) -> Saved:
    """Write the function into the reader's file, together with what it needs.

    Raises:
        CannotSaveError: the function or the current file makes that impossible; nothing was written.
        OSError: the file could not be read or written.
    """
    taken, path = take(function), own_path()
    with locked(path):
        data = path.read_bytes() if path.exists() else NEW.encode()
        change = _Change(data, taken)
        if not change.edits:
            return Saved(SAME)
        if change.diff and not replace:
            return Saved(DIFFERENT, diff=change.diff)
        result = change.result()
        copy = _copied(path, data) if change.diff else None
        write_whole(path, result)
        with contextlib.suppress(OSError):  # within the same second, Python would use the old bytecode
            Path(importlib.util.cache_from_source(str(path.resolve()))).unlink()
    return Saved(
        REPLACED if change.diff else ADDED, tuple(change.besides), tuple(change.instead), change.diff, copy
    )


def load() -> ModuleType | None:
    """Returns the reader's file as a module, read anew from disk, or None if there is no file.

    Raises:
        CannotSaveError: it cannot be imported; the message says why.
    """
    path = own_path()
    if not path.exists():
        return None
    module = ModuleType(MODULE)
    module.__file__ = str(path)

    before = sys.modules.get(MODULE)
    sys.modules[MODULE] = module
    try:
        error = call_within(SECONDS, lambda: _run(path, module))
    except OutOfTime:
        error = TimeoutError(f"it was still running after {SECONDS:g} s")
    if error is None:
        return module
    del sys.modules[MODULE]
    if before is not None:
        sys.modules[MODULE] = before
    lines = [one.lineno for one in traceback.extract_tb(error.__traceback__) if one.filename == str(path)]
    line = getattr(error, "lineno", None) or next(reversed(lines), None)
    where = f" (line {line})" if line else ""
    raise CannotSaveError(f"{type(error).__name__}: {getattr(error, 'msg', error)}{where}")


def function_in(module: ModuleType | None, name: str) -> Any:
    """Returns the reader's function of that name, or None: code that was saved may also import the book's."""
    function = vars(module).get(name) if module else None
    books = str(getattr(function, "__module__", "")).startswith("glassformer.")
    return function if callable(function) and not books else None


def _run(path: Path, outside: ModuleType) -> BaseException | None:
    try:
        exec(compile(path.read_bytes(), str(path), "exec"), vars(outside))
    except Stop:
        raise
    except BaseException as error:  # whatever it is, the reader should see it
        return error
    return None


def trouble() -> str:
    """Returns a sentence on why the reader's file cannot be imported and used; empty if it can."""
    try:
        module = load()
    except CannotSaveError as error:
        return f"{MODULE}.py cannot be imported as it is now. {error}"
    if module is None:
        return ""
    with tokenize.open(own_path()) as file:
        missing = sorted(names_used(file.read()) - set(vars(module)) - set(dir(builtins)))
    listed = ", ".join(f"`{name}`" for name in missing)
    return f"{MODULE}.py uses {listed}, which it does not define." if missing else ""


def _copied(path: Path, data: bytes) -> Path:
    """Copies the current file under the next free number, and returns the copy's path."""
    folder = path.with_name(f"{MODULE}_old")
    numbers = [int(one.stem) for one in folder.glob("*.py") if one.stem.isdecimal()]
    copy = folder / f"{max(numbers, default=0) + 1:03d}.py"
    write_whole(copy, data)
    return copy


class _Change:
    """The changes that add what was taken to the file.

    Attributes:
        edits: (first, last, text): the text replaces the lines from first up to last.
        diff: the difference from an existing definition of the same name that is replaced; empty if there is none.
        besides: names of the imports, helpers and constants that are added with the function.
        instead: imports of the book's functions that the reader's own functions replace.
    """

    def __init__(self, data: bytes, taken: Taken) -> None:
        try:
            self.encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
            text = data.decode(self.encoding)
            self.body = ast.parse(text).body
        except (SyntaxError, ValueError) as error:
            line = f", line {error.lineno}" if getattr(error, "lineno", None) else ""
            raise CannotSaveError(
                f"{MODULE}.py is not valid Python ({getattr(error, 'msg', error)}{line}). Fix it first; "
                "the file was not changed."
            ) from error
        if not self.encoding.startswith("utf-8"):
            raise CannotSaveError(f"{MODULE}.py is encoded in {self.encoding}. Store it as UTF-8 first.")
        self.lines = list(io.StringIO(text, newline=""))  # as Python counts them, ends and all
        self.end = re.findall(r"\r?\n|$", text)[0] or "\n"
        self.bound = {
            symbol.get_name()
            for symbol in symtable.symtable(text, MODULE, "exec").get_symbols()
            if symbol.is_assigned() or symbol.is_imported()
        }
        self.edits: list[tuple[int, int, str]] = []
        self.place: int | None = None  # the function's first line, if it is already there
        self.besides: list[str] = []
        self.instead: list[str] = []
        self.diff = ""
        self._merge(taken)

    def result(self) -> bytes:
        """Returns the file with its edits."""
        lines, at = [], 0
        for first, last, text in sorted(self.edits, key=lambda edit: edit[:2]):
            lines += self.lines[at:first]
            if lines and not lines[-1].endswith(("\n", "\r")):
                lines.append(self.end)
            lines.append(text.replace("\n", self.end))
            at = last
        return "".join(lines + self.lines[at:]).encode(self.encoding)

    def _merge(self, taken: Taken) -> None:
        function = taken.pieces[-1]
        imports = [one for one in taken.imports if one not in imports_in(self.body)]
        new = [piece for piece in taken.pieces if not self._there(piece, taken)]
        for piece in new:
            if piece.name in self.bound and not self._instead_of_the_books(piece.name):
                raise self._clash(piece.name)
        for one in imports:
            if one.name in self.bound:
                raise self._clash(one.name)
        text = "\n\n\n".join(map(str, new))
        if imports:
            self._insert_imports([str(one) for one in imports])
        if new and self.place is not None:
            self.edits.append((self.place, self.place, f"{text}\n\n\n"))
        elif new:
            end = len(self.lines)
            self.edits.append((end, end, "\n\n" * bool(self.lines) + f"{text}\n"))
        self.besides = [str(one) for one in imports] + [one.name for one in new if one is not function]

    def _there(self, piece: Piece, taken: Taken) -> bool:
        """Returns whether the file already defines this piece; if the code differs, plans to replace it."""
        (wanted,) = ast.parse(piece.code).body
        node = self._definition_of(piece.name)
        if node is None:
            return False
        if isinstance(node, ast.Assign) != isinstance(wanted, ast.Assign):
            raise self._clash(piece.name)
        first, last = first_line(node) - 1, node.end_lineno or node.lineno
        is_function = piece is taken.pieces[-1]
        if is_function:
            self.place = first
        if ast.dump(node) == ast.dump(wanted):
            return True
        going = {one.name for one in taken.pieces}
        others = [one for one in self.body if getattr(one, "name", None) not in going and one is not node]
        users = [one for one in others if piece.name in names_used(ast.unparse(one))]
        if users and not is_function:
            user = getattr(users[0], "name", f"line {users[0].lineno}")
            raise CannotSaveError(
                f"{MODULE}.py has another `{piece.name}`, which `{user}` uses. Rename yours."
            )
        if any(
            first < (one.end_lineno or 0) and first_line(one) <= last for one in self.body if one is not node
        ):
            raise CannotSaveError(f"`{piece.name}` shares line {first + 1} of {MODULE}.py with other code.")
        here = "".join(self.lines[first:last]).replace("\r\n", "\n").replace("\r", "\n")
        self.edits.append((first, last, piece.code + "\n" * here.endswith("\n")))
        diff = difflib.unified_diff(
            here.splitlines(), piece.code.splitlines(), f"{MODULE}.py", "here", lineterm=""
        )
        self.diff = "\n".join([self.diff, *diff]).lstrip("\n")
        return True

    def _instead_of_the_books(self, name: str) -> bool:
        """Plan to remove the line with which `keep` imported the book's function. Returns False if it is another."""
        nodes = [one for one in self.body if self._binds(one, name)]
        (node, *others) = nodes
        line = "".join(self.lines[node.lineno - 1 : node.end_lineno]).strip()
        if others or not re.fullmatch(rf"from glassformer\.[\w.]+ import {name}", line):
            return False
        self.edits.append((node.lineno - 1, node.lineno, ""))
        self.instead.append(line)
        return True

    def _definition_of(self, name: str) -> ast.stmt | None:
        """Returns the last statement at the top level of the file that defines this name, or else assigns to it."""
        defined = [one for one in self.body if isinstance(one, Definition) and one.name == name]
        assigned = [one for one in self.body if isinstance(one, ast.Assign)]
        targets = [one for one in assigned if [getattr(target, "id", "") for target in one.targets] == [name]]
        return next(reversed(defined or targets), None)

    def _clash(self, name: str) -> CannotSaveError:
        """Returns the error for a name that already means something else in the file."""
        line = next((one.lineno for one in self.body if self._binds(one, name)), 1)
        return CannotSaveError(
            f"`{name}` means something else in {MODULE}.py (line {line}). Rename one of the two."
        )

    def _binds(self, node: ast.stmt, name: str) -> bool:
        code = ast.unparse(node)
        symbols = symtable.symtable(code, MODULE, "exec").get_symbols()
        return any(one.get_name() == name and (one.is_assigned() or one.is_imported()) for one in symbols)

    def _insert_imports(self, said: list[str]) -> None:
        """Inserts imports below the existing imports at the top, or below the docstring or comments."""
        at, text = 0, "".join(f"{one}\n" for one in said)
        top = []
        for node in self.body:
            docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and not top
            if not (docstring or isinstance(node, ast.Import | ast.ImportFrom)):
                break
            top.append(node)
        if top:
            at = top[-1].end_lineno or 0
            text = text if isinstance(top[-1], ast.Import | ast.ImportFrom) else f"\n{text}"
        else:
            while at < len(self.lines) and self.lines[at].startswith("#"):
                at += 1
            text = f"{text}\n" if at < len(self.lines) else text
        self.edits.append((at, at, text))
