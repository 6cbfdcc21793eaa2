"""Checks numbers and names, and that sizes agree."""

import difflib
import math
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from inspect import signature
from numbers import Integral, Real
from typing import Any

Shape = tuple[int, ...]

NAME = 100  # how many characters of a name from outside a message shows
MESSAGE = 400  # the same for another library's message
LARGEST_WHOLE = 2**63 - 1  # the largest possible index or size
LARGEST = sys.float_info.max
NEAR = 0.7  # how much alike names must be for one to be suggested: embed_dim is no embedding_norm
MANY = 35  # more names than these are not listed


class _Door(threading.local):
    closed = 0  # by how many, in each thread; while it is above 0, nothing is checked again


door = _Door()


@contextmanager
def checked_before() -> Iterator[None]:
    """Within it, arguments are not checked again.

    A model checks what it is given, and so does a layer that a reader calls. What one layer of a model hands on to the
    next fits.
    """
    door.closed += 1
    try:
        yield
    finally:
        door.closed -= 1


def shown(text: str, at_most: int = NAME) -> str:
    """Makes a text from outside safe to show in a message: no control characters, and shortened to its two ends."""
    if len(text) > at_most:
        half = at_most // 2
        text = f"{text[:half]} … {text[-half:]}"
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def whole(name: str, value: Any, *, at_least: int = 1) -> None:
    """Checks that `value` is a whole number, no smaller than `at_least` and no larger than an index can be."""
    if door.closed:
        return
    if str(getattr(value, "dtype", "")) == "torch.int64" and value.ndim == 0:
        value = int(value)  # while torch.jit traces, sizes are tensors
    if type(value) is not int and (not isinstance(value, Integral) or isinstance(value, bool)):
        raise TypeError(f"{name}={value!r} must be a whole number")
    if value < at_least:
        raise ValueError(f"{name}={value} must be at least {at_least}")
    if int(value) > LARGEST_WHOLE:
        said = value if int(value) < 10**40 else "10**40 or more"
        raise ValueError(f"{name}={said} must be at most {LARGEST_WHOLE}")


def even(name: str, value: Any) -> None:
    """Checks that `value` dimensions can be cut into pairs."""
    whole(name, value)
    if value % 2:
        raise ValueError(f"{name}={value} is odd: sines and cosines come in pairs of dimensions")


def divisible(name: str, value: Any, by_name: str, by: Any) -> None:
    """Checks that both are positive whole numbers, and that `by` divides `value`."""
    if door.closed:
        return
    whole(name, value)
    whole(by_name, by)
    if value % by:
        raise ValueError(f"{name}={value} is not divisible by {by_name}={by}")


def flag(name: str, value: Any) -> None:
    """Checks that `value` is True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{name}={value!r} must be True or False")


def number(name: str, value: Any, holds: Callable[[Any], bool], rule: str) -> None:
    """Checks that `value` is a number for which `holds` is true; `rule` says so in words."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name}={value!r} must be a number")
    if not holds(value):
        raise ValueError(f"{name}={value} must be {rule}")


def _finite(value: Any) -> bool:
    """Returns whether a float64 can hold this number; 10**400, for example, is too large."""
    return abs(value) <= LARGEST if type(value) is int else math.isfinite(value)


def positive(name: str, value: Any) -> None:
    """Checks that `value` is a finite number above zero."""
    number(name, value, lambda x: _finite(x) and x > 0, "positive and finite")


def not_negative(name: str, value: Any) -> None:
    """Checks that `value` is a finite number, zero or above."""
    number(name, value, lambda x: _finite(x) and x >= 0, "zero or more, and finite")


def rate(name: str, value: Any) -> None:
    """Checks that `value` is a fraction: at least 0 and below 1."""
    number(name, value, lambda x: 0 <= x < 1, "at least 0 and below 1")


def one_of(name: str, value: Any, choices: Collection[str]) -> None:
    """Checks that `value` is among `choices`."""
    if value not in tuple(choices):  # looking up an unhashable value in a mapping would raise
        raise ValueError(f"{name}={value!r} is not one of {', '.join(map(repr, choices))}")


def instance(name: str, value: Any, kind: type) -> None:
    """Checks that `value` is a `kind`."""
    if isinstance(value, kind):
        return
    if isinstance(value, str | int | float | list | tuple | dict | None):
        raise TypeError(f"{name}={shown(repr(value))} must be a {_named(kind)}")
    raise TypeError(f"{name} must be a {_named(kind)}, not {_named(type(value))}")


def offers(name: str, value: Any, needed: Iterable[str], protocol: str) -> None:
    """Checks that `value` has all that is `needed` of it; that class of `protocols` describes each.

    In a dictionary, a method has the names of the arguments that it is called with, and anything else None.
    """
    missing = [one for one in needed if not hasattr(value, one)]
    for one, arguments in needed.items() if isinstance(needed, Mapping) else ():
        if one not in missing and arguments is not None:
            try:
                signature(getattr(value, one)).bind(*arguments)
            except TypeError:
                missing.append(f"{one}({', '.join(arguments)})")
    if missing:
        raise TypeError(
            f"{name}, a {type(value).__name__}, lacks {', '.join(missing)}: protocols.{protocol} says what it needs"
        )


def _named(kind: type) -> str:
    """Returns the name of a class and where it comes from, such as "Transformer of glassformer.nn"."""
    where = ".".join(kind.__module__.split(".")[:2])
    return kind.__name__ if where == "builtins" else f"{kind.__name__} of {where}"


def fields(owner: str, given: Iterable[str], known: Collection[str], required: Collection[str] = ()) -> None:
    """Checks that all `given` names are `known` fields of `owner`, and that all `required` ones are there."""
    given = list(given)
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=NEAR)
            missing = [needed for needed in required if needed not in given]
            hint = (
                f"; did you mean {near[0]!r}?"
                if near
                else f"; the fields are {', '.join(known)}"
                if len(known) <= MANY
                else f", and needs {', '.join(missing)}"
                if missing
                else f"; it has {len(known)} others"
            )
            raise ValueError(f"{owner} has no field {shown(name)!r}{hint}")
    missing = [name for name in required if name not in given]
    if missing:
        raise ValueError(f"{owner} needs the field {', '.join(map(repr, missing))}")


def equal(name: str, value: int | Shape, other_name: str, other: int | Shape) -> None:
    """Checks that two sizes or shapes agree."""
    if value != other:
        raise ValueError(f"{name}={value} does not match {other_name}={other}")
