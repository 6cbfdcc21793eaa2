"""Tests that the page says of a file what Python says, by the same tables."""

import json
from functools import cache

import pytest

from glassformer.anatomy import families, ideas, read, report, savings, tables, words
from tests.anatomy.small import small
from tools.assets.config_classes import classes

CLASSES = cache(classes)


def of_family(family):
    """Returns the tables of one family: all of them for a hundred files would take megabytes."""
    own = {"families": {family: tables()["families"][family]}, "classes": {family: CLASSES()[family]}}
    return {"parts": tables()["parts"], "words": words()} | own


@pytest.fixture(scope="module")
def files():
    return {
        family: {**small(family, meta=True).config.to_dict(), "model_type": family} for family in CLASSES()
    }


def test_the_page_says_of_every_family_what_python_says(call, files):
    found = call.each("anatomy", "report", [[given, of_family(name), 21] for name, given in files.items()])
    for given, page in zip(files.values(), found, strict=True):
        assert page == report(given, 21)


def test_the_page_counts_for_every_family_what_each_idea_saves(call, files):
    arguments = [[given, of_family(name), ideas(), 21] for name, given in files.items()]
    for given, page in zip(files.values(), call.each("anatomy", "cacheReport", arguments), strict=True):
        seen = read(given)
        rows, numbers = savings(seen, 21), seen.kept(21).values()
        assert page["savings"] == json.loads(json.dumps(rows))
        assert None not in rows[0]["kept"]
        assert rows[-1]["kept"] == (None if None in numbers else [sum(c) for c in zip(*numbers, strict=True)])


def test_a_family_finds_what_it_is_like_in_any_order_because_a_notebook_sorts_tables(call):
    assert call("anatomy", "resolved", dict(sorted(families().items()))) == tables()["families"]
