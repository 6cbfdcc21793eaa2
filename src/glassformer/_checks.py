"""What arguments must satisfy, said once for both rooms; NumPy and torch arrays alike, neither imported.

Every function returns nothing and raises on bad input: `TypeError` for the wrong kind of thing,
`ValueError` for the wrong value, in a message that names the argument, its value and the rule.
"""

import math
from collections.abc import Collection
from numbers import Integral, Real
from typing import Any

Shape = tuple[int, ...]


# Numbers and names


def whole(name: str, value: Any, *, at_least: int = 1) -> None:
    """`value` is a whole number, no smaller than `at_least`."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"{name}={value!r} must be a whole number")
    if value < at_least:
        raise ValueError(f"{name}={value} must be at least {at_least}")


def even(name: str, value: Any, why: str) -> None:
    """`value` is a positive whole number divisible by two; `why` ends the message."""
    whole(name, value)
    if value % 2:
        raise ValueError(f"{name}={value} is odd: {why}")


def divisible(name: str, value: Any, by_name: str, by: Any) -> None:
    """Both are positive whole numbers, and `by` divides `value`."""
    whole(name, value)
    whole(by_name, by)
    if value % by:
        raise ValueError(f"{name}={value} is not divisible by {by_name}={by}")


def positive(name: str, value: Any) -> None:
    """`value` is a finite number above zero."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name}={value!r} must be a number")
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name}={value} must be positive and finite")


def t5_buckets(bidirectional: bool, n_buckets: Any, max_distance: Any) -> None:
    """Each direction has buckets for single distances and for ranges, and `max_distance` is in the latter."""
    whole("n_buckets", n_buckets, at_least=4 if bidirectional else 2)
    whole("max_distance", max_distance)
    if bidirectional:
        even("n_buckets", n_buckets, "with bidirectional=True, past and future have half the buckets each")
    n_exact = n_buckets // 4 if bidirectional else n_buckets // 2
    if max_distance <= n_exact:
        raise ValueError(
            f"max_distance={max_distance} must exceed the {n_exact} distances that have their own bucket "
            f"(n_buckets={n_buckets}, bidirectional={bidirectional})"
        )


def one_of(name: str, value: Any, choices: Collection[str]) -> None:
    """`value` is among `choices`."""
    if value not in choices:
        raise ValueError(f"{name}={value!r} is not one of {', '.join(map(repr, choices))}")


def equal(name: str, value: int | Shape, other_name: str, other: int | Shape) -> None:
    """Two sizes, or shapes, that must agree do."""
    if value != other:
        raise ValueError(f"{name}={value} does not match {other_name}={other}")


# What arrays hold


def _dtype(array: Any) -> str:
    """`"int64"` for NumPy's int64 and for torch's; for what is not an array, the name of its type."""
    return str(getattr(array, "dtype", type(array).__name__)).removeprefix("torch.")


def integers(name: str, array: Any) -> None:
    """`array` holds integers."""
    if not _dtype(array).startswith(("int", "uint")) or not hasattr(array, "dtype"):
        raise TypeError(f"{name} must be an array of integers, not {_dtype(array)}")


def floats(name: str, array: Any) -> None:
    """`array` holds floating-point numbers."""
    if not _dtype(array).startswith(("float", "bfloat")) or not hasattr(array, "dtype"):
        raise TypeError(f"{name} must be an array of floating-point numbers, not {_dtype(array)}")


def indices(name: str, array: Any, size_name: str, size: int) -> None:
    """`array` holds integers that index a table of `size` rows; negative ones do not count from the end."""
    integers(name, array)
    outside = (array < 0) | (array >= size)
    if outside.any():
        flat = outside.reshape(-1).tolist().index(True)
        place = ", ".join(map(str, _unravel(flat, tuple(array.shape))))
        value = array.reshape(-1)[flat].item()
        raise ValueError(f"{name}[{place}]={value} is outside 0..{size - 1} ({size_name}={size})")


def _unravel(flat: int, shape: Shape) -> Shape:
    """The index along every axis of the entry that is number `flat` in reading order."""
    index = []
    for size in reversed(shape):
        flat, along = divmod(flat, size)
        index.append(along)
    return tuple(reversed(index))


# Shapes


def axes(name: str, array: Any, last: str) -> None:
    """`array` has at least the axes that `last` lists, such as "T, D"."""
    if array.ndim < len(last.split(", ")):
        raise ValueError(f"{name} has shape {tuple(array.shape)}, but needs the axes (..., {last})")


def one_axis(name: str, array: Any, length: int | None = None) -> None:
    """`array` is a list of numbers, of the given length if there is one."""
    if not hasattr(array, "ndim"):
        raise TypeError(f"{name} must be an array, not {_dtype(array)}")
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {tuple(array.shape)}, but needs exactly one axis")
    if length is not None and len(array) != length:
        raise ValueError(f"{name} has {len(array)} entries, but there are {length} rows to place")


def attention_shapes(q: Shape, k: Shape, v: Shape) -> None:
    """Queries (..., T, K) can attend to keys and values (..., S, K), of which there is at least one."""
    shapes = f"q {tuple(q)}, k {tuple(k)}, v {tuple(v)}"
    if min(len(q), len(k), len(v)) < 2:
        raise ValueError(f"{shapes}: each needs two axes or more, (..., T, K)")
    if q[:-2] != k[:-2]:
        raise ValueError(f"{shapes}: q and k must agree on every axis but the one of positions, T or S")
    if q[-1] != k[-1]:
        raise ValueError(f"{shapes}: q and k must agree on the last axis, d_head")
    if k != v:
        raise ValueError(f"{shapes}: every key needs one value, so k and v must have the same shape")
    if k[-2] == 0:
        raise ValueError(f"{shapes}: there is no key to attend to")


def mask(array: Any, scores: Shape) -> None:
    """`array` is a boolean mask that broadcasts to the scores, (..., T, S)."""
    if _dtype(array) != "bool" or not hasattr(array, "dtype"):
        raise TypeError(f"mask must be an array of booleans (True = may attend), not {_dtype(array)}")
    broadcasts("mask", array, scores)


def broadcasts(name: str, array: Any, scores: Shape) -> None:
    """`array` broadcasts to the shape of the scores without enlarging it."""
    trailing = scores[len(scores) - array.ndim :] if array.ndim <= len(scores) else ()
    fits = array.ndim == len(trailing) and all(
        size in (1, wanted) for size, wanted in zip(array.shape, trailing, strict=True)
    )
    if not fits:
        raise ValueError(
            f"{name} of shape {tuple(array.shape)} does not broadcast to the scores' {tuple(scores)}"
        )
