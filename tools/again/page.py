"""Writes the page "Made again": how each repeated run compares with the stored one."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from glassformer.experiments import Run, experiment
from glassformer.experiments.experiment import DIGITS, Found
from tools.again.came import Came, of
from tools.again.compare import ALONE, OUTSIDE, SAME, VERDICTS, WITHIN, Difference, compare
from tools.again.kinds import MODELS, NEURONS, Kind
from tools.experiments import words
from tools.pages.anchors import slug

NOT_YET = "not yet"

HEADING = f"""# Made again

The chapters draw runs that were made once and are stored. Do they come out the same? This page says what came when
one run of every kind was made again, from nothing but its settings. Runs that differ in their seed alone are of one
kind, and the first seed is made again. Whatever a run keeps is compared. Of those that differ, a row shows what
differs most.

- *{SAME}*: every number agrees in all {DIGITS} digits that are kept, and every text in every character.
- *{WITHIN}*: something differs, but by no more than the stored seeds differ in that same thing, or by one unit of
  its last digit. Of a curve, the point that differs most is held against the point where the seeds differ most.
- *{ALONE}*: something differs, and no other seed is stored that could say whether it is much.
- *{OUTSIDE}*: something differs by more than the stored seeds do. A third seed, too, would differ from the first by
  more than the second does, every other time: where two are stored, look at what differs.
- *{NOT_YET}*: the run is still to be made again.

Two kinds of CPU add up in another order, and training makes much of a difference in the last digit. So on another
kind expect *{WITHIN}*; on the same kind, with the same versions, mostly *{SAME}*: a kind is what PyTorch says of its
own instructions, and two CPUs of one kind need not agree in every bit. What is timed differs anyway. A CPU is
named where the stored run's is of another kind, or not known. The seconds are those of one CPU.

What the chapters say of stored runs is held by tests. They hold it of these, too, in the places of the stored ones:
`pytest tests/experiments --made-again book/again.json`.

`make experiments-again` makes the runs, and writes this page after each: interrupted, it goes on where it stopped.
What came is kept in `book/again.json`.
"""

QUESTIONS = {
    MODELS: "Are the cards of the book's models true of their weights? They are measured again, not trained.",
    NEURONS: "Do the same contexts excite the neurons of the book's decoder?",
}

REMARKS = {
    "recall": "Where every seed finds nearly every mark, less than one question in a hundred is more than seeds "
    "differ: the two that are outside.",
    "inside": "A neuron's contexts are the twenty places that excite it most. Where two excite it equally to the last "
    "digits, another CPU takes the other; so another share of its contexts agrees, and another neuron is among the "
    "forty of a block that are taken out one by one.",
    "pitfalls": "Most of what is compared are counts in 32 texts, several hundred words, that a model writes in the "
    "end. One number rounded otherwise makes other texts, and of how much such counts differ two seeds say little: "
    "hence those that are outside. A model that saw its answers writes the same few words over and over; which, and "
    "so whether they exist, is chance.",
}
"""What to think of what came, where the verdicts alone mislead."""

ALL = """| | kinds | {} | seconds |
| :-- | {}--: |
"""
DIFFERENT = """| settings | came out | most | stored | now | difference | seeds differ |
| :-- | :-- | :-- | --: | --: | --: | --: |
"""


def page(kinds: Sequence[Kind], came: list[Came]) -> str:
    """Returns the text of book/again.md."""
    sections = [
        (name, [(kind, of(kind, came)) for kind in those])
        for name, those in groupby(kinds, key=lambda kind: kind.name)
    ]
    columns = (*VERDICTS, NOT_YET)
    summary = ALL.format(" | ".join(columns), "--: | " * (len(columns) + 1))
    summary += "".join(_summary(f"[{name}](#{slug(name)})", rows) for name, rows in sections)
    summary += _summary("all", [row for _, rows in sections for row in rows])
    parts = [HEADING, summary]
    for name, rows in sections:
        parts += [f"## {name}\n", f"{QUESTIONS.get(name) or experiment(name).question}\n"]
        parts += [f"{REMARKS[name]}\n"] if name in REMARKS else []
        parts += _section(rows)
    return "\n".join(parts)


def _section(rows: Sequence[tuple[Kind, Came | None]]) -> Iterator[str]:
    """Yields a table of the differences, and a line for each other outcome."""
    table, lists = [], defaultdict(list)
    for kind, one in rows:
        settings = words(kind.settings)
        if one is None:
            lists[NOT_YET].append(settings)
            continue
        worst, cpus = compare(kind.runs, one.run.found), _cpus(kind.runs[0].cpu, one.run.cpu)
        if worst is None:
            lists[f"{SAME}{cpus}"].append(f"{settings} ({one.seconds:,.0f} s)")
        else:
            table.append(_line([settings, f"{worst.verdict}{cpus}", *_cells(worst)]))
    if table:
        yield DIFFERENT + "".join(table)
    yield "".join(f"- *{how}*: {'; '.join(those)}\n" for how, those in lists.items())


def verdict(kind: Kind, one: Came | None) -> str:
    """Returns the verdict on a kind, or `NOT_YET` if it has not been repeated yet."""
    if one is None:
        return NOT_YET
    worst = compare(kind.runs, one.run.found)
    return worst.verdict if worst else SAME


def said(runs: Sequence[Run], now: Found) -> str:
    """Returns one line about a result, for people who wait for it."""
    worst = compare(runs, now)
    if worst is None:
        return SAME
    return f"{worst.verdict}: {worst.what} {_found(worst.stored)}, now {_found(worst.now)}"


def _summary(name: str, rows: Sequence[tuple[Kind, Came | None]]) -> str:
    counts = Counter(verdict(*row) for row in rows)
    seconds = sum(one.seconds for _, one in rows if one)
    cells = [name, len(rows)]
    cells += [counts[column] or "–" for column in (*VERDICTS, NOT_YET)]
    return _line([*cells, f"{seconds:,.0f}"])


def _cells(worst: Difference) -> list[str]:
    return [
        worst.what,
        _found(worst.stored),
        _found(worst.now),
        _number(worst.absolute),
        _number(worst.seeds),
    ]


def _cpus(stored: str | None, now: str | None) -> str:
    """Names both kinds of CPU if they differ."""
    return "" if stored == now else f" ({now}; stored: {stored or 'unknown'})"


def _number(value: float | None) -> str:
    return "–" if value is None or not math.isfinite(value) else f"{value:.2g}"


def _found(value: Any) -> str:
    """Returns a result as it is stored, with a long text shortened to its beginning."""
    if not isinstance(value, str):
        return "no number" if value is None else str(value)
    text = re.sub(r"[\s|`]+", " ", value).strip()
    return f"`{text[:23]}…`" if len(text) > 24 else f"`{text}`"


def _line(cells: Sequence[Any]) -> str:
    return "| " + " | ".join(map(str, cells)) + " |\n"
