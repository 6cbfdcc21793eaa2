"""Finds a line of Python by its meaning, not its formatting, and replaces it by another.

A pattern is an expression or a statement. Spaces, line breaks, comments and quotation marks do not matter.
`...` matches any expression or, at the end of a call, all remaining arguments. In the replacement, the first
`...` is whatever the first one in the pattern matched, and so on:

    rewrite("y = f(x, saved)  # how?", "f(x, ...)", "g(2 * x, ...)")  ->  "y = g(2 * x, saved)  # how?"
"""

import ast
import difflib
from collections.abc import Iterator
from typing import Any

Place = tuple[int, int]  # a line, from 1, and a column in bytes
Found = dict[Place, list[ast.AST]]  # what each `...` of the pattern matched, by its place there


def rewrite(source: str, right: str, wrong: str) -> str | None:
    """Returns the source with every `right` replaced by `wrong`, or None if there is none.

    Nothing else is changed, not even a comment. If `wrong` is empty, the statement is removed.
    """
    matches = list(_matches(_parsed(right), ast.parse(source)))
    # From last to first, so that the remaining positions stay valid
    for node, found in sorted(matches, key=lambda match: _start(match[0]), reverse=True):
        stood = _stood(source, found)
        span = _span(source, [node])
        line = source[: span.start].rpartition("\n")[2]
        indentation = line[: len(line) - len(line.lstrip())]
        source = source[: span.start] + _filled(wrong or "pass", stood, indentation) + source[span.stop :]
    return source if matches else None


def filled(source: str, right: str, wrong: str) -> tuple[str, str]:
    """Returns the first `right` in the source as it is written there, and the `wrong` that would replace it."""
    node, found = next(_matches(_parsed(right), ast.parse(source)))
    return source[_span(source, [node])], _filled(wrong, _stood(source, found), "")


def nearest(source: str, right: str) -> str:
    """Returns the line of the source that is most similar to the first line of `right`."""
    lines = [
        ast.unparse(node).splitlines()[0]
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.stmt)
    ]
    return difflib.get_close_matches(right.splitlines()[0], lines, n=1, cutoff=0)[0]


def _parsed(code: str) -> ast.AST:
    """Returns the single expression or statement in the code."""
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
    """Returns whether a node, a list or a value matches the pattern; records in `found` what each `...` matched."""
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
    # An `x` that is read and an `x` that is written are equal
    fields = [field for field in pattern._fields if field not in ("ctx", "kind", "type_comment")]
    return all(_match(getattr(pattern, field), getattr(node, field), found) for field in fields)


def _stood(source: str, found: Found) -> list[str]:
    """Returns what each `...` of a pattern matched, as it is written in the source."""
    return [source[_span(source, nodes)] if nodes else "" for _, nodes in sorted(found.items())]


def _is_open(pattern: object) -> bool:
    return isinstance(pattern, ast.Constant) and pattern.value is ...


def _start(node: Any) -> Place:
    return node.lineno, node.col_offset


def _filled(code: str, stood: list[str], indentation: str) -> str:
    """Returns the replacement, indented like the original, with each `...` filled in; an extra `...` is kept."""
    written, last = "", 0
    gaps = sorted(filter(_is_open, ast.walk(ast.parse(code))), key=_start)
    for gap, words in zip(gaps, stood, strict=False):
        span = _span(code, [gap])
        written += code[last : span.start].replace("\n", "\n" + indentation) + words
        last = span.stop
    return written + code[last:].replace("\n", "\n" + indentation)


def _span(source: str, nodes: list[Any]) -> slice:
    """Returns the span from the beginning of the first node to the end of the last."""
    return slice(
        _place(source, nodes[0].lineno, nodes[0].col_offset),
        _place(source, nodes[-1].end_lineno, nodes[-1].end_col_offset),
    )


def _place(source: str, line: int, column: int) -> int:
    """Returns how many characters come before a column, which a tree counts in bytes."""
    *before, here = source.split("\n")[:line]
    return sum(len(each) + 1 for each in before) + len(here.encode()[:column].decode())
