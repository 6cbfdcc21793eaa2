"""Tells from which gradients are wrong, and which right, where in a backward pass the mistake must be.

A backward pass goes from the loss to the table. So the mistake is just before the first gradients that are wrong: in
the last block that has any.
"""

import re
from collections.abc import Collection


def block_of(name: str) -> int:
    """Returns the number of a weight's block; −1 if it belongs to none."""
    found = re.search(r"(?<![a-z0-9])\d+|(?<=[a-z_])\d+(?=[._])", name.lower())
    return int(found[0]) if found else -1


def where_it_begins(wrong: Collection[str], right: Collection[str]) -> str:
    """Returns which gradients are wrong where the backward pass goes wrong first, and which are right there."""
    last = max(map(block_of, wrong))
    bad, good = ([one for one in some if block_of(one) == last] for some in (wrong, right))
    where = f" in block {last}, the last block that has any" if last >= 0 else ""
    said = f"Wrong{where}: {_listed(bad)}."
    return f"{said} Right there: {_listed(good)}." if good else said


def _listed(names: Collection[str]) -> str:
    shown = ", ".join(f"`{name}`" for name in sorted(names)[:9])
    return shown if len(names) <= 9 else f"{shown} and {len(names) - 9} more"
