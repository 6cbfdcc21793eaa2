"""Formulas in tables: a line of Python's arithmetic, as a tree that Python and the page's JavaScript both evaluate."""

import ast
import math
import operator
import re
from collections.abc import Callable
from typing import Any

from glassformer import _checks as checks

__all__ = ["Tree", "evaluate", "names_in", "parse"]
__dir__ = __all__.copy

Look = Callable[[str], Any]
"""Gives the value of a name; it may have a method `key` that gives the file's key from which the value is."""

Tree = Any
"""A name; a number, True, False or None; or a list as JSON has it: what is done, and what it is done with."""

_OPERATORS: dict[type, str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.In: "in", ast.NotIn: "not in", ast.And: "and", ast.Or: "or",
}  # fmt: skip

_OF_NUMBERS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": lambda a, b: int(a // b), "%": operator.mod,
    "**": operator.pow, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip

_FUNCTIONS: dict[str, Callable[..., Any]] = {"min": min, "max": max, "ceil": math.ceil}

_OF_LISTS = ("len", "is_list", "numbers")


def parse(text: str) -> Tree:
    """Returns the tree of a formula.

    It has numbers, texts in quotes, None, True and False; names; + - * // % ** and comparisons; `in`; and, or, not;
    `a if b else c`; `a[i]`, `a.key`, len(a), is_list(a), min, max, ceil; and numbers(a), a list that may
    be written as "3,4,5". What is not there is None.

    Raises:
        ValueError: it is no such formula.
    """
    try:
        return _tree(ast.parse(text, mode="eval").body)
    except SyntaxError as error:
        raise ValueError(f"{text!r} is not a formula: {error}") from error


def _tree(node: ast.AST) -> Tree:
    match node:
        case ast.Constant(value=value):
            return ["is", value] if isinstance(value, str) else value
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return ["list", *map(_tree, items)]
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=whole, attr=key):
            return ["key", _tree(whole), key]
        case ast.Subscript(value=whole, slice=index):
            return ["at", _tree(whole), _tree(index)]
        case ast.IfExp(test=test, body=yes, orelse=no):
            return ["if", _tree(test), _tree(yes), _tree(no)]
        case ast.UnaryOp(op=ast.Not(), operand=of):
            return ["not", _tree(of)]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return [_OPERATORS[type(op)], _tree(left), _tree(right)]
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _OPERATORS:
            return [_OPERATORS[type(op)], _tree(left), _tree(right)]
        case ast.BoolOp(op=op, values=values):
            return [_OPERATORS[type(op)], *map(_tree, values)]
        case ast.Call(func=ast.Name(id=name), args=given, keywords=[]) if name in (*_FUNCTIONS, *_OF_LISTS):
            return ["call", name, *map(_tree, given)]
    raise ValueError(f"{ast.unparse(node)!r} cannot stand in a formula")


def evaluate(tree: Tree, look: Look) -> Any:
    """Returns the value of a formula, in which `look` gives the value of a name.

    Raises:
        ValueError: a number is needed where something else, or nothing, is; the message names it.
    """
    if isinstance(tree, str):
        return look(tree)
    if not isinstance(tree, list):
        return tree
    kind, *parts = tree

    def of(part: Tree) -> Any:
        return evaluate(part, look)

    match kind:
        case "is":
            return parts[0]
        case "list":
            return [of(part) for part in parts]
        case "if":
            return of(parts[1] if of(parts[0]) else parts[2])
        case "not":
            return not of(parts[0])
        case "or" | "and":
            for part in parts:
                value = of(part)
                if bool(value) == (kind == "or"):
                    break
            return value
        case "key":
            whole = of(parts[0])
            return whole.get(parts[1]) if isinstance(whole, dict) else None
        case "at":
            return _entry(parts[0], of(parts[0]), _number(parts[1], of(parts[1]), look), look)
        case "call" if parts[0] == "is_list":
            return isinstance(of(parts[1]), list)
        case "call" if parts[0] == "len":
            return len(_list(parts[1], of(parts[1]), look))
        case "call" if parts[0] == "numbers":
            listed = _list(parts[1], of(parts[1]), look)
            return [int(n) for n in re.findall(r"\d+", listed)] if isinstance(listed, str) else listed
        case "call":
            return _FUNCTIONS[parts[0]](*(_number(part, of(part), look) for part in parts[1:]))
        case "==":
            return of(parts[0]) == of(parts[1])
        case "!=":
            return of(parts[0]) != of(parts[1])
        case "in" | "not in":
            item, among = of(parts[0]), _list(parts[1], of(parts[1]), look)
            return (item in (among if isinstance(item, str) else list(among))) == (kind == "in")
    values = [of(part) for part in parts]
    if kind == "+" and all(isinstance(value, list) for value in values):
        return values[0] + values[1]
    a, b = (_number(part, value, look) for part, value in zip(parts, values, strict=True))
    if kind in ("//", "%") and b == 0:
        raise ValueError(f"{spell(parts[1], b, look)} is 0, by which nothing can be divided")
    return _OF_NUMBERS[kind](a, b)


def _number(tree: Tree, value: Any, look: Look) -> Any:
    if isinstance(value, bool) and isinstance(tree, str):
        return int(value)
    if not isinstance(value, int | float):
        raise ValueError(_needs(tree, value, "a number", look))
    return value


def _list(tree: Tree, value: Any, look: Look) -> Any:
    if not isinstance(value, list | str):
        raise ValueError(_needs(tree, value, "a list", look))
    return value


def _entry(tree: Tree, value: Any, index: int, look: Look) -> Any:
    _list(tree, value, look)
    if not 0 <= index < len(value):
        name = spell(tree, value, look)
        raise ValueError(f"{name} has {len(value)} entries, but there must be one for layer {index}")
    return value[index]


def _needs(tree: Tree, value: Any, what: str, look: Look) -> str:
    name = spell(tree, value, look)
    return f"{name} is missing" if value is None else f"{name}={checks.shown(repr(value))} must be {what}"


def spell(tree: Tree, value: Any, look: Look) -> str:
    """Returns what a message calls the value of a formula: the file's key, or the first name in it."""
    name = next(iter(names_in(tree)), "a number")
    return look.key(name, value) if isinstance(tree, str) and hasattr(look, "key") else name


def names_in(tree: Tree) -> list[str]:
    """Returns all names in a formula, each once, in their order."""
    if not isinstance(tree, list):
        return [tree] if isinstance(tree, str) else []
    kind, *parts = tree
    inner = {"is": [], "key": parts[:1], "call": parts[1:]}.get(kind, parts)
    return list(dict.fromkeys(name for part in inner for name in names_in(part)))
