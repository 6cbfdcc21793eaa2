"""Tests the factor √d_head: what leaving it out costs, and how sharp the weights are without it."""

import numpy as np
import pytest
import torch

from glassformer import nn
from glassformer.experiments import experiment, stored
from glassformer.experiments.scale import RATES, sharpness
from glassformer.experiments.training import new_model, text_task


def found(d_head, scaled, rate):
    return [run.found for run in stored("scale", d_head=d_head, scaled=scaled, learning_rate=rate)]


def losses(d_head, scaled, rate):
    return np.array([each["validation_loss"] for each in found(d_head, scaled, rate)])


def cost(d_head, rate):
    return losses(d_head, False, rate) - losses(d_head, True, rate)


def share(d_head, scaled, rate, when):
    return np.median([each[when]["share"] for each in found(d_head, scaled, rate)])


def test_sharpness_of_even_weights():
    """If all queries are 0, a query at position t gives 1/(t + 1) to each key that it sees."""
    task = text_task(0, 20_000)
    model = new_model("pre", 1, task, 0, n_heads=1, d_head=4)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("W_q.weight"):
                weight.zero_()
    assert isinstance(model, nn.Transformer)
    even = 1 / np.arange(task.length // 2 + 1, task.length + 1)
    assert sharpness(model, task) == pytest.approx({"share": even.mean(), "slope": 1 - even.mean()}, abs=1e-6)


# What it found, and what chapter 03 says of it


@pytest.mark.parametrize("rate", RATES)
def test_narrow_heads_hardly_miss_it_and_wide_ones_do_with_every_seed(rate):
    assert np.median(cost(4, rate)) < 0.05
    assert 0 < cost(4, rate).min() < cost(4, rate).max() < 0.1
    for d_head in (64, 256):
        assert cost(d_head, rate).min() > 0.095
        assert cost(d_head, rate).max() < 0.255
    assert np.median(cost(4, rate)) < np.median(cost(16, rate)) < np.median(cost(64, rate))


@pytest.mark.parametrize("rate", RATES)
def test_with_it_heads_of_64_learn_more_than_heads_of_4_and_without_it_they_do_not(rate):
    assert np.median(losses(64, True, rate)) < np.median(losses(4, True, rate)) - 0.1
    assert np.median(losses(64, False, rate)) > np.median(losses(4, False, rate))


@pytest.mark.parametrize("rate", RATES)
def test_without_it_wide_heads_begin_sharp_and_stay_so(rate):
    for d_head, first in ((64, 0.79), (256, 0.89)):
        assert share(d_head, False, rate, "before") == pytest.approx(first, abs=0.006)
        assert share(d_head, False, rate, "after") > first - 0.02
        assert share(d_head, True, rate, "before") < 0.2
        assert share(d_head, True, rate, "after") > share(d_head, True, rate, "before") + 0.05


def test_no_run_failed():
    assert all(run.found["validation_loss"] < 2.8 for run in stored("scale"))


def test_in_short_too_wide_heads_begin_sharp_without_it():
    with_root, without = (
        experiment("scale").measure_shortly(d_head=64, scaled=scaled, learning_rate=3e-3, seed=3)
        for scaled in (True, False)
    )
    assert without["before"]["share"] > 0.7 > 0.3 > with_root["before"]["share"]
    assert without["after"]["slope"] < with_root["after"]["slope"] - 0.3
