"""Tests sublayers that replace the stream: two blocks learn less, and eight learn nothing."""

import numpy as np
import pytest

from glassformer.experiments import experiment, stored
from glassformer.experiments.residual import RATES, SEEDS


def losses(adds, n_layers, rate):
    runs = stored("residual", adds=adds, n_layers=n_layers, learning_rate=rate)
    assert [run.settings["seed"] for run in runs] == list(SEEDS)
    return np.array([run.found["validation_loss"] for run in runs])


def unigram():
    [plateau] = {run.found["unigram"] for run in stored("residual")}
    return plateau


# What it found, and what chapter 07 says of it


@pytest.mark.parametrize("rate", RATES)
def test_two_blocks_learn_less_without_it_with_every_seed(rate):
    cost = losses(False, 2, rate) - losses(True, 2, rate)
    assert 0.2 < cost.min() < cost.max() < 0.55
    assert losses(False, 2, rate).max() < unigram() - 0.15


@pytest.mark.parametrize("rate", RATES)
def test_eight_blocks_learn_next_to_nothing_without_it(rate):
    assert abs(losses(False, 8, rate) - unigram()).max() < 0.01
    assert losses(True, 8, rate).max() < unigram() - 0.4


def test_in_short_too_two_blocks_learn_less_without_it():
    adds, replaces = (
        experiment("residual").measure_shortly(adds=adds, n_layers=2, learning_rate=3e-3, seed=4)
        for adds in (True, False)
    )
    assert adds["validation_loss"] < replaces["validation_loss"] - 0.15
    assert adds["validation_loss"] < adds["unigram"] - 0.15
