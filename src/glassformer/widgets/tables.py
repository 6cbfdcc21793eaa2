"""Tables of numbers that a reader may change."""

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
