"""Repeat every kind of stored run, with one seed, and report how far the results are from the stored ones.

    python -m tools.again                   continue: repeat the kinds that are missing
    python -m tools.again clinic models     only these two
    python -m tools.again --anew            discard the last results and start over
    python -m tools.again --page            repeat nothing; write the page from the last results

Runs that differ only in their seed are of one kind, and the first of each kind is repeated. Besides the experiments,
this includes the cards of the book's models, whose weights are measured again but not trained, and what excites their
neurons. Results are written to book/again.json after every run, together with the page book/again.md, so an
interrupted program continues where it stopped.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from glassformer import shipped
from glassformer.atomic_files import write_whole
from glassformer.experiments import NAMES, Run, experiment, stored
from glassformer.experiments.experiment import DIGITS, Found, Settings, rounded
from tools.experiments import each, versions, words
from tools.extensions.anchors import slug

BOOK = Path(__file__).parents[1] / "book"
DATA, PAGE = BOOK / "again.json", BOOK / "again.md"
MODELS, NEURONS = "models", "neurons"
EVERY = (*NAMES, MODELS, NEURONS)

SAME, WITHIN, ALONE, OUTSIDE = "the same", "within the seeds", "one seed", "outside"
VERDICTS = (SAME, WITHIN, ALONE, OUTSIDE)  # from the best to the worst
NOT_YET = "not yet"


# Which runs there are


class Kind(NamedTuple):
    """Stored runs that differ only in their seed, their experiment, and a function that makes one of them."""

    name: str
    measure: Callable[..., Found]
    runs: list[Run]

    @property
    def settings(self) -> Settings:
        """Returns the settings of the first run, which is the one that is repeated."""
        return self.runs[0].settings

    @property
    def key(self) -> str:
        """Returns the text by which `read` finds the kind's repeated run."""
        return _key(self.name, self.settings)


def _key(name: str, settings: Settings) -> str:
    return f"{name} {json.dumps(settings)}"


def kinds() -> list[Kind]:
    """Returns all kinds, in the order of `EVERY` and then in that of the runs."""
    every = [kind for name in NAMES for kind in grouped(name, experiment(name).measure, stored(name))]
    cards = [Run({"model": name}, rounded(_numbers_on(shipped.card(name)))) for name in shipped.NAMES]
    return [*every, *grouped(MODELS, card, cards), *grouped(NEURONS, neurons, _neurons_stored())]


def grouped(name: str, measure: Callable[..., Found], runs: Iterable[Run]) -> list[Kind]:
    """Groups the runs of one experiment by their settings without the seed."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        but_seed = {setting: value for setting, value in run.settings.items() if setting != "seed"}
        groups.setdefault(json.dumps(but_seed), []).append(run)
    return [Kind(name, measure, group) for group in groups.values()]


def card(model: str) -> Found:
    """Measures a shipped model again, with its existing weights, and returns the numbers on its card."""
    from tools.models.make import keep, made

    with tempfile.TemporaryDirectory() as folder:
        return _numbers_on(keep(made(model, [], Path(str(shipped.PLACE))), [], Path(folder)))


def _numbers_on(card: dict[str, Any]) -> Found:
    """Returns a card without its descriptions and without the libraries that made it."""
    return {name: said for name, said in card.items() if name not in ("made_with", "checksum")}


def neurons(model: str) -> Found:
    """Searches again for the texts that excite a shipped decoder's neurons, and returns a few numbers about them."""
    from tools.assets.neurons import excited

    return _of_neurons(excited(model))


def _neurons_stored() -> list[Run]:
    from safetensors.numpy import load

    from glassformer.chapters.ch06.neuron_explorer import PLACE

    files = sorted((file for file in PLACE.iterdir() if file.name.endswith(".safetensors")), key=str)
    return [
        Run({"model": file.name.removesuffix(".safetensors")}, rounded(_of_neurons(load(file.read_bytes()))))
        for file in files
    ]


def _of_neurons(arrays: dict[str, Any]) -> Found:
    """Returns the mean value and the sum of positions for each block and sign; any other position changes the sum."""
    return {
        "mean value": arrays["values"].astype(float).mean(axis=(2, 3)).tolist(),
        "sum of the places": arrays["places"].astype(int).sum(axis=(2, 3)).tolist(),
    }


# Their file


def read(file: Path) -> dict[str, dict[str, Any]]:
    """Returns the repeated runs in the file, by the keys of their kinds."""
    runs = json.loads(file.read_text(encoding="utf-8")) if file.exists() else []
    return {_key(run["name"], run["settings"]): run for run in runs}


def write(every: Iterable[Kind], repeated: dict[str, dict[str, Any]]) -> None:
    """Writes one line per run, in the order of the kinds, and the page."""
    runs = [repeated[kind.key] for kind in every if kind.key in repeated]
    lines = [json.dumps(run, ensure_ascii=False, allow_nan=False) for run in runs]
    write_whole(DATA, ("[\n " + ",\n ".join(lines) + "\n]\n").encode())
    PAGE.write_text(page(every, repeated), encoding="utf-8")


# A repeated run and the stored ones

LENGTH = "length"  # of a list
SOMETHING, NOTHING = "something", "nothing"  # marks what only one of the two runs has


class Difference(NamedTuple):
    """The difference between one result of a run and its stored value.

    A result is a number, a text, or a list of these; for a list, `stored` and `now` are the values that differ most.
    `absolute` is infinite if the values are not both numbers; `relative` is a fraction of the stored value. `seeds` is
    the largest difference between stored seeds in this result, or None if only one seed is stored.
    """

    what: str
    verdict: str
    stored: Any
    now: Any
    absolute: float
    relative: float
    seeds: float | None


def compare(runs: Sequence[Run], now: Found) -> Difference | None:
    """Returns the worst difference between the first of some stored runs and the repeated run; None if there is none.

    The other stored runs have the same settings and other seeds. The verdict is "within the seeds" if the difference is
    no larger than that between seeds in the same result, or than one unit of the last stored digit. If it is larger,
    the verdict is "outside"; if there is only one seed, it is "one seed". The worst difference has the worst verdict,
    and among those is the largest relative to the difference between seeds, or to the stored number.
    """
    first, *others = [things(run.found) for run in runs]
    here = things(now)
    every = [
        _difference(what, first.get(what), here.get(what), [seed.get(what) for seed in others])
        for what in {**first, **here}
    ]
    return max((one for one in every if one), key=_badness, default=None)


def things(found: Found) -> dict[str, list[Any]]:
    """Lists the results of a run one by one: the names that lead to each, and its values in order.

    The length of a list is a result of its own. Numbers that are not finite become None, as in the stored file.
    """
    every: dict[str, list[Any]] = {}

    def take(names: tuple[str, ...], value: Any) -> None:
        if isinstance(value, dict):
            for name, inner in value.items():
                take((*names, name), inner)
        elif isinstance(value, list):
            every.setdefault(", ".join((*names, LENGTH)), []).append(len(value))
            for inner in value:
                take(names, inner)
        else:
            every.setdefault(", ".join(names), []).append(rounded(value))

    take((), found)
    return every


def _difference(
    what: str, stored: list[Any] | None, now: list[Any] | None, others: list[list[Any] | None]
) -> Difference | None:
    """Compares one thing; None if there is no difference, or if a difference of length already reports it."""
    if stored == now:
        return None
    if stored is None or now is None:
        there = (NOTHING, SOMETHING) if stored is None else (SOMETHING, NOTHING)
        return Difference(what, OUTSIDE, *there, math.inf, math.inf, None)
    if len(stored) != len(now):
        return None
    absolute, at = max(
        ((_apart(old, new), at) for at, (old, new) in enumerate(zip(stored, now, strict=True))),
        key=lambda one: one[0],
    )
    seeds = [stored, *(other for other in others if other is not None and len(other) == len(stored))]
    old, new = stored[at], now[at]
    if len(seeds) == 1:
        seeds_differ = None
    elif math.isfinite(absolute):
        seeds_differ = max(_range(values) for values in zip(*seeds, strict=True))
    else:
        seeds_differ = math.inf if _may_be(new, [seed[at] for seed in seeds]) else 0.0
    if absolute <= max(seeds_differ or 0.0, _last_digit(old)):
        verdict = WITHIN
    else:
        verdict = ALONE if seeds_differ is None else OUTSIDE
    relative = absolute / abs(old) if _is_number(old) and old else math.inf
    return Difference(what, verdict, old, new, absolute, relative, seeds_differ)


def _badness(one: Difference) -> tuple[int, float]:
    if one.seeds == math.inf:  # a different text, where every seed has a different one
        return VERDICTS.index(one.verdict), 0.0
    return VERDICTS.index(one.verdict), one.absolute / one.seeds if one.seeds else one.relative


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _apart(one: Any, other: Any) -> float:
    if one == other:
        return 0.0
    return float(abs(one - other)) if _is_number(one) and _is_number(other) else math.inf


def _range(values: Sequence[Any]) -> float:
    """Returns the range of those values that are numbers, from the lowest to the highest."""
    numbers = [value for value in values if _is_number(value)]
    return float(max(numbers) - min(numbers)) if numbers else 0.0


def _may_be(now: Any, seeds: Sequence[Any]) -> bool:
    """Returns whether a new value that is not a number is to be expected: a seed had it, or the texts differ anyway."""
    return now in seeds or (isinstance(now, str) and len(set(seeds)) > 1)


def _last_digit(value: Any) -> float:
    """Returns one unit of the last digit that is stored, with a margin for the rounding of the subtraction."""
    if not isinstance(value, float) or value == 0:
        return 0.0
    return 1.001 * 10.0 ** (math.floor(math.log10(abs(value))) - DIGITS + 1)


Row = tuple[Kind, dict[str, Any] | None, Difference | None]
"""A kind, its repeated run, and the worst difference between that and the stored ones, as far as there is any."""


# The page


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
    " too little of how much such counts vary. This explains those that are outside, except for two with states: their"
    " first gradients are long, and depend on how sums are rounded, while their losses agree. A model that saw its"
    " answers writes the same few words over and over; which words, and therefore whether they exist, is chance.",
}
"""What to think of what came, where the verdicts alone mislead."""


ALL = """| | kinds | {} | seconds |
| :-- | {}--: |
"""
DIFFERENT = """| settings | came out | most | stored | now | difference | seeds differ |
| :-- | :-- | :-- | --: | --: | --: | --: |
"""


def page(every: Iterable[Kind], repeated: dict[str, dict[str, Any]]) -> str:
    """Returns the text of book/again.md."""
    rows = [
        (kind, run, compare(kind.runs, run["found"]) if run else None)
        for kind in every
        for run in [repeated.get(kind.key)]
    ]
    sections = [(name, list(those)) for name, those in groupby(rows, key=lambda row: row[0].name)]
    columns = (*VERDICTS, NOT_YET)
    summary = ALL.format(" | ".join(columns), "--: | " * (len(columns) + 1))
    summary += "".join(_summary(f"[{name}](#{slug(name)})", those) for name, those in sections)
    parts = [HEADING, summary + _summary("all", rows)]
    for name, those in sections:
        parts += [f"## {name}\n", f"{QUESTIONS.get(name) or experiment(name).question}\n"]
        parts += [f"{REMARKS[name]}\n"] if name in REMARKS else []
        parts += _section(those)
    return "\n".join(parts)


def page_of(file: Path) -> str:
    """Returns the page of the repeated runs in a file."""
    return page(kinds(), read(file))


def _summary(name: str, rows: Sequence[Row]) -> str:
    counts = Counter(NOT_YET if run is None else worst.verdict if worst else SAME for _, run, worst in rows)
    seconds = sum(run["seconds"] for _, run, _ in rows if run)
    return _line(
        [name, len(rows), *(counts[column] or "–" for column in (*VERDICTS, NOT_YET)), f"{seconds:,.0f}"]
    )


def _section(rows: Sequence[Row]) -> Iterator[str]:
    """Yields a table of the differences, and a line for each other outcome."""
    table, lists = "", defaultdict(list)
    for kind, run, worst in rows:
        settings = words(kind.settings)
        if run is None:
            lists[NOT_YET].append(settings)
            continue
        stored_on = kind.runs[0].cpu
        cpus = "" if stored_on == run["cpu"] else f" ({run['cpu']}; stored: {stored_on or 'unknown'})"
        if worst is None:
            lists[f"{SAME}{cpus}"].append(f"{settings} ({run['seconds']:,.0f} s)")
        else:
            cells = [settings, f"{worst.verdict}{cpus}", worst.what, _found(worst.stored), _found(worst.now)]
            table += _line([*cells, _number(worst.absolute), _number(worst.seeds)])
    if table:
        yield DIFFERENT + table
    yield "".join(f"- *{how}*: {'; '.join(those)}\n" for how, those in lists.items())


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


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.again",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(EVERY)} (default: all)")
    parser.add_argument("--anew", action="store_true", help="also repeat what was repeated already")
    parser.add_argument("--page", action="store_true", help="repeat nothing; write the page")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="runs at the same time")
    options = parser.parse_args()
    for name in options.names:
        if name not in EVERY:
            parser.error(f"{name!r} is not one of {', '.join(EVERY)}")
    every, repeated = kinds(), read(DATA)
    chosen = [kind for kind in every if kind.name in (options.names or EVERY) and not options.page]
    todo = [kind for kind in chosen if options.anew or kind.key not in repeated]
    for kind in todo:
        repeated.pop(kind.key, None)
    print(f"{len(todo)} of {len(every)} runs to repeat{'' if todo else '; --anew starts over'}", flush=True)
    failed = 0
    for at, run, seconds in each([(kind.measure, kind.settings) for kind in todo], options.workers):
        kind = todo[at]
        if isinstance(run, BaseException):
            failed += 1
            said = repr(run)
        else:
            spent = {"seconds": round(seconds, 1), "made_with": versions()}
            repeated[kind.key] = {"name": kind.name, **run._asdict(), **spent}
            write(every, repeated)
            worst = compare(kind.runs, run.found)
            said = f"{seconds:.0f} s, {f'{worst.verdict}: {worst.what}' if worst else SAME}"
        print(f"{kind.name}: {words(kind.settings)}: {said}", flush=True)
    write(every, repeated)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
