"""Looks inside models: the layers report what they compute, and an open trace keeps it."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

__all__ = ["Seen", "Trace", "enter", "enter_sublayer", "see", "trace", "tracing"]
__dir__ = __all__.copy


class Seen(NamedTuple):
    """One array that a model computed, with its name and the part and sublayer that computed it."""

    part: str  #: such as "decoder: block 3"
    sublayer: str  #: "attention", "cross-attention", "feed-forward", or "" outside sublayers
    name: str  #: such as "weights"
    array: Any


class Trace(list[Seen]):
    """All arrays that a trace has seen, in the order in which they were computed.

    Derived in chapter 01.
    """

    def __init__(self) -> None:
        super().__init__()
        self.part = self.sublayer = ""

    def arrays(self, name: str, sublayer: str | None = None) -> list[Any]:
        """Returns all arrays of that name, such as "weights", block by block; optionally of one kind of sublayer."""
        return [seen.array for seen in self if seen.name == name and sublayer in (None, seen.sublayer)]

    def __str__(self) -> str:
        """Returns a table with one line for each array: its part, name, shape and how many numbers it has."""
        rows = [("part", "sublayer", "array", "shape", "numbers")]
        before = ("", "")
        for part, sublayer, name, array in self:
            where = (part if part != before[0] else "", sublayer if (part, sublayer) != before else "")
            shape = "(" + ", ".join(map(str, array.shape)) + ")"
            rows.append((*where, name, shape, f"{math.prod(array.shape):,}"))
            before = (part, sublayer)
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = []
        for *cells, numbers in rows:
            words = [cell.ljust(width) for cell, width in zip(cells, widths[:-1], strict=True)]
            lines.append("  ".join([*words, numbers.rjust(widths[-1])]))
        return "\n".join(lines)


_open: list[Trace] = []


@contextmanager
def trace() -> Iterator[Trace]:
    """Keeps the arrays that layers of either room compute inside the `with` block.

    `with trace() as seen: model(ids)` leaves the arrays themselves, not copies, in `seen`. Traces can be
    nested; each one keeps everything computed while it is open.
    """
    opened = Trace()
    _open.append(opened)
    try:
        yield opened
    finally:
        _open[:] = [other for other in _open if other is not opened]


def see(**arrays: Any) -> None:
    """Shows `arrays` to all open traces (usually there are none); the layers call it."""
    for opened in _open:
        opened.extend(Seen(opened.part, opened.sublayer, name, array) for name, array in arrays.items())


def enter(part: str) -> None:
    """Records that arrays seen from now on belong to `part`; the stacks call it."""
    for opened in _open:
        opened.part, opened.sublayer = part, ""


def enter_sublayer(sublayer: str) -> None:
    """Records that arrays seen from now on belong to that sublayer; attention and feed-forward call it."""
    for opened in _open:
        opened.sublayer = sublayer


def tracing() -> bool:
    """Returns whether any trace is open."""
    return bool(_open)
