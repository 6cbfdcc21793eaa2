"""Tables of numbers that a reader may change, and the number that is explained."""

import numpy as np
from traitlets import TraitError


def table(name: str, given: object, shape: tuple[int, int], largest: float) -> list:
    """`given`, the new value of a trait, as rows of numbers.

    Raises:
        TraitError: it is of another shape, or has a number outside −largest … largest.
    """
    try:
        numbers = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        numbers = np.empty(0)
    rows, columns = shape
    if numbers.shape != shape:
        raise TraitError(f"{name}={given!r} must be {rows} rows of {columns} numbers")
    if not (np.abs(numbers) <= largest).all():
        raise TraitError(f"{name}={given!r} has a number outside −{largest:g} … {largest:g}")
    return numbers.tolist()


def cell(given: list, rows: int, columns: dict[str, int]) -> list:
    """`given`, the new value of the trait `cell`: which of several tables, a row, a column.

    Raises:
        TraitError: there is no such table among `columns`, or it has no such row or column.
    """
    known = len(given) == 3 and given[0] in columns
    if not known or given[1] not in range(rows) or given[2] not in range(columns[given[0]]):
        raise TraitError(f"cell={given!r} must be one of {', '.join(columns)}, then a row and a column of it")
    return given
