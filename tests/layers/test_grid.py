"""Tests that the grid covers what it claims: a model outside the grid is tested by no suite that uses it."""

from dataclasses import fields

from glassformer.config import CHOICES, POSITIONS, ModelConfig

from .covering import pairs
from .grid import COVERING, GRID, SYSTEMS, allowed_pairs
from .rooms import METHODS

# One value is enough: the sizes that only say how large tables are, and what the tests of training switch on
SIZES_ALONE = {"n_layers", "dropout"}


def test_every_pair_of_choices_that_can_meet_meets():
    met = set()
    for row in COVERING:
        met |= pairs(row)
    assert allowed_pairs() - met == set()


def test_every_field_has_more_than_one_value():
    for f in fields(ModelConfig):
        values = {str(getattr(config, f.name)) for config in GRID.values()}
        if f.name in CHOICES:
            assert values == set(CHOICES[f.name]), f.name
        elif f.name not in SIZES_ALONE:
            assert len(values) > 1, f.name


def test_no_model_is_there_twice():
    assert len(set(GRID.values())) == len(COVERING) + len(SYSTEMS)


def test_every_position_encoding_is_built_alone():
    assert set(POSITIONS) <= set(METHODS), "add to METHODS of rooms.py"
