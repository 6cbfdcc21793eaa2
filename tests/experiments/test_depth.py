"""Tests what chapter 07 says about depth and width: models with equally many parameters, and their runs."""

import numpy as np
import pytest

from glassformer.experiments import experiment, stored
from glassformer.experiments.depth import D_HEAD, RATES, SHAPES, recipe_of
from glassformer.text import corpus


def losses(n_layers, rate=None):
    """Returns the losses of the stored runs, by seed."""
    return np.array([run.found["loss"] for run in stored("depth", n_layers=n_layers, learning_rate=rate)])


def configuration(n_layers):
    return recipe_of(n_layers, seed=0).made_for(corpus())[2]


def test_all_have_equally_many_parameters_and_heads_of_one_size():
    counts = [configuration(n).parameter_count().total for n in SHAPES]
    assert max(counts) / min(counts) < 1.01
    for n_layers, count in zip(SHAPES, counts, strict=True):
        config = configuration(n_layers)
        assert config.n_layers == n_layers
        assert config.d_head == D_HEAD
        assert 2 < config.d_ff / config.d_model < 3  # the same kind of block, wider or narrower
        assert {run.found["parameters"] for run in stored("depth", n_layers=n_layers)} == {count}


def test_they_differ_in_their_shape_and_in_nothing_else():
    made = [recipe_of(n, seed=1, learning_rate=0.01) for n in SHAPES]
    sizes = {"n_layers", "d_model", "d_ff", "n_heads"}
    kept = [{name: value for name, value in recipe.model.items() if name not in sizes} for recipe in made]
    assert kept == [kept[0]] * len(made)
    assert [recipe.training for recipe in made] == [made[0].training] * len(made)
    assert made[0].training.learning_rate == 0.01
    assert made[0].training.seed == 1


# What it found, and what chapter 07 says of it


def test_one_block_is_the_worst_with_every_seed():
    one = losses(1)
    for n_layers in (2, 4, 8):
        assert (losses(n_layers) < one - 0.01).all()
    assert one.min() > max(losses(n).max() for n in (2, 4, 8))
    assert (one.min().round(2), one.max().round(2)) == (1.80, 1.82)


def test_beyond_two_blocks_nothing_is_gained():
    two, four, eight = (losses(n) for n in (2, 4, 8))
    assert (two < eight).all()
    assert (eight < two + 0.02).all()
    assert four.min() < two.min()
    assert four.max() > eight.max()
    assert 1.755 < four.min() < four.max() < 1.795  # "between 1.76 and 1.79"


@pytest.mark.parametrize("rate", RATES)
def test_at_half_and_twice_the_rate_too_one_block_is_the_worst(rate):
    (one,) = losses(1, rate)
    for n_layers in (2, 4, 8):
        assert losses(n_layers, rate).item() < one


@pytest.mark.weekly
def test_in_short_too_one_block_is_behind_four():
    one, four = (experiment("depth").measure_shortly(n_layers=n, seed=5)["loss"] for n in (1, 4))
    assert four < one
