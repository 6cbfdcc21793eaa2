"""Compares a repeated run with the stored one, and with the differences between stored seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from glassformer.experiments import Run
from glassformer.experiments.experiment import DIGITS, Found, rounded

SAME, WITHIN, ALONE, OUTSIDE = "the same", "within the seeds", "one seed", "outside"
VERDICTS = (SAME, WITHIN, ALONE, OUTSIDE)  # from the best to the worst

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
