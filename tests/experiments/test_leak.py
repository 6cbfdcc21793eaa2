"""Tests the leak: what order is worth to decoders without positions, and what a learned table finds."""

import numpy as np
import pytest
import torch

from glassformer import nn
from glassformer.experiments import experiment, stored
from glassformer.experiments.leak import LENGTH, cosines, worth_of_the_order
from glassformer.experiments.positions import as_large_as_sinusoids, recipe_of
from glassformer.experiments.training import drawn
from glassformer.text import corpus


def found(what, **settings):
    """Returns the results of the stored runs, by seed."""
    return np.array([run.found[what] for run in stored("leak", **settings)])


def untrained(n_layers, positions):
    """Returns a model whose attention contributes to the stream, and the text held out from training."""
    recipe = recipe_of(positions, LENGTH, 0, 1, (f"model.n_layers={n_layers}", "model.n_heads=2"))
    _, task, config = recipe.made_for(corpus())
    return as_large_as_sinusoids(drawn(config, seed=0)), task.held_out


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("n_layers", "positions", "sees"), [(1, "none", False), (2, "none", True), (1, "rope", True)]
)
def test_one_block_without_positions_cannot_tell_the_order_of_the_past(n_layers, positions, sees):
    worth = abs(worth_of_the_order(*untrained(n_layers, positions)))
    assert (worth > 1e-4) == sees
    assert sees or worth < 1e-5


def test_what_the_model_reads_last_and_the_target_are_not_shuffled():
    class Last(nn.Transformer):
        """A model that predicts from the last token of a text alone."""

        def forward(self, ids, **inputs):
            return torch.nn.functional.one_hot(ids, self.config.vocab_size).float()

    model, held_out = untrained(1, "none")
    last = Last(model.config, generator=torch.Generator().manual_seed(0))
    assert worth_of_the_order(last, held_out) == 0


def test_cosines_of_rows():
    given = np.array([[2.0, 0.0], [0.0, 3.0], [1.0, 1.0]])
    half = np.sqrt(0.5)
    np.testing.assert_allclose(cosines(given), [[1, 0, half], [0, 1, half], [half, half, 1]], atol=1e-12)


# What it found, and what chapter 04 says of it: for every seed


def test_order_is_worth_nothing_to_one_block_more_to_each_deeper_one_and_most_with_positions():
    one, two, four = (found("worth", positions="none", n_layers=n) for n in (1, 2, 4))
    table = found("worth", positions="learned")
    assert len(one) == len(two) == len(four) == len(table) == 3
    assert (abs(one) < 1e-5).all()
    assert (two > 0.2).all()
    assert (four > two + 0.3).all()
    assert (table > four + 0.1).all()


def test_two_blocks_with_positions_beat_four_without():
    table = found("loss", positions="learned").max()
    losses = [found("loss", positions="none", n_layers=n) for n in (1, 2, 4)]
    assert table < losses[2].min() - 0.02
    assert losses[2].max() < losses[1].min() < losses[1].max() < losses[0].min()


def test_the_table_has_found_that_positions_lie_in_a_row():
    for table in found("cosines", positions="learned"):
        assert table.shape == (LENGTH, LENGTH)
        apart = [np.diagonal(table, n).mean() for n in (1, 6, 12)]
        assert apart[0] > 0.8
        assert 0.4 < apart[1] < apart[0]
        assert apart[2] < 0.2


@pytest.mark.weekly
def test_in_short_too_two_blocks_find_some():
    """A small model finds little so early, but still two hundred times as much as one block could find."""
    assert experiment("leak").measure_shortly(n_layers=2, positions="none", seed=3)["worth"] > 2e-3
