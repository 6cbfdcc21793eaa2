"""Finds a function's source and everything that it needs in a file of its own: imports, helpers and constants."""

import ast
import builtins
import inspect
import io
import linecache
import symtable
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import Any

from .expect import describe

MODULE = "my_transformer"  # the reader's own file, which cannot import from itself
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
LONGEST_CONSTANT = 1000  # characters
WIDTH = 82  # of a line of code in a notebook


class CannotSaveError(Exception):
    """A function cannot be saved; the message is a sentence for the reader."""


@dataclass(frozen=True)
class Import:
    """One name that an import binds: ``import numpy as np`` is (numpy, "", np)."""

    module: str
    attribute: str
    name: str

    def __str__(self) -> str:
        said = f"from {self.module} import {self.attribute}" if self.attribute else f"import {self.module}"
        plain = self.attribute or self.module
        # `import a.b` binds a
        return said if self.name in (plain, plain.partition(".")[0]) else f"{said} as {self.name}"

    def is_of(self, value: Any) -> bool:
        """Returns whether this import currently binds exactly that value."""
        plain = not self.attribute and str(self) == f"import {self.module}"
        module = sys.modules.get(self.module.partition(".")[0] if plain else self.module)
        found = getattr(module, self.attribute, None) if self.attribute else module
        return module is not None and found is value


@dataclass(frozen=True)
class Piece:
    """A function, class or constant as its author typed it: its name, its lines, and the comment directly above."""

    name: str
    code: str
    comment: str = ""

    def __str__(self) -> str:
        return self.comment + self.code


@dataclass
class Taken:
    """The code that a function needs: imports, and pieces in a working order that ends with the function itself."""

    pieces: list[Piece] = field(default_factory=list)
    imports: list[Import] = field(default_factory=list)


def take(function: Callable[..., Any]) -> Taken:
    """Returns the function with everything that it uses from its notebook, and nothing else.

    Raises:
        CannotSaveError: its source is not available, or it uses something that no file can hold.
    """
    taken = Taken()
    _take(function, taken, set())
    return taken


def plain(function: Callable[..., Any], name: str) -> str:
    """Returns a function's source as a notebook would have it: under that name, without annotations and docstring."""
    code = textwrap.dedent(inspect.getsource(function))
    node: Any = ast.parse(code).body[0]
    lines = code.splitlines()
    for one in ast.walk(node):  # within the function
        said, begin = None, 0
        if isinstance(one, ast.AnnAssign):
            said, begin = one.annotation, one.target.end_col_offset or 0
        elif isinstance(one, ast.FunctionDef) and one is not node and one.returns:
            said, begin = one.returns, lines[one.returns.lineno - 1].rindex(" ->")
        if said is not None:
            line = lines[said.lineno - 1]
            lines[said.lineno - 1] = line[:begin] + line[said.end_col_offset :]
    documented = ast.get_docstring(node) is not None
    body = "\n".join(lines[node.body[0].end_lineno if documented else node.body[0].lineno - 1 :])
    for one in ast.walk(node.args):
        if isinstance(one, ast.arg):
            one.annotation = None
    head = f"def {name}({ast.unparse(node.args)}):"
    if len(head) > WIDTH:
        indent = " " * 4
        given = textwrap.fill(ast.unparse(node.args), WIDTH, initial_indent=indent, subsequent_indent=indent)
        head = f"def {name}(\n{given}\n):"
    return f"{head}\n{body.strip(chr(10))}"


def imports_in(body: list[ast.stmt]) -> Iterator[Import]:
    """Yields the imports among these statements, and inside their `if`, `try` and `with`."""
    for node in body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, "", alias.asname or alias.name.partition(".")[0])
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                yield Import(node.module or "", alias.name, alias.asname or alias.name)
        elif isinstance(node, ast.If | ast.Try | ast.With):
            for inner in ast.iter_child_nodes(node):
                statements = inner.body if isinstance(inner, ast.ExceptHandler) else [inner]
                yield from imports_in([one for one in statements if isinstance(one, ast.stmt)])


def names_used(code: str) -> set[str]:
    """Returns the names that this code looks up outside itself, including builtins."""
    module = symtable.symtable(code, "<names>", "exec")

    def walk(table: symtable.SymbolTable) -> Iterator[str]:
        for symbol in table.get_symbols():
            outside = table is module or symbol.is_global()
            if outside and (symbol.is_referenced() or (symbol.is_assigned() and table is not module)):
                yield symbol.get_name()
        for child in table.get_children():
            yield from walk(child)

    return set(walk(module))


def first_line(node: ast.stmt) -> int:
    """Returns the line on which a statement begins: that of its first decorator, if it has any."""
    decorators = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _take(value: Callable[..., Any], taken: Taken, seen: set[str]) -> None:
    piece, cell, scope = _definition(value)
    seen.add(piece.name)
    cells = [cell, *map(_parsed, _cells(scope))]
    for name in sorted(names_used(piece.code)):
        if name in seen:
            continue
        if name not in scope:
            if not hasattr(builtins, name):
                raise CannotSaveError(f"`{piece.name}` uses `{name}`, which is not defined anywhere.")
            continue
        seen.add(name)
        needed = _import(name, scope[name], cells, scope) or _constant(name, scope[name])
        if isinstance(needed, Import):
            taken.imports.append(needed)
        elif needed is not None:
            taken.pieces.append(needed)
        elif getattr(scope[name], "__name__", None) == name and callable(scope[name]):
            _take(scope[name], taken, seen)
        else:
            raise CannotSaveError(
                f"`{piece.name}` uses `{name}` from this notebook ({describe(scope[name])}), which cannot be "
                "saved in a file. Pass it as an argument, or create it inside the function."
            )
    taken.pieces.append(piece)


def _definition(value: Callable[..., Any]) -> tuple[Piece, ast.Module, dict[str, Any]]:
    """Returns the piece that defines a function or class, the cell or file that contains it, and its namespace."""
    inner = inspect.unwrap(value)
    name = getattr(inner, "__name__", type(inner).__name__)
    if name == "<lambda>":
        raise CannotSaveError("A lambda has no name, so it cannot be imported. Write it with `def`.")
    if not isinstance(inner, type | FunctionType):
        raise CannotSaveError(
            f"This is {describe(value)}. Only what was written with `def` or `class` can be saved."
        )
    if "<locals>" in inner.__qualname__:
        raise CannotSaveError(
            f"`{inner.__qualname__}` was defined inside another function, so it cannot be saved on its own. "
            "(If a decorator made it, add @functools.wraps to the decorator's inner function.)"
        )
    if isinstance(inner, type):
        functions = [one for one in vars(inner).values() if isinstance(one, FunctionType)]
        module = sys.modules.get(inner.__module__)
        scope = vars(module) if module else {}
        elsewhere = [(source, 0) for source in _cells(scope)]  # a class may have no methods of its own
    else:
        functions, scope, elsewhere = [inner], inner.__globals__, []
    for source, line in [*map(_around, functions), *elsewhere]:
        cell = _parsed(source)
        piece = _piece(name, source, cell, line)
        if piece is not None:
            return piece, cell, scope
    raise CannotSaveError(
        f"The source of `{name}` is not available. Type it into a cell of its own, without indentation and without "
        "%%magic above it, and check it again."
    )


def _around(function: FunctionType) -> tuple[str, int]:
    """Returns the text of the cell or file that contains a function, or an empty one, and the function's line."""
    code = function.__code__
    linecache.checkcache(code.co_filename)
    return "".join(linecache.getlines(code.co_filename, function.__globals__)), code.co_firstlineno


def _piece(name: str, source: str, cell: ast.Module, line: int) -> Piece | None:
    """The last function or class of that name at the cell's left edge; around that line, unless it is 0."""
    lines = list(io.StringIO(source))
    for node in reversed(cell.body):
        if isinstance(node, Definition) and node.name == name:
            start, end = first_line(node), node.end_lineno or node.lineno
            if not line or start <= line <= end:
                above = start - 1
                while above and lines[above - 1].startswith("#"):
                    above -= 1
                comment = "".join(lines[above : start - 1])
                return Piece(name, "".join(lines[start - 1 : end]).rstrip("\n"), comment)
    return None


def _cells(scope: dict[str, Any]) -> list[str]:
    """Returns the cells that were run in the notebook, or on a page of the book, the latest first."""
    cells = scope.get("In")
    return list(reversed(cells)) if isinstance(cells, list) else []


def _parsed(source: str) -> ast.Module:
    """Returns the source as a tree, which is empty if the source is not valid Python."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, TypeError):
        return ast.Module([], [])


def _import(name: str, value: Any, cells: list[ast.Module], scope: dict[str, Any]) -> Import | None:
    """Returns the import that gave the notebook this name: as the reader wrote it, or one that does the same."""
    for cell in cells:
        for one in imports_in(cell.body):
            if one.name == name and one.module != MODULE and one.is_of(value):
                return one
    if isinstance(value, ModuleType):
        return Import(value.__name__, "", name)
    module, attribute = getattr(value, "__module__", None), getattr(value, "__name__", None)
    written_here = (scope.get("__name__"), MODULE)
    if not isinstance(module, str) or not isinstance(attribute, str) or module in written_here:
        return None
    one = Import(module, attribute, name)
    return one if one.is_of(value) else None


def _constant(name: str, value: Any) -> Piece | None:
    """Returns a number, string or the like with its current value, which may have changed since `check` accepted it."""
    said = repr(value) if isinstance(value, int | float | complex | str | bytes | tuple | None) else ""
    try:
        same = len(said) <= LONGEST_CONSTANT and ast.literal_eval(said) == value
    except (ValueError, SyntaxError):
        return None
    return Piece(name, f"{name} = {said}") if same else None
