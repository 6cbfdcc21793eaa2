"""Checks the types and shapes of arrays."""

from typing import Any

from glassformer._checks.numbers import Shape, door, equal


def dtype_of(array: Any) -> str:
    """Returns `"int64"` for NumPy's int64 and for torch's; for anything else, the name of its type."""
    return str(getattr(array, "dtype", type(array).__name__)).removeprefix("torch.")


_KINDS: dict[Any, str] = {}  # a cache, because every layer asks, for every token


def kind_of(array: Any) -> str:
    """Returns what kind of values an array holds: floats ("f"), integers ("i"), booleans ("b") or others ("")."""
    dtype = getattr(array, "dtype", None)
    if dtype not in _KINDS:
        starts = {"float": "f", "bfloat": "f", "int": "i", "uint": "i", "bool": "b"}
        found = (kind for start, kind in starts.items() if dtype_of(array).startswith(start))
        _KINDS[dtype] = "" if dtype is None else next(found, "")
    return _KINDS[dtype]


def integers(name: str, array: Any) -> None:
    """Checks that `array` holds integers."""
    if kind_of(array) != "i":
        raise TypeError(f"{name} must be an array of integers, not {dtype_of(array)}")


def floats(name: str, array: Any) -> None:
    """Checks that `array` holds floating-point numbers."""
    if door.closed:
        return
    if kind_of(array) != "f":
        raise TypeError(f"{name} must be an array of floating-point numbers, not {dtype_of(array)}")


def indices(name: str, array: Any, size_name: str, size: int, *, among: Any = None) -> None:
    """Checks that `array` holds integers that index a table of `size` rows; negative ones do not count from the end.

    `among`, if given, marks the entries to check.
    """
    integers(name, array)
    outside = (array < 0) | (array >= size)
    if among is not None:
        outside &= among
    if outside.any():
        flat = outside.reshape(-1).tolist().index(True)
        place = ", ".join(map(str, _unravel(flat, tuple(array.shape))))
        value = array.reshape(-1)[flat].item()
        raise ValueError(f"{name}[{place}]={value} is outside 0..{size - 1} ({size_name}={size})")


def _unravel(flat: int, shape: Shape) -> Shape:
    """Converts the flat index of an entry into its index along every axis."""
    index = []
    for size in reversed(shape):
        flat, along = divmod(flat, size)
        index.append(along)
    return tuple(reversed(index))


def vectors(name: str, array: Any, size_name: str, size: int, last: str = "") -> None:
    """Checks that `array` holds floating-point vectors of that size, and has the axes that `last` lists."""
    if door.closed:
        return
    floats(name, array)
    if last:
        axes(name, array, last)
    equal(f"{name}.shape[-1]", array.shape[-1], size_name, size)


def axes(name: str, array: Any, last: str) -> None:
    """Checks that `array` has at least the axes that `last` lists, such as "T, D"."""
    if door.closed:
        return
    if array.ndim < 1 + last.count(","):
        raise ValueError(f"{name} has shape {tuple(array.shape)}, but needs the axes (..., {last})")


def one_axis(name: str, array: Any, length: int | None = None) -> None:
    """Checks that `array` is a list of numbers, of the given length if there is one."""
    if not hasattr(array, "ndim"):
        raise TypeError(f"{name} must be an array, not {dtype_of(array)}")
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {tuple(array.shape)}, but needs exactly one axis")
    if length is not None and len(array) != length:
        raise ValueError(f"{name} has {len(array)} entries, but needs one for each of the {length} rows")


def one_axis_or_two(name: str, array: Any) -> None:
    """Checks that `array` is (T,) or, with a row for each text of a batch, (B, T)."""
    if array.ndim not in (1, 2):
        raise ValueError(f"{name} has shape {tuple(array.shape)}, but needs the axes (T,) or (B, T)")


def places(name: str, array: Any, batch: Shape, length: int) -> None:
    """Checks that `array` gives a position for each of `length` rows: (T,) for the whole batch, or (B, T)."""
    if door.closed:
        return
    integers(name, array)
    if array.ndim == 2 and tuple(array.shape[:-1]) == tuple(batch):
        array = array[0]
    one_axis(name, array, length=length)


def broadcasts(name: str, array: Any, scores: Shape) -> None:
    """Checks that `array` broadcasts to the shape of the scores without enlarging it."""
    trailing = scores[len(scores) - array.ndim :] if array.ndim <= len(scores) else ()
    fits = array.ndim == len(trailing) and all(
        size in (1, wanted) for size, wanted in zip(array.shape, trailing, strict=True)
    )
    if not fits:
        raise ValueError(
            f"{name} of shape {tuple(array.shape)} does not broadcast to the scores' {tuple(scores)}"
        )
