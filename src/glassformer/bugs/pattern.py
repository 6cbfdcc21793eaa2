"""Finds a line of Python by what it says, not by how it is set, and writes another in its place.

A pattern is an expression or a statement. Spaces, line breaks, comments and quotation marks do not matter. `...`
stands for any expression or, at the end of a call, for all the arguments that are left; in what is written
instead, the first `...` is what stood at the pattern's first, and so on:

    rewrite("y = f(x, kept)  # how?", "f(x, ...)", "g(2 * x, ...)")  ->  "y = g(2 * x, kept)  # how?"
"""

import ast
import difflib
from collections.abc import Iterator
from typing import Any

Place = tuple[int, int]  # a line, from 1, and a column, in bytes
Found = dict[Place, list[ast.AST]]  # what stood at each `...` of the pattern, by its place there


def rewrite(source: str, right: str, wrong: str) -> str | None:
    """The source with `wrong` wherever it says `right`; None if it does so nowhere.

    Nothing else is touched, not even a comment. Where `wrong` is empty, a statement is left out.
    """
    matches = list(_matches(_parsed(right), ast.parse(source)))
    # From the last to the first, so that those to come are where the tree has them
    for node, found in sorted(matches, key=lambda match: _start(match[0]), reverse=True):
        stood = [source[_span(source, nodes)] if nodes else "" for _, nodes in sorted(found.items())]
        span = _span(source, [node])
        line = source[: span.start].rpartition("\n")[2]
        indentation = line[: len(line) - len(line.lstrip())]
        source = source[: span.start] + _filled(wrong or "pass", stood, indentation) + source[span.stop :]
    return source if matches else None


def nearest(source: str, right: str) -> str:
    """The line of the source that is most like the first of `right`."""
    lines = [
        ast.unparse(node).splitlines()[0]
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.stmt)
    ]
    return difflib.get_close_matches(right.splitlines()[0], lines, n=1, cutoff=0)[0]


def _parsed(code: str) -> ast.AST:
    """The one expression or statement that the code is."""
    [statement] = ast.parse(code).body
    return statement.value if isinstance(statement, ast.Expr) else statement


def _matches(pattern: ast.AST, node: ast.AST) -> Iterator[tuple[ast.AST, Found]]:
    """Yields the matches at or below a node, but none inside another match."""
    found: Found = {}
    if _match(pattern, node, found):
        yield node, found
    else:
        for child in ast.iter_child_nodes(node):
            yield from _matches(pattern, child)


def _match(pattern: Any, node: Any, found: Found) -> bool:
    """Returns whether a node, a list or a value matches the pattern; records in `found` what `...` stands for."""
    if _is_open(pattern) and isinstance(node, ast.expr):
        found[_start(pattern)] = [node]
        return True
    if type(pattern) is not type(node):
        return False
    if isinstance(pattern, list):
        return len(pattern) == len(node) and all(
            _match(one, other, found) for one, other in zip(pattern, node, strict=True)
        )
    if not isinstance(pattern, ast.AST):
        return pattern == node
    if isinstance(pattern, ast.Call) and any(map(_is_open, [*pattern.args, *pattern.keywords][-1:])):
        *first, rest = pattern.args
        found[_start(rest)] = [*node.args[len(first) :], *node.keywords]
        return _match(pattern.func, node.func, found) and _match(first, node.args[: len(first)], found)
    # An `x` that is read and one that is written are the same
    fields = [field for field in pattern._fields if field not in ("ctx", "kind", "type_comment")]
    return all(_match(getattr(pattern, field), getattr(node, field), found) for field in fields)


def _is_open(pattern: object) -> bool:
    return isinstance(pattern, ast.Constant) and pattern.value is ...


def _start(node: Any) -> Place:
    return node.lineno, node.col_offset


def _filled(code: str, stood: list[str], indentation: str) -> str:
    """The code, as deep as what it replaces, with what stood there for each `...`; one that is left over stays."""
    written, last = "", 0
    gaps = sorted(filter(_is_open, ast.walk(ast.parse(code))), key=_start)
    for gap, words in zip(gaps, stood, strict=False):
        span = _span(code, [gap])
        written += code[last : span.start].replace("\n", "\n" + indentation) + words
        last = span.stop
    return written + code[last:].replace("\n", "\n" + indentation)


def _span(source: str, nodes: list[Any]) -> slice:
    """From the beginning of the first node to the end of the last."""
    return slice(
        _place(source, nodes[0].lineno, nodes[0].col_offset),
        _place(source, nodes[-1].end_lineno, nodes[-1].end_col_offset),
    )


def _place(source: str, line: int, column: int) -> int:
    """Returns how many characters come before; a tree counts columns in bytes."""
    *before, here = source.split("\n")[:line]
    return sum(len(each) + 1 for each in before) + len(here.encode()[:column].decode())
