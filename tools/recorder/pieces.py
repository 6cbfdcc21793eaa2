"""Lists a Python source's functions and `raise` statements, and lets a process report that it reaches them.

`sitecustomize.py` puts marks into the code that it runs, and `tools/freshness.py` looks for the same pieces in the
source. Both use this module to number them, so the numbers agree.
"""

import ast
import re
from collections.abc import Iterator
from types import CodeType
from typing import Any

MARK = "_glassformer_reached"  # among the builtins of a process that is listened to
Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(node: ast.AST, outer: str = "") -> Iterator[tuple[str, Function]]:
    """Yields the functions and methods of a source by qualified name; what is inside them belongs to them."""
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, Function):
            yield outer + inner.name, inner
        elif isinstance(inner, ast.ClassDef):
            yield from functions(inner, f"{outer}{inner.name}.")
        elif isinstance(inner, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from functions(inner, outer)


def raises(function: Function) -> list[ast.Raise]:
    """Returns the `raise` statements of a function, each of which counts only if it is reached.

    A `raise` that defines a name, or that makes its function a generator, counts like any other statement.
    """
    found = [node for node in ast.walk(function) if isinstance(node, ast.Raise)]
    told = (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await)
    return [one for one in found if not any(isinstance(node, told) for node in ast.walk(one))]


def marked(source: bytes, file: str) -> ast.Module:
    """Returns a source whose every function and `raise` statement announces itself when it is reached."""
    tree = ast.parse(source)
    for name, function in functions(tree):
        chosen = {id(one): f"{file} {name}!{number}" for number, one in enumerate(raises(function))}
        _Marker(chosen).visit(function)
        first = function.body[0]
        documented = isinstance(first, ast.Expr) and isinstance(getattr(first.value, "value", None), str)
        function.body.insert(int(documented), _mark(f"{file} {name}", first))
    return tree


def words_of(made: Any) -> str:
    """Returns the words of some code, in its strings too: of a source, a tree or what was compiled."""
    if isinstance(made, CodeType):
        inner = [words_of(one) for one in made.co_consts if isinstance(one, CodeType)]
        constants = [repr(one) for one in made.co_consts if not isinstance(one, CodeType)]
        made = " ".join([*made.co_names, *constants, *inner])
    elif isinstance(made, ast.AST):
        made = ast.unparse(made)
    elif isinstance(made, bytes):
        made = made.decode(errors="replace")
    return " ".join(sorted(set(re.findall(r"\w+", made)))) if isinstance(made, str) else ""


class _Marker(ast.NodeTransformer):
    """Puts a mark before each `raise` statement that was chosen."""

    def __init__(self, chosen: dict[int, str]) -> None:
        self.chosen = chosen

    def visit_Raise(self, node: ast.Raise) -> ast.stmt | list[ast.stmt]:
        return [_mark(self.chosen[id(node)], node), node] if id(node) in self.chosen else node


def _mark(piece: str, place: ast.stmt) -> ast.stmt:
    """Makes a mark, a look-up by name: the second look-up of the same name takes C only nanoseconds."""
    look_up = ast.Expr(ast.Subscript(ast.Name(MARK, ast.Load()), ast.Constant(piece), ast.Load()))
    for node in ast.walk(look_up):
        ast.copy_location(node, place)
    return look_up
