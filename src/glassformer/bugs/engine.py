"""Makes functions run code with a mistake in it, and afterwards the correct code again."""

import inspect
import linecache
import pkgutil
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any

from glassformer import _checks as checks
from glassformer.bugs.gallery import ROOMS, Bug, Edit, bug
from glassformer.bugs.pattern import filled, nearest, rewrite


@contextmanager
def put_in(name: str, *, rooms: Collection[str] = ROOMS) -> Iterator[Bug]:
    """Activates the mistake inside the `with` block, and returns the `Bug`.

    `rooms` can restrict it to "scratch" or "nn". Mistakes can be combined, one `with` inside another. However
    the block ends, the correct code is restored.

    Used in chapter 14.

    Raises:
        ValueError: there is no such bug or room, or the bug cannot occur in that room.
        TypeError: `name` is not a string.
        RuntimeError: the line to change is missing, usually because another bug has changed it.
    """
    it = bug(name)
    for room in rooms:
        checks.one_of("rooms", room, ROOMS)
    if not set(rooms) & set(it.rooms):
        raise ValueError(f"rooms={rooms!r} cannot have {name!r}, which needs {' or '.join(it.rooms)}")
    with changed([edit for edit in it.edits if edit.room is None or edit.room in rooms], name):
        yield it


@contextmanager
def changed(edits: Iterable[Edit], name: str) -> Iterator[None]:
    """Lets functions run changed code inside the `with` block, whether the gallery has these changes or not.

    Raises:
        RuntimeError: a line to change is missing.
    """
    before: list[tuple[Callable, CodeType]] = []
    try:
        for edit in edits:
            function = _found(edit)
            code = _changed(function, edit, name)
            before.append((function, function.__code__))
            # Only the function's code is replaced; it stays the same object for everything that imported
            # it.
            function.__code__ = code
        yield
    finally:
        for function, code in reversed(before):
            function.__code__ = code


def lines(name: str) -> tuple[str, str]:
    """Returns the wrong line of a mistake next to the correct one, both with everything that `...` stands for.

    Used in chapter 14.

    Raises:
        ValueError: there is no such bug.
        TypeError: `name` is not a string.
    """
    edit = bug(name).edits[0]
    right, wrong = filled(_source(_found(edit)), edit.right, edit.wrong)
    return wrong, right


def _found(edit: Edit) -> Callable:
    return _plain(pkgutil.resolve_name(f"glassformer.{edit.function}"))


def _source(function: Callable) -> str:
    return textwrap.dedent(inspect.getsource(function))


def _plain(function: Callable | property) -> Callable:
    """Returns the original function without its decorators."""
    written: Any = getattr(function, "fget", function)
    return inspect.unwrap(written)


def _changed(function: Callable, edit: Edit, name: str) -> CodeType:
    """Compiles the function with `edit.wrong` in the place of `edit.right`."""
    right = _source(function)
    source = rewrite(right, edit.right, edit.wrong)
    if source is None:
        raise RuntimeError(
            f"cannot put {name!r} in: {edit.function} does not contain {edit.right!r}; "
            f"nearest is {nearest(right, edit.right)!r}"
        )
    # With linecache, tracebacks show the changed source, and the next edit starts from it.
    file = f"<{edit.function} with {name}>"
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    defined: dict[str, Callable | property] = {}
    exec(compile(source, file, "exec"), function.__globals__, defined)
    return _plain(defined[function.__name__]).__code__
