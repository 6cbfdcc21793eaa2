"""The package's own source, shortened to what a reader of a chapter needs of it."""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable
from typing import Any

from IPython.display import Markdown, display

WIDTH = 82
"""How many characters of code fit the column of the page."""

CHECKS, GRADIENTS, HOOKS = "checks of arguments", "gradients (chapter 09)", "hooks for looking inside"
_HOOKS = {"see", "enter", "enter_sublayer"}  # of glassformer.trace


def show_source(*objects: Callable[..., Any], backward: bool = False, checks: bool = False) -> None:
    """Show the package's own source of functions or classes, highlighted as code in notebook and page.

    Of each docstring only the summary is shown; `help` has the rest. What a first reading can do without is left
    out, and a last line says so: the checks of arguments, unless `checks`; all that leads gradients back, unless
    `backward`; and what shows a trace the arrays. What is shown is still a program that computes the same.
    """
    shown, left_out = [], set()
    for item in objects:
        source = _Source(inspect.getsource(item), backward=backward, checks=checks)
        shown.append(source.shortened())
        left_out |= source.left_out
    if left_out:
        ordered = [kind for kind in (CHECKS, GRADIENTS, HOOKS) if kind in left_out]
        shown.append(f"# Left out: {', '.join(ordered)}.")
    display(Markdown("```python\n" + "\n\n".join(shown) + "\n```"))


class _Source:
    """The source of one object, and what is cut out of it."""

    def __init__(self, source: str, *, backward: bool, checks: bool) -> None:
        self.text = textwrap.dedent(source).rstrip()
        self.lines = self.text.splitlines()
        self.backward, self.checks = backward, checks
        self.left_out: set[str] = set()
        self.cuts: list[tuple[int, int, str]] = []  # from, to, what stands there instead
        lengths = (len(line) + 1 for line in self.lines)
        self.starts = [0]
        for length in lengths:
            self.starts.append(self.starts[-1] + length)

    def shortened(self) -> str:
        """What is left."""
        tree = ast.parse(self.text)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                self._cut_docstring(node)
            if isinstance(node, ast.FunctionDef) and not self.backward:
                self._cut_parameter(node)
            if isinstance(node, ast.Call) and not self.backward:
                self._cut_argument(node)
            if not isinstance(node, ast.Module):
                self._cut_statements(node)
        text, end = "", 0
        for first, last, instead in sorted(self.cuts):
            if first >= end:  # else it lies within what is cut already
                text += self.text[end:first] + instead
                end = last
        text += self.text[end:]
        return _joined(re.sub(r"\n{3,}", "\n\n", text)).rstrip()

    def _cut_docstring(self, node: ast.FunctionDef | ast.ClassDef) -> None:
        """All but its summary, which gets as many lines as it needs."""
        docstring = ast.get_docstring(node)
        if docstring is None:
            return
        literal = node.body[0]
        summary = docstring.split("\n\n")[0].strip()
        indent = " " * literal.col_offset
        lines = [*summary.splitlines()[:-1], summary.splitlines()[-1] + '"""']
        lines[0] = '"""' + lines[0]
        if max(len(indent + line) for line in lines) > WIDTH:
            lines = textwrap.wrap('"""' + " ".join(summary.split()) + '"""', WIDTH - len(indent))
        self.cuts.append((*self._span(literal), f"\n{indent}".join(lines)))

    def _cut_statements(self, node: ast.AST) -> None:
        """The statements of a body that are left out, with the comments right above them."""
        for body in (getattr(node, "body", None), getattr(node, "orelse", None)):
            if not isinstance(body, list):
                continue
            kinds = [self._left_out(statement) for statement in body]
            for statement, kind in zip(body, kinds, strict=True):
                if kind is None:
                    continue
                self.left_out.add(kind)
                decorators = getattr(statement, "decorator_list", [])
                first = min([statement.lineno, *(d.lineno for d in decorators)]) - 1
                while self.lines[first - 1].lstrip().startswith("#"):
                    first -= 1
                if isinstance(statement, ast.FunctionDef) and not self.lines[first - 1].strip():
                    first -= 1
                instead = " " * statement.col_offset + "...\n" if all(kinds) and statement is body[-1] else ""
                self.cuts.append((self.starts[first], self.starts[statement.end_lineno], instead))

    def _left_out(self, statement: ast.stmt) -> str | None:
        """Why a statement is not shown; None if it is."""
        match statement:
            case ast.FunctionDef(name=name) if name.endswith("backward"):
                return None if self.backward else GRADIENTS
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="checks")))):
                return None if self.checks else CHECKS
            case ast.Expr(value=ast.Call(func=ast.Name(id="keep"))):
                return None if self.backward else GRADIENTS
            case ast.Expr(value=ast.Call(func=ast.Name(id=name))) if name in _HOOKS:
                return HOOKS
            case ast.If(body=[*_, ast.Raise()], orelse=[]):
                return None if self.checks else CHECKS
            case ast.If(body=body, orelse=[]) | ast.For(body=body, orelse=[]):
                kinds = [self._left_out(inner) for inner in body]
                return kinds[0] if all(kinds) else None
        return None

    def _cut_parameter(self, node: ast.FunctionDef) -> None:
        """The parameter `kept`, and a lone star before it."""
        a = node.args
        positional = [*a.posonlyargs, *a.args]
        defaults = [None] * (len(positional) - len(a.defaults)) + a.defaults
        placed = [*zip(positional, defaults, strict=True)]
        named = [*zip(a.kwonlyargs, a.kw_defaults, strict=True)]
        for group in (placed, named):
            for i, (parameter, default) in enumerate(group):
                if parameter.arg != "kept":
                    continue
                alone = group is named and len(named) == 1 and a.vararg is None
                before = placed[-1] if alone else group[i - 1]
                self._cut_between(before[1] or before[0], default or parameter)

    def _cut_argument(self, node: ast.Call) -> None:
        """`kept` among the arguments, by place or by name."""
        arguments = sorted([*node.args, *node.keywords], key=lambda item: (item.lineno, item.col_offset))
        for i, item in enumerate(arguments):
            value = item.value if isinstance(item, ast.keyword) else item
            if isinstance(value, ast.Name) and value.id == "kept" and i > 0:
                self._cut_between(arguments[i - 1], item)

    def _cut_between(self, before: ast.AST, last: ast.AST) -> None:
        self.cuts.append((self._span(before)[1], self._span(last)[1], ""))
        self.left_out.add(GRADIENTS)

    def _span(self, node: Any) -> tuple[int, int]:
        """Where a node begins and ends in the text. ast counts columns in bytes."""

        def place(line: int, column: int) -> int:
            return self.starts[line - 1] + len(self.lines[line - 1].encode()[:column].decode())

        return place(node.lineno, node.col_offset), place(node.end_lineno, node.end_col_offset)


def _joined(source: str) -> str:
    """What stands on three lines and, shortened, fits on one."""

    def join(found: re.Match) -> str:
        line = "".join(found.groups())
        return line if len(line) <= WIDTH else found[0]

    return re.sub(r"^(.*[(\[])\n +(.*[^,\n])\n *([)\]].*)$", join, source, flags=re.MULTILINE)
