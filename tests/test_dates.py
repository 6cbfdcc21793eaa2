"""Tests dates in the formats that people use, and in ISO 8601."""

import datetime
import re
from datetime import date

import numpy as np
import pytest

from glassformer.dates import (
    DAYS,
    FIRST,
    FORMS,
    LAST,
    MONTHS,
    ROMAN,
    TARGET_PLACES,
    WEEKDAYS,
    date_pairs,
    write_date,
)

DAY = date(1984, 11, 23)


@pytest.fixture(scope="module")
def pairs():
    return date_pairs()


@pytest.mark.parametrize(
    ("form", "options", "text"),
    [
        ("the {day_word} of {month}, {year}", {}, "the twenty-third of November, 1984"),
        ("{weekday}, {month} {day_th}, {year}", {}, "Friday, November 23rd, 1984"),
        ("{weekday}, {month} {day_th}, {year}", {"short": True}, "Fri, Nov 23rd, 1984"),
        ("{weekday}, {month} {day_th}, {year}", {"short": True, "small": True}, "fri, nov 23rd, 1984"),
        ("{day}. {month_roman}. {year}", {}, "23. XI. 1984"),
        ("{day}. {month_roman}. {year}", {"short": True, "small": True}, "23. xi. 1984"),
        ("{day}.{month_number}.{year}", {}, "23.11.1984"),
    ],
)
def test_by_hand(form, options, text):
    pair = write_date(DAY, form, **options)
    assert (pair.source, pair.target) == (text, "1984-11-23")


ORDINALS = """
1st first, 2nd second, 3rd third, 4th fourth, 10th tenth, 11th eleventh, 12th twelfth, 13th thirteenth, 19th nineteenth,
20th twentieth, 21st twenty-first, 22nd twenty-second, 23rd twenty-third, 29th twenty-ninth, 30th thirtieth,
31st thirty-first
"""


@pytest.mark.parametrize("said", ORDINALS.split(","), ids=str.strip)
def test_the_days_of_a_month(said):
    ordinal, word = said.split()
    day = date(2001, 1, int(ordinal[:-2]))
    assert write_date(day, "{day_th} {month} {year}").source == f"{ordinal} January 2001"
    assert write_date(day, "{month} the {day_word}, {year}").source == f"January the {word}, 2001"


def test_the_names_are_those_of_the_calendar():
    assert (len(set(DAYS)), len(set(ROMAN))) == (31, 12)
    for month in range(1, 13):
        assert date(2001, month, 1).strftime("%B") == MONTHS[month - 1]  # Python starts in English
    assert [date(2024, 1, 1 + i).strftime("%A") for i in range(7)] == WEEKDAYS


def understood(source):
    """Returns the day that a text means, parsed independently; raises if the text is ambiguous or is not a date."""
    text = source.lower()
    year = re.findall(r"\b\d{4}\b", text)
    rest = text.replace(year[0], " ")
    numbers = [int(n) for n in re.findall(r"\d+", rest)]
    months = [i for i, name in enumerate(MONTHS, 1) if re.search(rf"\b{name[:3].lower()}", rest)]
    months += [i for i, name in enumerate(ROMAN, 1) if re.search(rf"\b{name.lower()}\.", rest)]
    days = [i for i, name in enumerate(DAYS, 1) if re.search(rf"(?<![\w-]){name}(?![\w-])", rest)]
    if not days:
        days, numbers = numbers[:1], numbers[1:]
    if not months:
        months, numbers = numbers[:1], numbers[1:]
    assert (len(year), len(months), len(days), numbers) == (1, 1, 1, []), source
    return datetime.date(int(year[0]), months[0], days[0])


def test_every_text_means_its_day_and_no_other(pairs):
    for pair in pairs[::7]:
        assert understood(pair.source) == date.fromisoformat(pair.target)


def test_every_day_is_there_once_and_in_every_form(pairs):
    days = [pair.target for pair in pairs]
    assert len(days) == len(set(days)) == (LAST - FIRST).days + 1 == 73_049
    assert (min(days), max(days)) == ("1900-01-01", "2099-12-31")
    # What the page and the card say of 16 ways
    assert len(FORMS) == len(set(FORMS)) == 16
    shapes = {re.sub(r"\w+", "w", pair.source) for pair in pairs}
    assert shapes == {re.sub(r"\w+", "w", write_date(DAY, form).source) for form in FORMS} | {
        re.sub(r"\w+", "w", write_date(date(2001, 1, 1), form).source) for form in FORMS
    }


def test_the_order_tells_nothing_of_the_day(pairs):
    """Validation takes the last dates, so they must be like the others."""
    years = np.array([int(pair.target[:4]) for pair in pairs])
    assert abs(np.corrcoef(np.arange(len(years)), years)[0, 1]) < 0.02


def test_where_the_parts_are(pairs):
    parts = {part: "1984-11-23"[place] for part, place in TARGET_PLACES.items()}
    assert parts == {"year": "1984", "month": "11", "day": "23"}
    for form in FORMS:
        for options in ({}, {"short": True}, {"small": True}):
            pair = write_date(DAY, form, **options)
            said = {part: pair.source[place].lower() for part, place in pair.places.items()}
            assert said.keys() == TARGET_PLACES.keys()
            assert said["year"] == "1984"
            assert said["month"] in ("november", "nov", "11", "xi")
            assert said["day"] in ("23", "23rd", "twenty-third")


def test_the_seed_decides(pairs):
    """The order must never change: otherwise, dates that the book's model was trained on would validate it."""
    assert [pair.source for pair in pairs[:2]] == [
        "in 2084, on the thirty-first of March",
        "the twenty-fifth of December, 2074",
    ]
    assert [pair.target for pair in pairs[-2:]] == ["2033-02-24", "1991-05-19"]
    assert date_pairs(1)[:2] != pairs[:2]


def test_bad_input():
    with pytest.raises(ValueError, match=r"form='\{day\}/\{month\}' is not one of"):
        write_date(DAY, "{day}/{month}")
    with pytest.raises(ValueError, match="seed=-1 must be at least 0"):
        date_pairs(-1)
    with pytest.raises(TypeError, match=r"seed=0\.5 must be a whole number"):
        date_pairs(0.5)
