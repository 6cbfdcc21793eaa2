"""Compares what the learner returned with the right value, and describes the first difference in words.

Each function returns normally or raises `Wrong`, whose message the learner reads. Values may be NumPy arrays,
torch tensors, numbers, or lists of any of these, because readers use all of them.
"""

import contextlib
import inspect
import re
import reprlib
import sys
from array import array as CArray  # noqa: N812
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from decimal import Decimal
from numbers import Rational
from typing import Any

import numpy as np

# How far a right answer may be from ours, relative to the largest number in it. Formulas that are equal on paper
# differ by 1e-13 in float64 at the sizes used here, and by 1e-7 if any step is in float32, whatever the dtype of
# the result. Both count as right, but the learner is told about the second. A wrong answer is off by at least 1e-4,
# because the arguments of each check are chosen that way.
DOUBLE, SINGLE = 1e-10, 1e-6

SHOW_UP_TO = 8  # numbers that are printed in full; for a larger array, only the first difference is printed
DEEPEST = 8  # levels of nested lists

_remarks: ContextVar[list[str] | None] = ContextVar("remarks", default=None)

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 60
_short.maxlist = _short.maxtuple = _short.maxdict = 4


class Wrong(Exception):  # noqa: N818 - it reads as it should: raise Wrong("row 0 should be …")
    """The learner's answer is wrong, and the message explains how.

    Attributes:
        message: what differs, and where.
        advice: a sentence that is added if no classic mistake is recognised.
        what: the name of the value that was checked; empty if there is none.
        got: that value. A classic mistake is recognised if it produces the same wrong value.
        under: the title of a rule that holds for every call, if the answer broke that rule and not the check's own.
    """

    def __init__(
        self, message: str, *, advice: str = "", what: str = "", got: Any = None, under: str = ""
    ) -> None:
        super().__init__(f"{message} {advice}".strip())
        self.message, self.advice, self.what, self.got, self.under = message, advice, what, got, under

    def like(self, other: "Wrong") -> bool:
        """Returns whether both failures are about the same quantity and the same wrong value."""
        return bool(self.what) and self.what == other.what and _alike(self.got, other.got)


def gather_remarks() -> list[str]:
    """Returns a list that collects, once each, all later remarks in this thread about right answers."""
    said: list[str] = []
    _remarks.set(said)
    return said


def remark(sentence: str) -> None:
    """Record a remark for the learner, even if the answer is right."""
    said = _remarks.get()
    if said is not None and sentence not in said:
        said.append(sentence)


def expect(got: Any, want: Any, what: str, *, being: str = "", advice: str = "", axes: str = "") -> None:
    """Check that `got` equals `want`: same shape, same kind of number, every value as close as arithmetic allows.

    Args:
        got: what the learner's function returned.
        want: an array, number or string that does not come from the learner; or a dictionary of these.
        what: the name of the value, with which the message begins, as in "row 0".
        being: what the right value is, in words: "cos 2".
        advice: a sentence that ends the message if no classic mistake is recognised.
        axes: the letters of the axes, as in "T D", which the message uses for shapes and indices.

    Raises:
        Wrong: they differ; the message says where.
    """
    if isinstance(want, str):
        _expect_text(got, want, what, advice)
        return
    if isinstance(want, Mapping):
        _expect_named(got, want, what)
        return
    want = np.asarray(want)
    got = as_numbers(got, what, like=want)
    if want.dtype.kind == "b" and not want.ndim and got.ndim:
        raise Wrong(f"{what} should be a single True or False; yours is {describe(got)}.", what=what, got=got)
    few = got.ndim == want.ndim == 1 and max(got.size, want.size) <= SHOW_UP_TO
    if got.shape != want.shape and few and not axes:  # two short rows tell more than their lengths
        raise Wrong(f"{what} should be {_pair(want, got)}.", what=what, got=got)
    expect_shape(got, want.shape, what, axes=axes)
    if want.dtype.kind == "b" and got.dtype.kind != "b":
        advised = "Make it one with `dtype=bool`" if want.ndim else "Return `bool(…)`"
        said = f"{what} should be True or False; yours is {show(got)}. {advised}."
        raise Wrong(said, what=what, got=got)
    if want.dtype.kind in "iu" and got.dtype.kind == "b":
        raise Wrong(f"{what} should be a whole number (int); yours is bool {show(got)}.", what=what, got=got)
    _expect_real(got, what, axes)
    off = _off(got, want)
    if off > (SINGLE if want.dtype.kind == "f" else 0):
        if got.dtype.kind in "iub" and want.dtype.kind == "f" and (want.ndim or want % 1):
            advice = f"Your numbers are {got.dtype}, which cuts off the fractions. Compute in float64."
        if _rounded_to_single(got, want):
            advice = (
                "float32 cannot hold a whole number this large exactly. Compute with ints, and return ints."
            )
        raise Wrong(_difference(got, want, what, being, axes), advice=advice, what=what, got=got)
    if off > DOUBLE:
        remark(
            "Your answer is right to seven digits rather than sixteen: some step uses float32, a rounded constant "
            "or finite differences."
        )
    if want.dtype.kind in "iu" and got.dtype.kind == "f":
        said = f"{what} has the right values, but their dtype is {got.dtype}. Add `.astype(int)`."
        if not want.ndim:
            said = f"{what} has the right value, but it is a float. Convert it with `int(…)`, or divide with `//`."
        raise Wrong(said, what=what, got=got)


def _expect_text(got: Any, want: str, what: str, advice: str) -> None:
    """Check that `got` is this string. NumPy's strings count, too."""
    if isinstance(got, np.ndarray) and got.dtype.kind == "U" and got.ndim == 0:
        got = got.item()
    if not isinstance(got, str):
        join = ' Join the pieces with "".join(…).' if isinstance(got, tuple | list) else ""
        raise Wrong(f"{what} should be a string (str); yours is {describe(got)}.{join}", what=what, got=got)
    if got != want:
        said = f"{what} should be {_short.repr(want)}; yours is {_short.repr(str(got))}."
        raise Wrong(said, advice=advice, what=what, got=got)


def _expect_named(got: Any, want: Mapping[str, Any], what: str) -> None:
    """Check that `got` is a dictionary with these names, and the right value under each."""
    if not isinstance(got, Mapping):
        raise Wrong(f"{what} should be a dictionary with an array for each name; yours is {describe(got)}.")
    if missing := [name for name in want if name not in got]:
        said = f"{what}: there is nothing under {missing[0]!r}; your names are {_short.repr(sorted(map(str, got)))}."
        raise Wrong(said, what=f"{what}: its names", got=" ".join(sorted(map(str, got))))
    if odd := [name for name in got if name not in want]:
        raise Wrong(f"{what}: {odd[0]!r} is none of its names.", what=f"{what}: more names", got=len(odd))
    for name, right in want.items():
        expect(got[name], right, f"{what} under {name!r}")


def expect_row(got: Any, row: int, want: Any, what: str, *, axes: str = "", **said: str) -> None:
    """Check that one row of `got` equals `want`; `said` is passed on to `expect`."""
    want = np.asarray(want)
    got = as_numbers(got, what)
    if got.ndim != want.ndim + 1 or len(got) <= row:
        raise Wrong(f"{what} has shape {got.shape}, so it has no row {row} of {want.size} numbers.")
    expect(got[row], want, f"row {row} of {what}", axes=axes.partition(" ")[2], **said)


def expect_shape(got: Any, shape: tuple[int, ...], what: str, *, axes: str = "") -> None:
    """Check that `got` has this shape. `axes` names the axes by letter: "T D"."""
    got = as_numbers(got, what)
    if got.shape == shape:
        return
    if not shape:
        raise Wrong(f"{what} should be a single number; yours has shape {got.shape}.", what=what, got=got)
    letters = axes.split()
    named = f"({', '.join(letters)}) = " if letters and len(letters) == len(shape) else ""
    turned = " It looks transposed." if len(shape) > 1 and got.shape == shape[::-1] else ""
    said = f"{what} should have shape {named}{shape}; yours has shape {got.shape}.{turned}"
    raise Wrong(said, what=what, got=got)


def expect_parts(got: Any, parts: tuple[str, ...]) -> tuple:
    """Returns `got` as a tuple with one entry per part; it may be a tuple, a list, or an array with as many rows.

    Raises:
        Wrong: it has another number of entries.
    """
    listed = hasattr(type(got), "__len__") and hasattr(type(got), "__getitem__")
    several = listed and not isinstance(got, str | bytes | Mapping) and getattr(got, "ndim", 1) > 0
    if not several or len(got) != len(parts):
        count = f" with {len(got)} entries" if isinstance(got, tuple | list) else ""
        raise Wrong(
            f"your function should return {len(parts)} things, ({', '.join(parts)}); "
            f"yours returned {describe(got)}{count}."
        )
    if (
        isinstance(got, np.ndarray) and got.dtype.kind == "f"
    ):  # an array has one dtype, so a whole number in it became a float
        return tuple(int(one) if one.ndim == 0 and one.is_integer() else one for one in got)
    return tuple(got)


def expect_error(call: Callable[[], Any], what: str, *, names: Sequence[int] = (), advice: str = "") -> None:
    """Check that `call()`, called `what`, raises ValueError with these numbers in the message; else give `advice`."""
    try:
        result = call()
    except Wrong:
        raise
    except ValueError as error:
        told = re.findall(r"\d+", str(error)) + re.findall(r"-\d+", str(error))
        if not {str(number) for number in names} <= set(told):
            both = " and ".join(map(str, names))
            said = f"the error message should mention {both}, to help whoever reads it; yours is {str(error)[:100]!r}"
            raise Wrong(f"{said}{'.' * bool(advice)}", advice=advice) from error
    except Exception as error:
        other = f"{type(error).__name__}: {str(error)[:200]}".removesuffix(": ")
        look = ". Check the index before you use it." if isinstance(error, LookupError) else ""
        raise Wrong(f"{what} should raise ValueError; yours raised {other}{look}") from error
    else:
        said = f"{what} should raise ValueError; yours quietly returned {describe(result)}."
        raise Wrong(said, what=what, got=result)


def as_numbers(value: Any, what: str, *, like: np.ndarray | None = None) -> np.ndarray:
    """Returns `value` as a NumPy array of numbers or truth values, without copying an array.

    Raises:
        Wrong: it is not one; the message says what it is instead.
    """
    array = _array(value, what, DEEPEST)
    if array is None:
        kind = "an array"
        if like is not None and like.ndim == 0:
            kind = "True or False" if like.dtype.kind == "b" else "a single number"
        raise Wrong(f"{what} should be {kind}; yours is {describe(value)}.")
    if array.dtype.kind == "O" and any(isinstance(one, int) and abs(one) >> 63 for one in array.flat):
        number = "a number in it" if array.ndim else "your whole number"
        raise Wrong(f"{what} is too large: {number} does not fit into 64 bits.")
    if array.dtype.kind not in "biuf":
        advice = {
            "c": "If you compute with complex numbers, take .real (and .imag) before you return.",
            "O": "It is an array of Python objects: build it with dtype=np.float64.",
        }.get(array.dtype.kind, "It should hold numbers.")
        raise Wrong(f"{what} has dtype {array.dtype}. {advice}")
    return array


def in_numpy(value: Any, parts: Sequence[str] = ()) -> Any:
    """Returns a learner's result as an array or, if the exercise has parts, as a tuple of arrays.

    A value that is not a number stays as it is: the check that reads it will complain.
    """
    if parts and isinstance(value, tuple | list):
        return tuple(map(in_numpy, value)) if len(value) == len(parts) else value
    with contextlib.suppress(Wrong):
        array = _array(value, "", DEEPEST)
        return value if array is None else array
    return tuple(map(in_numpy, value)) if isinstance(value, tuple) else value


def _array(value: Any, what: str, deep: int) -> np.ndarray | None:
    """Returns numbers, however they are wrapped, as an array, or None if anything in it is not a number."""
    if is_tensor(value):
        return _of_tensor(value, what)
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        hidden = np.ma.count_masked(value)
        raise Wrong(
            f"{what} is a masked array that hides {hidden} of its numbers. Return an ordinary array: `.filled(…)`."
        )
    if isinstance(value, np.ndarray | np.generic | bool | int | float | complex):
        return np.asarray(value)
    if isinstance(value, Rational | Decimal):
        return np.asarray(float(value))
    if isinstance(value, range) or (
        isinstance(value, list | tuple) and all(type(one) in (bool, int, float) for one in value)
    ):
        return np.asarray(value)
    if isinstance(value, list | tuple):
        rows = []
        for one in value:
            row = _array(one, what, deep - 1) if deep else None
            if row is None:
                return None
            rows.append(row)
        if len({row.shape for row in rows}) > 1:
            if isinstance(value, tuple) and len(value) == 2 and rows[0].ndim:
                raise Wrong(
                    f"{what} is a pair of arrays, of shapes {rows[0].shape} and {rows[1].shape}. Return only one."
                )
            raise Wrong(f"{what} is a {type(value).__name__} whose rows differ in length.")
        return np.stack(rows)
    if hasattr(type(value), "__array__") or isinstance(value, CArray):
        with contextlib.suppress(Exception):
            return np.asarray(value)
    return None


def _of_tensor(value: Any, what: str) -> np.ndarray:
    """Returns a tensor of any device and layout as an array.

    Raises:
        Wrong: its numbers cannot be read, or are too coarse to compare.
    """
    try:
        if value.is_meta:
            raise Wrong(f"{what} is a tensor on the meta device, which stores a shape but no numbers.")
        if value.dtype.is_floating_point and value.dtype.itemsize < 4:
            raise Wrong(
                f"{what} is {value.dtype}, which is too coarse to compare. Compute in float32 or float64."
            )
        return value.detach().cpu().to_dense().resolve_conj().resolve_neg().numpy()
    except Wrong:
        raise
    except Exception as error:
        raise Wrong(
            f"{what} is a tensor that NumPy cannot read ({type(error).__name__}). Return an ordinary one."
        ) from error


def describe(value: Any) -> str:
    """Describes a value in a few words, however large or odd it is."""
    if value is None or value is Ellipsis or value is NotImplemented:
        return str(value)
    if isinstance(value, np.ndarray) or is_tensor(value):
        if not value.shape:
            return "one number"
        kind = "a tensor" if is_tensor(value) else "an array"
        return f"{kind} of shape {tuple(value.shape)}"
    if inspect.isgenerator(value):
        return "a generator (is there a `yield` where you meant `return`?)"
    if inspect.iscoroutine(value):
        value.close()
        return "a coroutine (an `async def` function; write `def`)"
    if callable(value):
        return f"a function ({_short.repr(getattr(value, '__name__', type(value).__name__))})"
    kind = type(value).__name__
    named = f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
    try:
        return f"{named}, {_short.repr(value)}"
    except Exception:  # a whole number with more digits than Python is willing to print
        return f"{named} that cannot be printed"


def show(value: Any, digits: int = 4) -> str:
    """Returns a few numbers as a reader would write them, rounding errors as 0; if there are many, only their count."""
    array = _without_noise(np.asarray(value))
    if array.ndim == 0:
        return _number(array.item(), digits)
    if array.size > 1 and not array.any():
        return "all zeros" if array.dtype.kind != "b" else "all False"
    if array.size > SHOW_UP_TO:
        return f"{array.size} numbers"
    if array.ndim == 1:
        return "[" + ", ".join(_number(number, digits) for number in array.tolist()) + "]"
    return "[" + ", ".join(show(row, digits) if row.any() else _zeros(row) for row in array) + "]"


def place(index: tuple[int, ...], axes: str = "") -> str:
    """Returns an index with its axes named: [t=2, d=5]."""
    letters = axes.lower().split()
    if len(letters) != len(index):
        return f"[{', '.join(map(str, index))}]"
    return f"[{', '.join(f'{letter}={i}' for letter, i in zip(letters, index, strict=True))}]"


def _difference(got: np.ndarray, want: np.ndarray, what: str, being: str, axes: str) -> str:
    if got.size <= SHOW_UP_TO:
        return f"{what} should be {being + ', ' if being else ''}{_pair(want, got)}."
    subject = f"{what} should be {being}" if being else what.removesuffix(",")
    differs = _distance(got, want) > SINGLE * _scale(want)
    first = tuple(int(i) for i in np.argwhere(differs)[0])
    if not got.any():
        return f"{what} should not be zero everywhere: {place(first, axes)} should be {show(want[first])}."
    return (
        f"{subject}: {place(first, axes)} should be {_pair(want[first], got[first])} "
        f"({differs.sum()} of {differs.size} numbers differ)."
    )


def _pair(want: Any, got: Any) -> str:
    """Returns both values, with enough digits to tell them apart."""
    digits = next((n for n in (4, 8, 12) if show(want, n) != show(got, n)), 17)
    return f"{show(want, digits)}; yours is {show(got, digits)}"


def _expect_real(got: np.ndarray, what: str, axes: str) -> None:
    if got.dtype.kind != "f":
        return
    if got.dtype.itemsize < 4:
        raise Wrong(f"{what} is {got.dtype}, which is too coarse to compare. Compute in float32 or float64.")
    bad = ~np.isfinite(got)
    if bad.any():
        first = tuple(int(i) for i in np.argwhere(bad)[0])
        where = f" at {place(first, axes)}" if first else ""
        raise Wrong(f"{what} is {got[first]}{where}, which is not a finite number.", what=what, got=got)


def _alike(one: Any, other: Any) -> bool:
    """Returns whether two wrong values agree to every digit that matters."""
    if isinstance(one, str) and isinstance(other, str):
        return one == other
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return len(one) == len(other) and all(map(_alike, one, other))
    try:
        one, other = as_numbers(one, ""), as_numbers(other, "")
    except Wrong:
        return False
    if one.shape != other.shape:
        return False
    usable = np.isfinite(one)  # two answers may also make the same division by zero
    return np.array_equal(usable, np.isfinite(other)) and _off(one[usable], other[usable]) <= SINGLE


def _off(got: np.ndarray, want: np.ndarray) -> float:
    """Returns the largest difference relative to the largest number in `want`; for whole numbers, 1.0 or 0.0."""
    if want.dtype.kind in "iub" and got.dtype.kind in "iub":
        return float((got != want).any())
    return float(_distance(got, want).max(initial=0.0)) / _scale(want)


def _rounded_to_single(got: np.ndarray, want: np.ndarray) -> bool:
    """Returns whether the numbers are right except that float32 rounded the whole numbers."""
    if want.dtype.kind not in "iu":
        return False
    with np.errstate(all="ignore"):
        held = [np.array_equal(one, one.astype(np.float32).astype(np.float64)) for one in (got, want)]
    return held == [True, False] and bool(_distance(got, want).max() <= SINGLE * _scale(want))


def _distance(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        apart = np.abs(got.astype(np.float64) - want.astype(np.float64))
    return np.where(np.isnan(apart), np.inf, apart)


def _scale(want: np.ndarray) -> float:
    return float(np.abs(want.astype(np.float64)).max(initial=1.0))


def _number(number: Any, digits: int) -> str:
    if isinstance(number, bool | int):
        return str(number)
    return f"{number:.{digits}g}"


def _zeros(row: np.ndarray) -> str:
    return "[" + ", ".join(["False" if row.dtype.kind == "b" else "0"] * row.size) + "]"


def _without_noise(array: np.ndarray) -> np.ndarray:
    """Returns the numbers with 0 in place of rounding errors: below 1e-12 of the largest number, and −0."""
    if array.dtype.kind != "f":
        return array
    sizes = np.where(np.isfinite(array), np.abs(array), 0.0)
    return np.where(np.isfinite(array) & (sizes <= 1e-12 * sizes.max(initial=0.0)), 0.0, array)


def is_tensor(value: Any) -> bool:
    """Returns whether this is a torch tensor, without importing torch."""
    kind = getattr(sys.modules.get("torch"), "Tensor", None)
    return kind is not None and issubclass(type(value), kind)
