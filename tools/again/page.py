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

The chapters show training runs that were made once and stored. Would they come out the same today? To find out, we
repeated one run of every kind, from nothing but its settings. Runs that differ only in their seed are of one kind,
and we repeated the first seed. This page compares everything that a run stores. If something differs, a row shows
what differs most.

- *{SAME}*: every number agrees in all {DIGITS} digits that are stored, and every text in every character.
- *{WITHIN}*: something differs, but by no more than the stored seeds differ in that same thing, or by one unit of
  the last digit. For a curve, the point that differs most is compared with the point where the seeds differ most.
- *{ALONE}*: something differs, and no other seed is stored to compare the difference with.
- *{OUTSIDE}*: something differs by more than the stored seeds do. If only two seeds are stored, look at what
  differs: half of the time, a third seed would differ from the first by more than the second does.
- *{NOT_YET}*: the run has not been repeated yet.

Different kinds of CPU add numbers in a different order, and training turns a difference in the last digit into a
large one. So expect *{WITHIN}* on another kind of CPU. On the same kind, with the same versions, expect mostly
*{SAME}*. By a kind we mean what PyTorch reports about the instructions it uses; two CPUs of one kind need not agree
in every bit. The table names a CPU if the stored run's was of another kind, or if its kind is not known. Times
always differ; the seconds are those of one CPU.

Tests check what the chapters say about the stored runs. They can check the same of the repeated ones: `pytest
tests/experiments --made-again book/again.json`.

`make experiments-again` repeats the runs and writes this page after each one. If you interrupt it, it continues
where it stopped. The results are in `book/again.json`.
"""

QUESTIONS = {
    MODELS: "Do the weights of the book's models have the losses that their descriptions give? They are measured"
    " again, not trained.",
    NEURONS: "Do the same contexts excite the neurons of the book's decoder?",
}

REMARKS = {
    "recall": "Where every seed finds nearly every mark, less than one question in a hundred is already more than"
    " the difference between seeds. This explains the two that are outside.",
    "inside": "The contexts of a neuron are the twenty places that excite it most. If two places excite it equally"
    " up to the last digits, another CPU takes the other one. Then another fraction of its contexts agrees, and"
    " another neuron is among the forty of a block that are removed one by one.",
    "pitfalls": "Most of the numbers compared here are counts in 32 texts, together several hundred words, that a"
    " model writes at the end. A single number that is rounded differently leads to other texts, and two seeds show"
    " too little of how much such counts vary. This explains those that are outside. A model that saw its answers"
    " writes the same few words over and over; which words, and therefore whether they exist, is chance.",
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
