"""Turns questions that look-ups were asked (`glassformer/lookups.py`) into words, and hashes their answers.

    python answers.py    read questions from stdin, a JSON list; write their answers in the same order

`sitecustomize.py` records each question in this form, and `tools/freshness.py` asks it again.
"""

import ast
import hashlib
import json
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import reduce
from importlib import import_module
from typing import Any


class UntoldError(Exception):
    """A value cannot be expressed completely in words."""


def question(name: str, args: tuple, named: Mapping[str, Any]) -> str:
    """Returns a call as it would be written, such as "glassformer.contents:page('05')".

    Raises:
        UntoldError: an argument is not made of literals.
    """
    for given in (args, named):
        try:
            plain = ast.literal_eval(repr(given)) == given
        except Exception:
            plain = False
        if plain is not True:
            raise UntoldError
    return f"{name}({', '.join([*map(repr, args), *(f'{key}={value!r}' for key, value in named.items())])})"


def ask(question: str) -> str:
    """Returns the hash of the current answer, or nothing if there is none."""
    place, _, arguments = question.partition("(")
    module, _, name = place.partition(":")
    call = ast.parse(f"_({arguments}", mode="eval").body
    assert isinstance(call, ast.Call)
    args = [ast.literal_eval(one) for one in call.args]
    named = {one.arg: ast.literal_eval(one.value) for one in call.keywords if one.arg}
    try:
        function = _named(import_module(module), name)
    except Exception:  # a module that cannot be imported, or no such function in it
        return ""
    try:
        return answer(_outcome(function, args, named))
    except UntoldError:
        return ""


def _outcome(function: Any, args: list, named: dict[str, Any]) -> Any:
    try:
        return function(*args, **named)
    except Exception as error:
        return error


def answer(told: Any) -> str:
    """Returns a hash of an answer: plain data, or a function or class by its name, or an error.

    Raises:
        UntoldError: the answer is, or contains, something else.
    """
    return hashlib.sha256(_words(told).encode()).hexdigest()[:16]


def _words(told: Any) -> str:
    kind = type(told)
    if told is None or kind in (bool, int, float, str, bytes):
        return repr(told)
    if kind in (tuple, list):
        return f"{kind.__name__}({', '.join(map(_words, told))})"
    if kind in (set, frozenset):
        return f"{kind.__name__}({', '.join(sorted(map(_words, told)))})"
    if kind is dict:
        return f"dict({', '.join(f'{_words(key)}: {_words(value)}' for key, value in told.items())})"
    if isinstance(told, BaseException):
        return f"{kind.__qualname__}({_words(told.args)})"
    if is_dataclass(kind):
        held = (f"{one.name}={_words(getattr(told, one.name))}" for one in fields(told))
        return f"{kind.__qualname__}({', '.join(held)})"
    module, name = getattr(told, "__module__", None), getattr(told, "__qualname__", None)
    try:
        found = _named(sys.modules[module], name)  # type: ignore[index, arg-type]
    except (KeyError, AttributeError):
        raise UntoldError from None
    if found is not told:
        raise UntoldError
    return f"{module}:{name}"


def _named(module: Any, name: str) -> Any:
    return reduce(getattr, name.split("."), module)


if __name__ == "__main__":
    given = json.load(sys.stdin)
    print("\n" + json.dumps([ask(one) for one in given]))
