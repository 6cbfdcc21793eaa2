"""The base of views with tables of numbers that a reader may change: the queries, keys and values of one head."""

from typing import ClassVar

import numpy as np
from traitlets import List, TraitError, default, validate

from .view import View

Rows = list[list[float]]


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

    q = List().tag(sync=True)
    k = List().tag(sync=True)
    v = List().tag(sync=True)
    cell = List().tag(sync=True)

    @default("q")
    def _default_q(self) -> Rows:
        return [list(row) for row in self.tables["q"]]

    @default("k")
    def _default_k(self) -> Rows:
        return [list(row) for row in self.tables["k"]]

    @default("v")
    def _default_v(self) -> Rows:
        return [list(row) for row in self.tables["v"]]

    @validate("q", "k", "v")
    def _validate_table(self, proposal: dict) -> list:
        name, given = proposal["trait"].name, proposal["value"]
        try:
            numbers = np.array(given, dtype=np.float64)
        except (TypeError, ValueError):
            numbers = np.empty(0)
        rows, columns = np.shape(self.tables[name])
        if numbers.shape != (rows, columns):
            raise TraitError(f"{name}={given!r} must be {rows} rows of {columns} numbers")
        if not (np.abs(numbers) <= self.largest).all():
            raise TraitError(f"{name}={given!r} has a number outside −{self.largest:g} … {self.largest:g}")
        return numbers.tolist()

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
