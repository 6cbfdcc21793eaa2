"""Counts the numbers that a model learns: formulas in axis letters, and a table that prints them with their values.

A formula is a `Counter` of products of sizes: 4D² + 4D is `Counter(DD=4, D=4)`. The printed formula and the
count come from the same `Counter`, so they cannot disagree. The letters: V vocab_size, T context_length, D
d_model, F d_ff, H n_heads, G n_kv_heads, K d_head.
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["LETTERS", "ParameterCount", "Part", "evaluate", "of_layers", "spell"]
__dir__ = __all__.copy

LETTERS = {
    "V": "vocab_size",
    "T": "context_length",
    "D": "d_model",
    "F": "d_ff",
    "H": "n_heads",
    "G": "n_kv_heads",
    "K": "d_head",
}
OF_FORMS = {
    "R": "d_latent or rank",
    "Q": "d_query_latent",
    "P": "d_rotated",
    "N": "d_head - d_rotated",
    "U": "d_value",
    "I": "n_heads of the indexer",
    "J": "d_head of the indexer",
    "O": "d_group",
    "X": "n_experts",
    "A": "top_k",
    "Y": "d_shared",
    "M": "n_streams",
    "Z": "d_layer",
}
"""Letters of parts that came after 2023; kinds of layers can have different sizes of them."""


def evaluate(formula: Mapping[str, int], sizes: Mapping[str, int]) -> int:
    """Returns the value of a formula: Counter(DD=4, D=4) with D = 10 is 440.

    Raises:
        KeyError: a letter of the formula has no size.
    """
    return sum(n * math.prod(sizes[letter] for letter in product) for product, n in formula.items())


def spell(formula: Mapping[str, int]) -> str:
    """Writes a formula as text: Counter(DD=4, D=4) is "4D² + 4D". Longer products come first."""
    by_length = sorted(formula.items(), key=lambda term: -len(term[0]))
    products = ((_powers("·".join(product)), n) for product, n in by_length)
    return " + ".join(f"{n if n > 1 or not product else ''}{product}" for product, n in products) or "0"


def _powers(product: str) -> str:
    for letter in "DM":
        for power, sign in ((3, "³"), (2, "²")):
            product = product.replace("·".join(letter * power), letter + sign)
    return product


@dataclass(frozen=True)
class Part:
    """One line of the table: `times` components with `each` parameters, as `formula` says.

    If a part has no parameters, `note` says why.
    """

    name: str
    times: int
    formula: Counter[str]
    each: int
    note: str = ""

    @property
    def count(self) -> int:
        """Counts the parameters of all these components together."""
        return self.times * self.each

    def __str__(self) -> str:
        if not self.formula:
            return self.note
        one = spell(self.formula)
        if self.times == 1:
            return one
        return f"{self.times} × ({one})" if len(self.formula) > 1 else f"{self.times} × {one}"


@dataclass(frozen=True)
class ParameterCount:
    """A model's parameters, part by part; `str()` of it is the table that chapters 07, 08 and 13 show.

    `count.total` is the total, `count["attention"]` is the number for one part, and `count.parts` holds the
    lines. `count.active` leaves out the `idle` parameters, those of experts that a token does not choose. `blocks`
    gives the formula of a single block, for each kind, and `own_sizes` the sizes of that kind.

    Raises:
        KeyError: there is no part of that name; the message lists the existing parts.
    """

    sizes: dict[str, int]
    parts: tuple[Part, ...]
    blocks: dict[str, Counter[str]] = field(default_factory=dict)
    own_sizes: dict[str, dict[str, int]] = field(default_factory=dict)
    idle: int = 0

    @property
    def total(self) -> int:
        """Counts all parameters; shared ones count once."""
        return sum(part.count for part in self.parts)

    @property
    def active(self) -> int:
        """Counts the parameters that one token uses."""
        return self.total - self.idle

    def __getitem__(self, name: str) -> int:
        for part in self.parts:
            if part.name == name:
                return part.count
        raise KeyError(f"{name!r} is not a part of this model; its parts are {self._names()}")

    def _names(self) -> str:
        return ", ".join(part.name for part in self.parts)

    def __str__(self) -> str:
        rows = [("part", "formula", "each", "parameters", "share")]
        for part in self.parts:
            each = f"{part.each:,}" if part.times > 1 else ""
            rows.append((part.name, str(part), each, *self._numbers(part.count)))
        sums = {"total": self.total} | ({"used by one token": self.active} if self.idle else {})
        rows += [(name, "", "", *self._numbers(n)) for name, n in sums.items()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [_line(row, widths) for row in rows]
        rule = "─" * len(lines[0])
        table = [lines[0], rule, *lines[1 : -len(sums)], rule, *lines[-len(sums) :]]
        return "\n".join([*table, "", *self._block_lines(), *self._size_lines()])

    def _numbers(self, n: int) -> tuple[str, str]:
        """Writes a number of parameters, and its share of all."""
        return f"{n:,}", f"{100 * n / self.total:.2f} %"

    def _block_lines(self) -> list[str]:
        """Writes one line per kind of block: "one decoder block: 12D² + 13D = 7,087,872"."""
        return [
            f"one {kind} block: {spell(_without_f(formula, self.own_sizes[kind]))} = "
            f"{evaluate(formula, self.own_sizes[kind]):,}"
            for kind, formula in self.blocks.items()
        ]

    def _size_lines(self) -> list[str]:
        """Returns the values of the table's letters for this model, four per line."""
        used = set().union(*(set(product) for part in self.parts for product in part.formula))
        sizes = []
        for letter, name in (LETTERS | OF_FORMS).items():
            values = dict.fromkeys(f"{own[letter]:,}" for own in self.own_sizes.values() if letter in own)
            if letter in used:
                sizes.append(f"{letter} = {name} = {' or '.join(values)}")
        return [", ".join(sizes[start : start + 4]) for start in range(0, len(sizes), 4)]


def _without_f(formula: Counter[str], sizes: Mapping[str, int]) -> Counter[str]:
    """Replaces F by 4D, or another whole multiple of D, if d_ff is such a multiple."""
    multiple, rest = divmod(sizes["F"], sizes["D"])
    if rest:
        return formula
    result = Counter()
    for product, n in formula.items():
        result[product.replace("F", "D")] += n * multiple if "F" in product else n
    return result


def of_layers(
    name: str, place: str, layers: Mapping[str, tuple[Any, int]], d_model: int, sizes: Mapping[str, int]
) -> list[Part]:
    """Counts the part in one place of all layers, given by kind with their numbers: a line for each that differs."""
    lines: dict[Any, list[str]] = {}
    for kind, (layer, _) in layers.items():
        part = getattr(layer, place)
        formula = part.parameters(d_model)
        lines.setdefault((*formula.items(), evaluate(formula, {**sizes, **part.sizes})), []).append(kind)
    return [
        Part(
            name if len(lines) == 1 else f"{name}, {' and '.join(kinds)}",
            sum(layers[kind][1] for kind in kinds),
            Counter(dict(formula)),
            each,
            "" if formula else "none",
        )
        for (*formula, each), kinds in lines.items()
    ]


def _line(row: tuple[str, ...], widths: list[int]) -> str:
    """Aligns names and formulas to the left and numbers to the right."""
    cells = [
        cell.ljust(width) if column < 2 else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(cells)
