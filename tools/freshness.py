"""Records what an executed notebook was made from, and finds what of it has changed since.

A notebook is stale when one of these is no longer what it was:

- its own cells;
- the code of a module of the package that it imports, itself or through others. Comments, docstrings and empty
  lines are not code: they cannot change what is computed;
- the source of a function or class that it shows, to the last character;
- any other file of the package that it opens: data, a quiz, a widget's JavaScript;
- the names in a folder of the package that it lists.

Nothing else makes it stale. Python itself tells what is used: while a notebook is executed, `recorder/` listens
in its kernel, and in every Python that the kernel starts, to what is opened or listed and by whom.

A docstring that is asked for leaves no trace. So a text with a cell that may ask, by `help`, `…?`, `%pdoc` or
`__doc__`, counts docstrings as code, and a module of the package that reads docstrings counts to the last character.

What Python does not tell goes unheard:

- whether a file is there, how large and how old it is, and an import that fails today and would not tomorrow;
- a docstring of another module than the one that reads it, and the comment above a function (`getcomments`);
- what another program reads (`!cat`), a library that is not written in Python (`safe_open`), or a Python that is
  told to ignore its environment (`python -I`).
"""

from __future__ import annotations

import ast
import hashlib
import io
import os
import re
import tokenize
from functools import cache
from pathlib import Path

RECORDER = Path(__file__).resolve().parent / "recorder"
KINDS = ("imports", "opens", "lists", "shows")
ASKS_FOR_DOCSTRINGS = re.compile(r"\bhelp\b|__doc__|\bgetdoc\b|^\s*\?|\?\s*$|%p(doc|info)", re.MULTILINE)
READS_DOCSTRINGS = re.compile(r"__doc__|\bgetdoc\b")

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Uses = dict[str, dict[str, str]]
"""For each kind of use the files or folders, a shown object with its name after a space, and a hash of each."""


def listening(package: Path, uses: Path) -> dict[str, str]:
    """The environment in which a process, and all that it starts, writes its use of `package` into `uses`."""
    paths = [str(RECORDER), str(package.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        "GLASSFORMER_PACKAGE": str(package),
        "GLASSFORMER_USES": str(uses),
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONPYCACHEPREFIX": "",  # compiled modules lie beside their sources
    }


def heard(package: Path, uses: Path, *, docstrings: bool) -> Uses:
    """Reads what a process wrote into `uses`, and adds the current hash of everything."""
    found: Uses = {kind: {} for kind in KINDS}
    for line in sorted(set(uses.read_text(encoding="utf-8").splitlines())):
        kind, file, name = line.split("\t")
        use = f"{file} {name}".strip()
        found[kind][use] = fingerprint(package, kind, use, docstrings)
    return found


def changed(package: Path, uses: Uses, *, docstrings: bool) -> list[str]:
    """Those uses that are no longer what they were."""
    return [
        use
        for kind in KINDS
        for use, before in uses[kind].items()
        if fingerprint(package, kind, use, docstrings) != before
    ]


def fingerprint(package: Path, kind: str, use: str, docstrings: bool) -> str:
    """A hash of what counts in a file or folder that is used in this way; of what is not there, an empty one."""
    file, _, name = use.partition(" ")
    path = package / file
    if kind == "lists" and path.is_dir():
        names = {inner.name for inner in path.iterdir()} - {"__pycache__"}
        return _hash("\n".join(sorted(names)).encode(), kind, name)
    if kind != "lists" and path.is_file():
        content = path.read_bytes().replace(b"\r\n", b"\n")
        return _hash(content, "opens" if docstrings and kind == "imports" else kind, name)
    return ""


@cache
def _hash(content: bytes, kind: str, name: str) -> str:
    if kind == "imports" and not READS_DOCSTRINGS.search(content.decode()):
        content = code_of(content.decode()).encode()
    elif kind == "shows":
        content = source_of(name, content.decode()).encode()
    return hashlib.sha256(content).hexdigest()[:16]


def code_of(source: str) -> str:
    """Python source without its comments, its docstrings and its empty lines; the same in every Python."""
    lines = source.split("\n")
    within: set[int] = set()  # lines that end inside a string: they count as they are
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        within |= set(range(token.start[0] - 1, token.end[0] - 1))
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str):
            first, end = node.lineno - 1, node.end_lineno or node.lineno
            before = lines[first].encode()[: node.col_offset].decode()
            after = lines[end - 1].encode()[node.end_col_offset :].decode()
            lines[first:end] = [*[""] * (end - first - 1), before + after]
            within -= set(range(first, end - 1))
    return "\n".join(
        line if row in within else line.rstrip()
        for row, line in enumerate(lines)
        if row in within or line.strip()
    )


def source_of(name: str, source: str) -> str:
    """The source of the function or class with this qualified name, decorators included; of none, nothing."""
    outer, *inner = name.split(".")
    found = [node for node in _definitions(ast.parse(source)) if node.name == outer]
    for part in inner:
        found = [node for parent in found for node in _definitions(parent) if node.name == part]
    lines = source.split("\n")
    return "\n".join("\n".join(lines[_first_line(node) - 1 : node.end_lineno]) for node in found)


def _first_line(node: Definition) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def _definitions(node: ast.AST) -> list[Definition]:
    """The functions and classes written in a node, in an `if` or a `try` too, but not in one another."""
    found: list[Definition] = []
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, Definition):
            found.append(inner)
        else:
            found += _definitions(inner)
    return found
