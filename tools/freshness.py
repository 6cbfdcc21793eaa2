"""Records what an executed notebook used, and says which of it has changed since.

While a notebook is executed, `recorder/` listens in its kernel, and in every Python that the kernel starts. A notebook
is stale if any of these is no longer as it was then:

- the code of its cells;
- a module of the package that they ran, directly or indirectly, without its comments and docstrings;
- the source of a function or class that they showed, to the last character;
- any other file of the package that they opened: data, a quiz, a view's JavaScript without its comments;
- the names in a folder of the package that they listed, and whether there is a file that they looked for;
- the pinned versions, and the function that executes notebooks;
- its outputs, since somebody may have run or merged it.

All of a module counts: too much costs only time, because a notebook is stored anew only if its `outputs` differ. If a
cell or a module may read docstrings, with `help`, `…?` or `__doc__`, all modules count to the last character. Not heard
are other programs (`!cat`), libraries not written in Python (`safe_open`), and an import that fails only today.

The record, `book/freshness.txt`, has two lines for each notebook: its name, and the hashes of all that it used. Two
branches meet in one line only if that notebook used what both changed. Git then keeps both lines (.gitattributes), and
the notebook is stale.
"""

from __future__ import annotations

import ast
import hashlib
import json
import math
import os
import re
from functools import cache
from pathlib import Path
from typing import Any

from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, String

RECORD = Path("book") / "freshness.txt"
ALWAYS = ("opens ../../requirements.txt", "shows ../../tools/notebooks.py execute")
READS_DOCSTRINGS = re.compile(r"__doc__|\b(getdoc|pydoc|doctest|typer)\b")
ASKS_FOR_DOCSTRINGS = re.compile(
    rf"{READS_DOCSTRINGS.pattern}|\bhelp\b(?! \w)|^\s*\?|^[^#\n]*\?\s*$|%p(doc|info)|__dict__|\b(vars|getmembers)\b",
    re.MULTILINE,
)
Uses = dict[str, str]  # a hash for each use, such as "runs scratch/model.py": a verb, and a path


def listening(package: Path, uses: Path) -> dict[str, str]:
    """Returns an environment in which a process, and all that it starts, writes its uses of `package` into `uses`."""
    folders = [Path(__file__).resolve().parent / "recorder", package.parent, os.environ.get("PYTHONPATH", "")]
    path = os.pathsep.join(map(str, folders)).rstrip(os.pathsep)
    return {"GLASSFORMER_PACKAGE": str(package), "GLASSFORMER_USES": str(uses), "PYTHONPATH": path}


def heard(package: Path, uses: Path, cells: str, began: float) -> Uses:
    """Returns what a process that `began` then wrote into `uses`, with the hash of everything in it."""
    found = {*ALWAYS, *uses.read_text(encoding="utf-8").splitlines()}
    found -= {f"finds {use.split()[1]}" for use in found if not use.startswith("finds ")}
    modules = [_text(package / use.split()[1]) or "" for use in found if use.startswith("runs ")]
    if ASKS_FOR_DOCSTRINGS.search(cells) or any(map(READS_DOCSTRINGS.search, modules)):
        found = {re.sub("^runs ", "opens ", use) for use in found}
    return {"cells": _hash(cells)} | {use: _fingerprint(package, use, began) for use in sorted(found)}


def changed(package: Path, uses: Uses, cells: str, gave: str) -> list[str]:
    """Returns those uses that have changed, and whether the cells and the outputs have."""
    now = {"cells": _hash(cells), "outputs": gave}
    new = [use for use, before in uses.items() if before != (now.get(use) or _fingerprint(package, use))]
    return [use.partition(" ")[2] or use for use in new]


def recorded(root: Path) -> dict[str, list[Uses]]:
    """Returns what each notebook used; twice, if two branches executed it and nobody has since they met."""
    found: dict[str, list[Uses]] = {}
    name = ""
    for line in (_text(root / RECORD) or "").splitlines():
        if line.startswith("{"):
            found.setdefault(name, []).append(json.loads(line))
        else:
            name = line
    return found


def record(root: Path, notebook: str, uses: Uses) -> None:
    """Stores what a notebook used, and forgets notebooks that are gone."""
    known = {name: used for name, used in recorded(root).items() if (root / name).exists()}
    known[notebook] = [uses]
    lines = [line for name in sorted(known) for line in (name, *map(json.dumps, known[name]))]
    (root / RECORD).write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")


def outputs(notebook: dict[str, Any]) -> str:
    """Returns a hash of what the cells of a notebook gave, and of its views' states, but for comments in their code."""
    gave = [(cell["execution_count"], cell["outputs"]) for cell in notebook["cells"] if "outputs" in cell]
    gave, widgets = json.loads(json.dumps([gave, notebook["metadata"].get("widgets", {})]))
    names: dict[str, str] = {}
    for name, model in (one for kind in widgets.values() for one in kind["state"].items()):
        state = model["state"]
        is_module = {"source", "style"} <= state.keys()
        for key in ("source", "style") if is_module else {"_esm"} & state.keys():
            state[key] = without_comments(state[key], "css" if key == "style" else "js")
        if is_module:  # its name follows from its text
            names[name] = _hash(json.dumps(state))
    told = re.sub("[0-9a-f]{32}", lambda found: names.get(found[0], found[0]), json.dumps([gave, widgets]))
    return _hash(json.dumps(json.loads(told), sort_keys=True))


def _fingerprint(package: Path, use: str, began: float = math.inf) -> str:
    """Returns the hash of what counts in a file or folder; an empty one if it does not exist."""
    verb, file, name = [*use.split(" ", 2), ""][:3]
    path = package / file
    if verb == "finds":
        return "file" if path.is_file() else "folder" if path.is_dir() else ""
    if verb == "lists" and path.is_dir():
        return _hash("\n".join(sorted({inner.name for inner in path.iterdir()} - {"__pycache__"})))
    content = _text(path)
    if content is None:
        return ""
    if path.stat().st_mtime > began:
        return "changed while the notebook was executed"  # perhaps after it was read
    if verb == "runs":
        return _hash(code_of(content))
    if verb == "shows":
        return _hash(source_of(name, content) or content)
    return _hash(without_comments(content, path.suffix[1:]) if path.suffix in (".js", ".css") else content)


def _text(path: Path) -> str | None:
    """Returns the text of a file, with the same ends of lines everywhere; any bytes, without loss."""
    if not path.is_file():
        return None
    return path.read_bytes().replace(b"\r\n", b"\n").decode("utf-8", "surrogateescape")


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:12]


@cache
def without_comments(source: str, language: str) -> str:
    """Returns JavaScript or CSS without its comments and the spaces around them, but for one space or end of a line."""
    code = gap = ""
    for kind, text in get_lexer_by_name(language, ensurenl=False, stripnl=False).get_tokens(source):
        if kind in Comment or (not text.strip() and kind not in String):
            gap += text
        else:
            code += ("\n" if "\n" in gap else " " if gap else "") + text
            gap = ""
    return code


@cache
def code_of(source: str) -> str:
    """Returns what Python executes of a module, without comments, docstrings and layout, the same for all Pythons."""
    return repr(_shape(ast.parse(source)))


def _shape(node: Any) -> Any:
    """Returns a part of a syntax tree without statements that are only a string, and without empty fields."""
    match node:
        case ast.Expr(value=ast.Constant(value=str())):
            return ()
        case ast.JoinedStr():  # in which Python 3.12 has empty strings
            return "JoinedStr", [_shape(one) for one in node.values if getattr(one, "value", None) != ""]
        case ast.AST():
            fields = [(name, _shape(value)) for name, value in ast.iter_fields(node)]
            return [type(node).__name__, *(one for one in fields if one[1] not in (None, []))]
        case list():
            return [shape for shape in map(_shape, node) if shape != ()]
    return node


def source_of(name: str, source: str) -> str:
    """Returns the source of the function or class with this qualified name, with decorators; empty if there is none."""
    found: list[Any] = [ast.parse(source)]
    for part in name.split("."):
        inside: list[Any] = [node for outer in found for node in ast.walk(outer)]
        found = [node for node in inside if hasattr(node, "decorator_list") and node.name == part]
    lines = source.split("\n")
    spans = [(min(one.lineno for one in (node, *node.decorator_list)), node.end_lineno) for node in found]
    return "\n".join(line for first, last in spans for line in lines[first - 1 : last])
