"""Records what an executed notebook depends on, and finds which of it has changed since.

A notebook is stale if any of these has changed:

- its own cells;
- the code of the package that it runs. In each module that it imports, directly or indirectly, this includes the code
  outside functions, and the functions that were called;
- the source of a function or class that it shows, to the last character;
- any other file of the package that it opens: data, a quiz, or a widget's JavaScript without its comments;
- the names in a folder of the package that it lists;
- the answer to a question that it asks a look-up (`glassformer/lookups.py`). The answer replaces the code and the files
  behind it.

Nothing else makes it stale. Python itself reports what is used. While a notebook is executed, `recorder/` runs in its
kernel, and in every Python that the kernel starts. It records which files are opened and which folders are listed, and
by whom, and every function of the package reports when it is called. These do not count as code:

- comments, docstrings and the layout of a statement, because they cannot change the result;
- the body of a function that was not called. Its decorators and defaults count, and so does its presence in a class;
- a `raise` statement that was not reached, including the wording of its message;
- an assignment of constants, or a function without decorators, at the top of a module, if its name does not occur in
  the code that counts or in the cells, not even as a word in a string. Code that a cell or the package builds and
  executes at run time (`exec`, `eval`) counts as well. If code asks a module for all its names (`vars`, `dir`,
  `globals`), every name of that module counts, and if code uses `__dict__` or `import *`, every name of every module.

Reading a docstring leaves no trace. So if a cell may read one, with `help`, `…?`, `%pdoc` or `__doc__`, docstrings and
every name at the top of a module count as code. A module of the package that reads docstrings counts to the last
character.

Some dependencies cannot be observed:

- whether a file exists, its size and its age, and an import that fails today but might not tomorrow;
- a docstring of a module other than the one that reads it, and the comment above a function (`getcomments`);
- a file that a look-up reads and keeps, and that other code then uses without opening it;
- what another program reads (`!cat`), a library that is not written in Python (`safe_open`), or a Python that is
  told to ignore its environment (`python -I`);
- a name at the top of a module that is put together at run time (`getattr(module, "A" + "B")`).
"""

from __future__ import annotations

import ast
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tokenize
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, String

from tools.recorder import pieces

RECORDER = Path(__file__).resolve().parent / "recorder"
KINDS = ("imports", "calls", "names", "makes", "opens", "lists", "shows", "asks")
ASKS_FOR_DOCSTRINGS = re.compile(
    r"\bhelp\b|__doc__|\bgetdoc\b|^\s*\?|^[^#\n]*\?\s*$|%p(doc|info)", re.MULTILINE
)
READS_DOCSTRINGS = re.compile(r"__doc__|\bgetdoc\b")

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Place = tuple[int, int]  # row and column, as tokenize counts
Uses = dict[str, dict[str, str]]
"""For each kind of use the files or folders, a shown object with its name after a space, and a hash of each. For calls
the names of the functions of each file, and of its `raise` statements; the hash of the file is among the imports. For
code that was made, the words in it, by the file that made it; for questions the hash of the answer."""

ALL_NAMES = re.compile(r"__dict__|\bimport\n?\s*\*")
"""Code that asks a namespace for all its names, and that the recorder does not hear."""


def listening(package: Path, uses: Path) -> dict[str, str]:
    """Returns an environment in which a process, and all that it starts, writes its uses of `package` into `uses`."""
    paths = [str(RECORDER), str(package.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        "GLASSFORMER_PACKAGE": str(package),
        "GLASSFORMER_USES": str(uses),
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONPYCACHEPREFIX": "",  # compiled modules lie beside their sources
    }


def heard(package: Path, uses: Path, *, docstrings: bool, cells: str = "") -> Uses:
    """Returns what a process wrote into `uses`, with the current hash of everything in it."""
    found: Uses = {kind: {} for kind in KINDS}
    told: dict[str, str] = {}
    for line in sorted(set(uses.read_text(encoding="utf-8").splitlines())):
        kind, file, name = line.split("\t")
        if kind == "calls":
            found[kind][file] = f"{found[kind].get(file, '')} {name}".strip()
        elif kind == "makes":
            found[kind][file] = " ".join(sorted({*found[kind].get(file, "").split(), *name.split()}))
        elif kind == "asks":
            # two different answers to one question count as none
            told[file] = found[kind][file] = f"{told.get(file, '')} {name}".strip()
        else:
            found[kind][f"{file} {name}".strip()] = ""
    return found | fingerprints(package, found, docstrings=docstrings, cells=cells, answers=told)


def answers(package: Path, questions: Iterable[str]) -> dict[str, str]:
    """Returns the hash of the package's current answer to each question, or nothing if it gives none."""
    asked = sorted(set(questions))
    if not asked:
        return {}
    ran = subprocess.run(
        [sys.executable, str(RECORDER / "answers.py")],
        env=os.environ | {"PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1"},
        input=json.dumps(asked), capture_output=True, encoding="utf-8", check=True,
    )  # fmt: skip
    return dict(zip(asked, json.loads(ran.stdout.splitlines()[-1]), strict=True))


def changed(
    package: Path,
    uses: Uses,
    *,
    docstrings: bool,
    cells: str = "",
    answers_now: Mapping[str, str] | None = None,
) -> list[str]:
    """Returns those uses that have changed. Answers that are already known are not computed again."""
    if answers_now is None:
        answers_now = answers(package, uses["asks"])
    now = fingerprints(package, uses, docstrings=docstrings, cells=cells, answers=answers_now)
    return [use for kind in now for use, before in uses[kind].items() if now[kind][use] != before]


def fingerprints(
    package: Path,
    uses: Uses,
    *,
    docstrings: bool,
    cells: str,
    answers: Mapping[str, str] = MappingProxyType({}),
) -> Uses:
    """Returns a hash of what counts in each file or folder that is used; an empty one if it does not exist."""
    modules = {file: _content(package / file) for file in uses["imports"]}
    found = {"imports": _of_modules(modules, uses, docstrings, cells)}
    for kind in ("opens", "lists", "shows"):
        found[kind] = {use: _fingerprint(package, kind, use) for use in uses[kind]}
    found["asks"] = {question: answers.get(question, "") for question in uses["asks"]}
    return found


def _content(path: Path) -> bytes | None:
    return path.read_bytes().replace(b"\r\n", b"\n") if path.is_file() else None


def _fingerprint(package: Path, kind: str, use: str) -> str:
    file, _, name = use.partition(" ")
    path = package / file
    if kind == "lists":
        if not path.is_dir():
            return ""
        names = {inner.name for inner in path.iterdir()} - {"__pycache__"}
        return _hash("\n".join(sorted(names)).encode())
    content = _content(path)
    if content is None:
        return ""
    if kind == "shows":
        content = source_of(name, content.decode()).encode()
    elif path.suffix in (".js", ".css"):
        content = without_comments(content.decode(), path.suffix[1:]).encode()
    return _hash(content)


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


@cache
def without_comments(source: str, language: str) -> str:
    """Returns JavaScript or CSS without its comments and the empty lines that they leave."""
    tokens = get_lexer_by_name(language, ensurenl=False, stripnl=False).get_tokens(source)
    code = "".join(" " if kind in Comment else _in_one_line(kind, text) for kind, text in tokens)
    lines = "\n".join(line.rstrip() for line in code.split("\n") if line.strip())
    return lines.replace(_LINE_OF_TEMPLATE, "\n")


_LINE_OF_TEMPLATE = "\0"  # stands for the end of a line in a template, where spaces and empty lines count


def _in_one_line(kind: Any, text: str) -> str:
    """Returns the text of a token, in one line if it is part of a JavaScript template."""
    return text.replace("\n", _LINE_OF_TEMPLATE) if kind in String.Backtick else text


def _of_modules(
    contents: dict[str, bytes | None], uses: Uses, docstrings: bool, cells: str
) -> dict[str, str]:
    """Returns the hash of what counts in each module. What is named in one counts in every other."""
    found: dict[str, str] = {}
    counted: dict[str, list[Piece]] = {}
    optional: dict[str, dict[str, list[Piece]]] = {}
    words = set(words_in(cells)) | {"*"} if docstrings else set(words_in(cells))  # `help` shows every name
    words.update(*(made.split() for made in uses["makes"].values()))
    for file, content in contents.items():
        if content is None:
            found[file] = ""
        elif READS_DOCSTRINGS.search(content.decode()):
            found[file] = _hash(content)
            words |= words_in(content.decode())
        else:
            module = module_of(content.decode(), docstrings)
            called = uses["calls"].get(file, "").split()
            counted[file] = [module.rest, *(module.reached.get(name, Piece(f"no {name}")) for name in called)]
            # a function that was called counts with its head
            named = {name.partition("!")[0] for name in called}
            counted[file] += [piece for name in sorted(named) for piece in module.optional.get(name, [])]
            optional[file] = {name: these for name, these in module.optional.items() if name not in named}
            words |= {word for piece in counted[file] for word in piece.words}
    grows = True
    while grows:
        grows = False
        for file, those in optional.items():
            for name in [name for name in those if name in words or "*" in words or file in uses["names"]]:
                new = those.pop(name)
                counted[file] += new
                words |= {word for piece in new for word in piece.words}
                grows = True
    for file, these in counted.items():
        # in an order that does not depend on how they were found
        first, *others = (piece.code for piece in these)
        found[file] = _hash("\n\n".join([first, *sorted(others)]).encode())
    return found


@dataclass
class Piece:
    """Code without its comments and layout, and the words in it."""

    code: str
    words: frozenset[str] = frozenset()


@dataclass
class Module:
    """A source in pieces: what counts if it is called or reached, what counts if it is named, and the rest."""

    rest: Piece
    reached: dict[str, Piece] = field(default_factory=dict)
    optional: dict[str, list[Piece]] = field(default_factory=dict)


@cache
def module_of(source: str, docstrings: bool) -> Module:
    """Returns a Python source in its pieces, the same for every version of Python."""
    tree, tokens, lines = ast.parse(source), _tokens(source), source.split("\n")
    starts = [place for place, _ in tokens]

    def span(first: ast.AST, last: ast.AST | None = None) -> tuple[Place, Place]:
        last = last or first

        def place(row: int, column: int) -> Place:
            return row, len(lines[row - 1].encode()[:column].decode())

        return place(first.lineno, first.col_offset), place(last.end_lineno, last.end_col_offset)  # type: ignore

    def piece(where: tuple[Place, Place], cuts: list[tuple[Place, Place]]) -> Piece:
        inside = tokens[bisect_left(starts, where[0]) : bisect_left(starts, where[1])]
        kept, end = [], (0, 0)
        waiting = sorted(cut for cut in cuts if where[0] <= cut[0] < where[1])[::-1]
        for place, text in inside:
            while waiting and waiting[-1][0] <= place:
                end = max(end, waiting.pop()[1])
            if place >= end:
                kept.append((place, text))
        return _piece(kept)

    documentation = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str)
    ]
    said = [] if docstrings else [span(node) for node in documentation]
    module = Module(Piece(""))
    bodies = []
    for name, function in pieces.functions(tree):
        first = function.body[0]
        start, end = span(first)[docstrings and first in documentation], span(function.body[-1])[1]
        body = start, end
        bodies.append(body)
        cuts = []
        for number, one in enumerate(pieces.raises(function)):
            cuts.append(span(one))
            _add(module.reached, f"{name}!{number}", piece(span(one), said))
        _add(module.reached, name, piece(body, said + cuts))
    named = []
    made = Counter(name for node in tree.body for name in _droppable(node))
    for node in tree.body:
        names = _droppable(node)
        if names and all(made[name] == 1 for name in names):  # of two, the later one counts
            named.append(span(node))
            for name in names:
                module.optional.setdefault(name, []).append(piece(span(node), said + bodies))
    module.rest = piece(((0, 0), (len(lines) + 1, 0)), said + bodies + named)
    return module


def _add(pieces: dict[str, Piece], name: str, new: Piece) -> None:
    """Adds a function. Several may have one name, such as the parts of a property: all of them count as called."""
    old = pieces.get(name, Piece(""))
    pieces[name] = Piece(old.code + "\n" + new.code, old.words | new.words)


def _droppable(node: ast.stmt) -> list[str]:
    """Returns the names that a statement at the top of a module defines, if that is all it does."""
    if isinstance(node, pieces.Function):
        defaults = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
        plain = not node.decorator_list and all(map(_is_constant, defaults))
        return [node.name] if plain and not node.name.startswith("__") else []
    if isinstance(node, ast.Assign) and _is_constant(node.value):
        targets = [
            inner
            for target in node.targets
            for inner in (target.elts if isinstance(target, ast.Tuple) else [target])
        ]
    elif isinstance(node, ast.AnnAssign) and node.value and _is_constant(node.value):
        targets = [node.target]
    else:
        return []
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    plain = len(names) == len(targets) and not any(name.startswith("__") for name in names)
    return names if plain else []


def _is_constant(node: ast.expr) -> bool:
    """Returns whether an expression consists of literals and names, so that evaluating it has no effect elsewhere."""
    allowed = (
        ast.Constant, ast.Name, ast.Tuple, ast.List, ast.Set, ast.Dict, ast.Starred, ast.UnaryOp, ast.BinOp,
        ast.operator, ast.unaryop, ast.expr_context,
    )  # fmt: skip
    return all(isinstance(inner, allowed) for inner in ast.walk(node))


def _piece(tokens: list[tuple[Place, str]]) -> Piece:
    text = "\n".join(text for _, text in tokens)
    return Piece(text, words_in(text))


def words_in(code: str) -> frozenset[str]:
    """Returns the words of some code, including those in its strings, and `*` if it asks for all names."""
    return frozenset(re.findall(r"\w+", code) + ["*"] * bool(ALL_NAMES.search(code)))


def _tokens(source: str) -> list[tuple[Place, str]]:
    """Returns each token's position and text. The first of a line has the depth of the previous line."""
    layout = (tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING)
    found: list[tuple[Place, str]] = []
    lines = source.split("\n")
    opened: list[Place] = []  # formatted strings, which are one token up to Python 3.11 and many after it
    begins = True
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        kind = tokenize.tok_name[token.type]
        if token.type == tokenize.NEWLINE:
            begins = True
        elif kind == "FSTRING_START":
            opened.append(token.start)
        elif kind == "FSTRING_END":
            start, end = opened.pop(), token.end
            if not opened:
                rows = lines[start[0] - 1 : end[0]]
                rows[-1] = rows[-1][: end[1]]
                rows[0] = rows[0][start[1] :]
                found.append((start, f"@{start[1]} " * begins + "\n".join(rows)))
                begins = False
        elif not opened and token.type not in layout and token.string:
            found.append((token.start, f"@{token.start[1]} " * begins + token.string))
            begins = False
    return found


def source_of(name: str, source: str) -> str:
    """Returns the source of the function or class with this qualified name, with decorators; empty if there is none."""
    outer, *inner = name.split(".")
    found = [node for node in _definitions(ast.parse(source)) if node.name == outer]
    for part in inner:
        found = [node for parent in found for node in _definitions(parent) if node.name == part]
    lines = source.split("\n")
    return "\n".join("\n".join(lines[_first_line(node) - 1 : node.end_lineno]) for node in found)


def _first_line(node: Definition) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def _definitions(node: ast.AST) -> list[Definition]:
    """Returns the functions and classes defined in a node, also in an `if` or a `try`, but not inside one another."""
    found: list[Definition] = []
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, Definition):
            found.append(inner)
        else:
            found += _definitions(inner)
    return found
