"""The base of views with tables of numbers that a reader may change: the queries, keys and values of one head."""

from typing import Any, ClassVar

import numpy as np
from traitlets import List, TraitError, validate

from .view import View

Rows = list[list[float]]


class Table(List):
    """A table of the shape that it has at the start, in `tables` of the view under the trait's name."""

    def default(self, obj: Any = None) -> Rows:
        """Returns a copy of the table at the start."""
        return [list(row) for row in obj.tables[self.name]]

    def validate(self, obj: Any, value: Any) -> list:
        """Returns the table, or raises a TraitError that says what is wrong with it."""
        try:
            numbers = np.array(value, dtype=np.float64)
        except (TypeError, ValueError):
            numbers = np.empty(0)
        rows, columns = np.shape(obj.tables[self.name])
        if numbers.shape != (rows, columns):
            raise TraitError(f"{self.name}={value!r} must be {rows} rows of {columns} numbers")
        if not (np.abs(numbers) <= obj.largest).all():
            raise TraitError(f"{self.name}={value!r} has a number outside −{obj.largest:g} … {obj.largest:g}")
        return numbers.tolist()


class HeadTables(View):
    """The base of the views that show every number of one attention head. A subclass says which tables it shows.

    Attributes:
        tables: the queries, keys and values at the start, a row for each word, under "q", "k" and "v".
        largest: the largest absolute value of a number in them.
        kinds: the tables that a reader can select cells in, and the number of columns of each.
    """

    tables: ClassVar[dict[str, Rows]]
    largest: ClassVar[float]
    kinds: ClassVar[dict[str, int]]

    q = Table().tag(sync=True)
    k = Table().tag(sync=True)
    v = Table().tag(sync=True)
    cell = List().tag(sync=True)

    @validate("cell")
    def _validate_cell(self, proposal: dict) -> list:
        given, kinds = proposal["value"], self.kinds
        known = len(given) == 3 and given[0] in kinds
        if (
            not known
            or given[1] not in range(len(self.tables["q"]))
            or given[2] not in range(kinds[given[0]])
        ):
            raise TraitError(
                f"cell={given!r} must be one of {', '.join(kinds)}, then a row and a column of it"
            )
        return given
