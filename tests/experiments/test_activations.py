"""Tests what chapter 06 says about the value of each activation."""

import numpy as np
import pytest
import torch

from glassformer.experiments import experiment, stored
from glassformer.experiments.activations import KINDS, WIDTHS, new_decoder
from glassformer.experiments.training import text_task


def losses(kind):
    """Returns one loss per seed."""
    runs = stored("activations", feedforward=kind)
    return np.array([run.found["loss"] for run in runs])


def test_all_have_equally_many_parameters_but_for_a_rounding():
    sizes = {run.settings["feedforward"]: run.found["feed-forward"] for run in stored("activations")}
    assert sizes.pop("no network") == 0
    assert sizes == {kind: (3 if kind == "swiglu" else 2) * 64 * width for kind, width in WIDTHS.items()}
    assert max(sizes.values()) / min(sizes.values()) < 1.002


def test_without_a_nonlinearity_the_network_is_one_linear_map():
    task = text_task(0, 20_000)
    x = torch.randn(5, 64, generator=torch.Generator().manual_seed(0))
    for kind, nonlinear in (("linear", False), ("relu", True)):
        network = new_decoder(kind, task, 0).decoder.blocks[1].feedforward
        with torch.no_grad():
            assert torch.allclose(network(-x), -network(x), atol=1e-5) != nonlinear


def test_a_network_that_is_left_out_writes_nothing():
    block = new_decoder("no network", text_task(0, 20_000), 0).decoder.blocks[0]
    x = torch.randn(2, 5, 64, generator=torch.Generator().manual_seed(0))
    assert not block.feedforward(x).any()
    assert block.attention(x).any()


# What it found, and what chapter 06 says of it


def test_a_nonlinearity_is_worth_more_than_the_choice_of_one():
    nonlinear = np.stack([losses(kind) for kind in ("relu", "gelu", "swiglu")])
    without = np.stack([losses(kind) for kind in ("linear", "no network")])
    assert (nonlinear.max(axis=0) < without.min(axis=0) - 0.1).all()
    assert np.ptp(nonlinear, axis=0).max() < 0.1


def test_a_linear_network_is_no_better_than_none():
    assert abs(np.median(losses("linear")) - np.median(losses("no network"))) < 0.05


def test_all_learn_more_than_pairs_of_characters():
    task = text_task(0)
    pairs = np.full((65, 65), 0.1)
    np.add.at(pairs, (task.ids[:-1], task.ids[1:]), 1)
    pairs /= pairs.sum(axis=1, keepdims=True)
    table = -np.log(pairs[task.held_out[:-1], task.held_out[1:]]).mean()
    assert table == pytest.approx(2.484, abs=0.001)
    assert all((losses(kind) < table - 0.3).all() for kind in KINDS)


def test_in_a_longer_training_the_gate_is_ahead_with_two_seeds_of_three():
    before, after = (
        np.array([run.found["validation_loss"] for run in stored("recipes", part="ladder", recipe=name)])
        for name in ("RMSNorm", "SwiGLU")
    )
    assert sorted((before - after > 0.005).tolist()) == [False, True, True]
    assert (before - after).min() > -0.005


def test_in_short_a_model_without_a_nonlinearity_learns_too():
    found = experiment("activations").measure_shortly(feedforward="linear", seed=3)
    assert found["course"][0] > 3.8
    assert found["loss"] < 3.2
