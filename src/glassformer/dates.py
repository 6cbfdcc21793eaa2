"""Dates as people write them, paired with the same dates in ISO 8601, for an encoder–decoder to learn.

    the twenty-third of November, 1984  →  1984-11-23

The texts are short, there are plenty, and they need no file. Attention is easy to see in them: year, month
and day change places, and the name of a month becomes a number. Every form stands for exactly one day.
Slashes are not used, because 11/12/1984 is in November for some readers and in December for others. In forms
with dots, the day comes first.
"""

from datetime import date, timedelta
from functools import cache
from string import Formatter
from typing import NamedTuple

import numpy as np

from glassformer import _checks as checks

__all__ = ["FORMS", "TARGET_PLACES", "DatePair", "date_pairs", "write_date"]
__dir__ = __all__.copy

FIRST, LAST = date(1900, 1, 1), date(2099, 12, 31)

FORMS = (
    "{day} {month} {year}",
    "{day_th} {month} {year}",
    "{day_th} of {month}, {year}",
    "the {day_th} of {month} {year}",
    "the {day_word} of {month}, {year}",
    "{month} {day}, {year}",
    "{month} {day_th}, {year}",
    "{month} the {day_th}, {year}",
    "{month} the {day_word}, {year}",
    "{weekday}, {day} {month} {year}",
    "{weekday}, {month} {day_th}, {year}",
    "{weekday} the {day_word} of {month}, {year}",
    "{year}, {month} {day}",
    "in {year}, on the {day_word} of {month}",
    "{day}.{month_number}.{year}",
    "{day}. {month_roman}. {year}",
)
"""The ways to write a day."""

SHORT, SMALL = 0.3, 0.2  # how often names are cut to three letters; how often capitals are dropped

WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
MONTHS = [
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
]  # fmt: skip
ROMAN = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"]
UNITS = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth"]
TEENS = [
    "tenth", "eleventh", "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth",
    "nineteenth",
]  # fmt: skip
DAYS = [*UNITS, *TEENS, "twentieth", *(f"twenty-{unit}" for unit in UNITS), "thirtieth", "thirty-first"]

TARGET_PLACES = {"year": slice(0, 4), "month": slice(5, 7), "day": slice(8, 10)}
"""The positions of year, month and day in every target."""


class DatePair(NamedTuple):
    """One day, written in two ways."""

    source: str  # as people write it
    target: str  # in ISO 8601
    places: dict[str, slice]  # where in the source "year", "month" and "day" are


def write_date(day: date, form: str, *, short: bool = False, small: bool = False) -> DatePair:
    """Writes the day in one of the `FORMS`: with `short`, in names of three letters; with `small`, without capitals.

    Used in chapter 12.

    Raises:
        ValueError: `form` is not one of the `FORMS`.
    """
    checks.one_of("form", form, FORMS)
    letters = 3 if short else None
    words = {
        "year": f"{day.year}",
        "month": MONTHS[day.month - 1][:letters],
        "month_number": f"{day.month}",
        "month_roman": ROMAN[day.month - 1],
        "day": f"{day.day}",
        "day_th": f"{day.day}{_ending(day.day)}",
        "day_word": DAYS[day.day - 1],
        "weekday": WEEKDAYS[day.weekday()][:letters],
    }
    text, places = "", {}
    for between, field, _, _ in Formatter().parse(form):
        text += between
        if field is not None:
            # "day_word" is one way to write the "day".
            places[field.partition("_")[0]] = slice(len(text), len(text) + len(words[field]))
            text += words[field]
    places.pop("weekday", None)  # the weekday is only decoration: the date does not depend on it
    return DatePair(text.lower() if small else text, day.isoformat(), places)


@cache
def date_pairs(seed: int = 0) -> tuple[DatePair, ...]:
    """Returns every day from 1900 to 2099 once, in random order, each written in a randomly chosen form.

    Because each day occurs only once, no day of the validation part also occurs in the training part in
    another form.

    Used in chapter 12.

    Raises:
        ValueError: `seed` is negative.
        TypeError: `seed` is not a whole number.
    """
    checks.whole("seed", seed, at_least=0)
    generator = np.random.default_rng(seed)
    n = (LAST - FIRST).days + 1
    order = generator.permutation(n)
    forms = generator.integers(len(FORMS), size=n)
    short = generator.random(n) < SHORT
    small = generator.random(n) < SMALL
    return tuple(
        write_date(
            FIRST + timedelta(days=int(order[i])), FORMS[forms[i]], short=bool(short[i]), small=bool(small[i])
        )
        for i in range(n)
    )


def _ending(day: int) -> str:
    """Returns the ending of a day's number: 1st, 2nd, 3rd, 4th; but 11th, 12th, 13th."""
    return "th" if 11 <= day <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
