"""The words of a verdict: compare what the learner returned with what is right, say what differs and where.

Each function returns quietly or raises `Wrong`, whose message is what the learner reads. Values may arrive as
NumPy arrays or torch tensors, since readers build in both.
"""

import inspect
import re
import reprlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

# How far a right answer may be from ours, relative to the largest number in it. Formulas that are equal on
# paper differ by 1e-13 in float64 at the sizes used here.
TOLERANCE = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-5}

SHOW_UP_TO = 8  # numbers printed in full; of a larger array, the first that differs

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 60
_short.maxlist = _short.maxtuple = _short.maxdict = 4


class Wrong(Exception):  # noqa: N818 - it says what it means: raise Wrong("row 0 should be …")
    """The learner's answer is wrong in the way that the message says.

    Attributes:
        message: what differs, and where.
        advice: a sentence for whoever's mistake is not recognised.
        what: names the value that was looked at; empty where there is none.
        got: that value. A classic mistake that fails over the same value is recognised by it.
    """

    def __init__(self, message: str, *, advice: str = "", what: str = "", got: Any = None) -> None:
        super().__init__(f"{message} {advice}".strip())
        self.message, self.advice, self.what, self.got = message, advice, what, got

    def like(self, other: "Wrong") -> bool:
        """Whether both failed at the same place, over the same value."""
        return bool(self.what) and self.what == other.what and _alike(self.got, other.got)


def expect(got: Any, want: Any, what: str, *, being: str = "", advice: str = "", axes: str = "") -> None:
    """`got` equals `want`: same shape, same kind of number, every value as close as arithmetic allows.

    Args:
        got: what the learner's function returned.
        want: an array or number that does not come from the learner.
        what: names the value; it begins the message, as in "row 0".
        being: what the right value is, in words: "cos 2".
        advice: a sentence that ends the message where the mistake is not recognised.
        axes: the letters of its axes, as in "T D", so that shapes and places are named by them.

    Raises:
        Wrong: they differ; the message says where.
    """
    want = np.asarray(want)
    got = as_numbers(got, what, like=want)
    expect_shape(got, want.shape, what, axes=axes)
    if want.dtype.kind == "b" and got.dtype.kind != "b":
        raise Wrong(f"{what} should be True or False; yours is {show(got)}.", what=what, got=got)
    if want.dtype.kind in "iu" and got.dtype.kind not in "iu":
        said = f"{what} should be a whole number (int); yours is {got.dtype} {show(got)}."
        raise Wrong(said, what=what, got=got)
    _expect_real(got, what, axes)
    if _equal(got, want):
        return
    if got.dtype.kind in "iub" and want.dtype.kind == "f":
        advice = f"Yours are {got.dtype}, which cuts off the fractions: compute in float64."
    raise Wrong(_difference(got, want, what, being, axes), advice=advice, what=what, got=got)


def expect_row(got: Any, row: int, want: Any, what: str, *, axes: str = "", **said: str) -> None:
    """One row of `got` equals `want`; `said` goes to `expect`."""
    want = np.asarray(want)
    got = as_numbers(got, what)
    if got.ndim != want.ndim + 1 or len(got) <= row:
        raise Wrong(f"{what} has shape {got.shape}: there is no row {row} of {want.size} numbers in it.")
    expect(got[row], want, f"row {row} of {what}", axes=axes.partition(" ")[2], **said)


def expect_shape(got: Any, shape: tuple[int, ...], what: str, *, axes: str = "") -> None:
    """`got` has this shape. `axes` names the axes by letter: "T D"."""
    got = as_numbers(got, what)
    if got.shape == shape:
        return
    letters = axes.split()
    named = f"({', '.join(letters)}) = " if letters and len(letters) == len(shape) else ""
    turned = " It looks transposed." if len(shape) > 1 and got.shape == shape[::-1] else ""
    said = f"{what} should have shape {named}{shape}; yours has shape {got.shape}.{turned}"
    raise Wrong(said, what=what, got=got)


def expect_parts(got: Any, parts: tuple[str, ...]) -> tuple:
    """`got` is a tuple (or list) with one entry for each of `parts`; returns it as a tuple."""
    if not isinstance(got, tuple | list) or len(got) != len(parts):
        count = f" with {len(got)} entries" if isinstance(got, tuple | list) else ""
        raise Wrong(
            f"your function should return {len(parts)} things, ({', '.join(parts)}); "
            f"yours returned {describe(got)}{count}."
        )
    return tuple(got)


def expect_error(
    call: Callable[[], Any], what: str, *, kind: type[Exception] = ValueError, names: Sequence[int] = ()
) -> None:
    """`call()`, which `what` describes, raises `kind`, and its message names these numbers."""
    try:
        result = call()
    except Wrong:
        raise
    except kind as error:
        told = re.findall(r"\d+", str(error))
        if not {str(number) for number in names} <= set(told):
            both = " and ".join(map(str, names))
            said = f"the message should name {both}, for whoever reads it: {str(error)[:100]!r}"
            raise Wrong(said) from error
    except Exception as error:
        other = f"{type(error).__name__}: {str(error)[:200]}"
        raise Wrong(f"{what} should raise {kind.__name__}; yours raised {other}") from error
    else:
        said = f"{what} should raise {kind.__name__}; yours quietly returned {describe(result)}."
        raise Wrong(said, what=what, got=result)


def as_numbers(value: Any, what: str, *, like: np.ndarray | None = None) -> np.ndarray:
    """`value` as a NumPy array of numbers or truth values, or `Wrong` in words. Copies nothing."""
    if is_tensor(value):
        value = value.detach().cpu()
        if str(value.dtype) in ("torch.bfloat16", "torch.float16"):
            raise Wrong(f"{what} is {value.dtype}: too coarse to compare. Compute in float32 or float64.")
        value = value.numpy()
    scalar = like is not None and like.ndim == 0
    if isinstance(value, list | tuple | range):
        kind = type(value).__name__
        if scalar:
            raise Wrong(f"{what} should be a single number; yours is {describe(value)}.")
        raise Wrong(f"{what} should be an array; yours is a {kind}. Wrap it: np.array(...).")
    if not isinstance(value, np.ndarray | np.generic | bool | int | float | complex):
        kind = "a single number" if scalar else "an array"
        if like is not None and like.dtype.kind == "b" and scalar:
            kind = "True or False"
        raise Wrong(f"{what} should be {kind}; yours is {describe(value)}.")
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        advice = {
            "c": "Complex numbers are a fine way to rotate; take .real (and .imag) before you return.",
            "O": "An array of Python objects: build it with dtype=np.float64.",
        }.get(array.dtype.kind, "It should hold numbers.")
        raise Wrong(f"{what} has dtype {array.dtype}. {advice}")
    return array


def describe(value: Any) -> str:
    """What a value is, in a few words, however large or odd it is."""
    if value is None or value is Ellipsis or value is NotImplemented:
        return str(value)
    if isinstance(value, np.ndarray) or is_tensor(value):
        kind = "a tensor" if is_tensor(value) else "an array"
        return f"{kind} of shape {tuple(value.shape)}"
    if inspect.isgenerator(value):
        return "a generator (is there a `yield` where you meant `return`?)"
    if inspect.iscoroutine(value):
        value.close()
        return "a coroutine (an `async def` function; write `def`)"
    if callable(value):
        return f"a function ({_short.repr(getattr(value, '__name__', type(value).__name__))})"
    article = "an" if type(value).__name__[0] in "aeiou" else "a"
    return f"{article} {type(value).__name__}, {_short.repr(value)}"


def show(value: Any, digits: int = 4) -> str:
    """A few numbers as a reader would write them; of many, only how many."""
    array = np.asarray(value)
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
    """An index with its axes named: [t=2, d=5]."""
    letters = axes.lower().split()
    if len(letters) != len(index):
        return f"[{', '.join(map(str, index))}]"
    return f"[{', '.join(f'{letter}={i}' for letter, i in zip(letters, index, strict=True))}]"


def _difference(got: np.ndarray, want: np.ndarray, what: str, being: str, axes: str) -> str:
    if got.size <= SHOW_UP_TO:
        return f"{what} should be {being + ', ' if being else ''}{_pair(want, got)}."
    subject = f"{what} should be {being}" if being else what
    differs = ~np.isclose(got, want, rtol=0, atol=_tolerance(got, want))
    first = tuple(int(i) for i in np.argwhere(differs)[0])
    if not got.any():
        return f"{what} should not be zero everywhere: {place(first, axes)} should be {show(want[first])}."
    return (
        f"{subject}: {place(first, axes)} should be {_pair(want[first], got[first])} "
        f"({differs.sum()} of {differs.size} numbers differ)."
    )


def _pair(want: Any, got: Any) -> str:
    """Both, with as many digits as it takes to tell them apart."""
    digits = next((n for n in (4, 8, 12) if show(want, n) != show(got, n)), 17)
    return f"{show(want, digits)}; yours is {show(got, digits)}"


def _expect_real(got: np.ndarray, what: str, axes: str) -> None:
    if got.dtype.kind != "f":
        return
    if got.dtype not in TOLERANCE and got.dtype.itemsize < 4:
        raise Wrong(f"{what} is {got.dtype}: too coarse to compare. Compute in float32 or float64.")
    bad = ~np.isfinite(got)
    if bad.any():
        first = tuple(int(i) for i in np.argwhere(bad)[0])
        where = f" at {place(first, axes)}" if first else ""
        raise Wrong(f"{what} holds {got[first]}{where}: not a number one can go on with.")


def _alike(one: Any, other: Any) -> bool:
    """Whether two wrong values are the same to the last digit that counts."""
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return len(one) == len(other) and all(map(_alike, one, other))
    try:
        one, other = as_numbers(one, ""), as_numbers(other, "")
    except Wrong:
        return False
    return one.shape == other.shape and _equal(one, other)


def _equal(got: np.ndarray, want: np.ndarray) -> bool:
    if want.dtype.kind in "iub" and got.dtype.kind in "iub":
        return bool((got == want).all())
    return bool(np.allclose(got, want, rtol=0, atol=_tolerance(got, want)))


def _tolerance(got: np.ndarray, want: np.ndarray) -> float:
    largest = float(np.abs(want.astype(np.float64)).max(initial=1.0))
    return TOLERANCE.get(got.dtype, TOLERANCE[np.dtype(np.float64)]) * largest


def _number(number: Any, digits: int) -> str:
    if isinstance(number, bool | int):
        return str(number)
    return f"{number:.{digits}g}"


def _zeros(row: np.ndarray) -> str:
    return show(row + 0) if row.ndim == 0 else "[" + ", ".join(["0"] * row.size) + "]"


def is_tensor(value: Any) -> bool:
    """Whether this is a torch tensor. Asks without importing torch."""
    return type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "detach")
