"""Shows the package's own source, shortened to what a reader of a chapter needs."""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from IPython.display import Markdown, display

WIDTH = 82
"""How many characters of code fit into the page's column."""

CHECKS, GRADIENTS, HOOKS = "checks of arguments", "gradients (chapter 09)", "hooks for looking inside"
_HOOKS = {"see", "enter", "enter_sublayer"}  # of glassformer.trace
_SAVED = "saved"  # the argument that serves the backward pass, never the first: glassformer.scratch.layer


def show_source(*objects: Callable[..., Any], backward: bool = False, checks: bool = False) -> None:
    """Show the source of functions or classes of this package, highlighted as code in notebooks and pages.

    Only the summary of each docstring is shown; `help` shows the rest. Code that a first reading does not
    need is left out, and a last line says so: the checks of arguments, unless `checks`; everything for the
    backward pass, unless `backward`; and the hooks that show arrays to a trace. The code that is shown is
    still a program that computes the same.
    """
    shown: list[str] = []
    left_out: set[str] = set()
    for item in objects:
        source = _Source(inspect.getsource(item), backward=backward, checks=checks)
        shown.append(source.shortened())
        left_out |= source.left_out
    if left_out:
        ordered = [kind for kind in (CHECKS, GRADIENTS, HOOKS) if kind in left_out]
        shown.append(f"# Left out: {', '.join(ordered)}.")
    display(Markdown("```python\n" + "\n\n".join(shown) + "\n```"))


class _Cut(NamedTuple):
    """A piece of the text to cut, and its replacement."""

    start: int
    end: int
    instead: str = ""


class _Source:
    """The source of one object, and the cuts in it."""

    def __init__(self, source: str, *, backward: bool, checks: bool) -> None:
        self.text = textwrap.dedent(source).rstrip()
        self.lines = self.text.split("\n")
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line) + 1)
        self.backward, self.checks = backward, checks
        self.left_out: set[str] = set()
        self.cuts: list[_Cut] = []

    def shortened(self) -> str:
        """Returns what is left of the source, or all of it if the rest would no longer be a program."""
        try:
            self._visit(ast.parse(self.text), in_try=False, has_saved=False)
            text, end = "", 0
            for cut in sorted(self.cuts, key=lambda cut: (cut.start, -cut.end)):
                if cut.start >= end:  # otherwise it is inside an earlier cut
                    text += self.text[end : cut.start] + cut.instead
                    end = cut.end
            text = (text + self.text[end:]).rstrip()
            ast.parse(text)
        except SyntaxError:  # usually a lambda, whose source is part of a line
            self.left_out.clear()
            return self.text
        return _tidied(text)

    def _visit(self, node: ast.AST, *, in_try: bool, has_saved: bool) -> None:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            self._cut_docstring(node)
        if isinstance(node, ast.FunctionDef):
            a = node.args
            takes_it = any(map(_is_saved, [*a.args, *a.kwonlyargs][1:]))
            if takes_it and not self.backward:
                self._cut_saved([*a.args, *a.kwonlyargs, *a.defaults, *filter(None, a.kw_defaults)])
            has_saved = has_saved or takes_it  # inner functions see it too
        if isinstance(node, ast.Call) and has_saved and not self.backward:
            self._cut_saved([*node.args, *node.keywords])
        for name, value in ast.iter_fields(node):
            children = value if isinstance(value, list) else [value]
            if name in ("body", "orelse") and isinstance(value, list) and not isinstance(node, ast.Module):
                self._cut_statements(value, in_try=isinstance(node, ast.Try), has_saved=has_saved)
            for child in children:
                if isinstance(child, ast.AST):
                    self._visit(child, in_try=in_try, has_saved=has_saved)

    def _cut_docstring(self, node: ast.FunctionDef | ast.ClassDef) -> None:
        """Cuts a docstring down to its summary, which gets as many lines as it needs."""
        docstring = ast.get_docstring(node)
        if not docstring:
            return
        literal = node.body[0]
        start, end = self._span(literal)
        if "\\" in self.text[start:end] or not self.text.startswith('"""', start):
            return
        summary, *rest = docstring.split("\n\n")
        indent = " " * literal.col_offset
        lines = [line.strip() for line in f'"""{summary}"""'.splitlines()]
        if max(len(indent + line) for line in lines) > WIDTH:
            lines = textwrap.wrap(" ".join(lines), WIDTH - len(indent))
        elif not rest:
            return
        self.cuts.append(_Cut(start, end, f"\n{indent}".join(lines)))

    def _cut_statements(self, body: Sequence[ast.stmt], *, in_try: bool, has_saved: bool) -> None:
        """Finds the statements of a body to leave out, with the comments right above them."""
        kinds = [self._left_out(statement, in_try=in_try, has_saved=has_saved) for statement in body]
        for statement, kind in zip(body, kinds, strict=True):
            if (
                isinstance(statement, ast.With)
                and _is_of_checks(statement.items[0].context_expr)
                and not self.checks
            ):
                self._unwrap(statement)
            if kind is None:
                continue
            self.left_out.add(kind)
            decorators = getattr(statement, "decorator_list", [])
            first = min([statement.lineno, *(decorator.lineno for decorator in decorators)]) - 1
            while self.lines[first - 1].lstrip().startswith("#"):
                first -= 1
            if isinstance(statement, ast.FunctionDef) and not self.lines[first - 1].strip():
                first -= 1
            instead = " " * statement.col_offset + "...\n" if all(kinds) and statement is body[-1] else ""
            last = statement.end_lineno or statement.lineno
            self.cuts.append(_Cut(self.starts[first], self.starts[last], instead))

    def _unwrap(self, statement: ast.With) -> None:
        """Cuts the line of a `with`, and the indentation of what is within it."""
        self.left_out.add(CHECKS)
        first = statement.body[0].lineno
        self.cuts.append(_Cut(self.starts[statement.lineno - 1], self.starts[first - 1]))
        within = statement.body[0].col_offset - statement.col_offset
        for line in range(first, (statement.end_lineno or first) + 1):
            self.cuts.append(_Cut(self.starts[line - 1], self.starts[line - 1] + within))

    def _left_out(self, statement: ast.stmt, *, in_try: bool, has_saved: bool) -> str | None:
        """Returns why a statement is left out, or None if it is shown."""
        check = None if self.checks else CHECKS
        match statement:
            case ast.FunctionDef(name=name) if name.endswith("backward"):
                return None if self.backward else GRADIENTS
            case ast.Expr(value=ast.Call(args=args) as call) if _is_of_checks(call):
                # If `saved` is not shown, checks of it cannot be shown either
                of_saved = has_saved and not self.backward and any(_is_saved(argument) for argument in args)
                return GRADIENTS if of_saved else check
            case ast.Expr(value=ast.Call(func=ast.Name(id="save_for_backward"))):
                return None if self.backward else GRADIENTS
            case ast.Expr(value=ast.Call(func=ast.Name(id=name))) if name in _HOOKS:
                return HOOKS
            case ast.If(body=[*before, ast.Raise()], orelse=[]) if not in_try:
                return check if all(isinstance(inner, ast.Assign) for inner in before) else None
            case ast.If(body=body, orelse=[]) | ast.For(body=body, orelse=[]):
                kinds = [self._left_out(inner, in_try=in_try, has_saved=has_saved) for inner in body]
                return kinds[0] if all(kinds) else None
        return None

    def _cut_saved(self, every: list[ast.AST]) -> None:
        """Cuts `saved` and its default from parameters with defaults, or `saved` from arguments.

        All since the one before is cut, so also a star between the two, after which nothing else is left.
        """
        for before, node in pairwise(sorted(every, key=self._span)):
            if _is_saved(node):
                end = self._span(node)[1]
                [default] = re.findall(r"^(?:\s*=\s*None)?", self.text[end:])
                self.cuts.append(_Cut(self._span(before)[1], end + len(default)))
                self.left_out.add(GRADIENTS)

    def _span(self, node: Any) -> tuple[int, int]:
        """Returns where a node begins and ends in the text; ast counts columns in bytes."""

        def place(line: int, column: int) -> int:
            return self.starts[line - 1] + len(self.lines[line - 1].encode()[:column].decode())

        return place(node.lineno, node.col_offset), place(node.end_lineno, node.end_col_offset)


def _is_of_checks(node: ast.AST) -> bool:
    """Returns whether a call is one of `_checks`."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="checks"))):
            return True
    return False


def _is_saved(node: ast.AST) -> bool:
    """Returns whether a parameter or an argument is `saved`."""
    match node:
        case ast.arg(arg=name) | ast.Name(id=name) | ast.keyword(value=ast.Name(id=name)):
            return name == _SAVED
    return False


def _tidied(source: str) -> str:
    """Joins calls over three lines that now fit on one, and leaves one of several empty lines in a row."""

    def join(found: re.Match) -> str:
        line = "".join(found.groups())
        return line if len(line) <= WIDTH else found[0]

    lines = re.compile(r"^(.*[(\[])\n +(.*[^,\n])\n *([)\]].*)$", flags=re.MULTILINE)
    tidied = lines.sub(join, re.sub(r"\n{3,}", "\n\n", source))
    try:
        same = ast.dump(ast.parse(tidied)) == ast.dump(ast.parse(source))
    except SyntaxError:  # a comment within a call
        return source
    return tidied if same else source
