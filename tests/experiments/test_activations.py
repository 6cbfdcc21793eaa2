"""Tests what chapter 06 says about the value of each activation and about the initial values of W_down."""

import numpy as np
import pytest
import torch

from glassformer.experiments import experiment, stored
from glassformer.experiments.activations import KINDS, SEEDS, WIDTHS, measure, new_decoder
from glassformer.experiments.norm_placement import text_task


def losses(kind, down=None):
    """Returns one loss per seed."""
    runs = stored("activations", feedforward=kind, down=down)
    return np.array([run.found["loss"] for run in runs])


def test_all_runs_are_kept():
    kept = [run.settings for run in stored("activations")]
    assert sorted(map(str, kept)) == sorted(map(str, experiment("activations").runs))
    assert len(kept) == (len(KINDS) + 1) * len(SEEDS) == 18


def test_all_have_equally_many_parameters_but_for_a_rounding():
    sizes = {run.settings["feedforward"]: run.found["feed-forward"] for run in stored("activations")}
    assert sizes.pop("no network") == 0
    assert sizes == {kind: (3 if kind == "swiglu" else 2) * 64 * width for kind, width in WIDTHS.items()}
    assert max(sizes.values()) / min(sizes.values()) < 1.002


def test_bad_settings_are_refused():
    with pytest.raises(
        ValueError, match="feedforward='tanh' is not one of 'no network', 'none', 'relu', 'gelu', 'swiglu'"
    ):
        measure(feedforward="tanh", seed=0)
    with pytest.raises(ValueError, match="down='zero' is not one of 'd_ff', 'd_model'"):
        measure(feedforward="gelu", seed=0, down="zero")


def test_without_a_bend_the_network_is_one_linear_map():
    task = text_task(0, 20_000)
    x = torch.randn(5, 64, generator=torch.Generator().manual_seed(0))
    for kind, bends in (("none", False), ("relu", True)):
        network = new_decoder(kind, "d_ff", task, 0).decoder.blocks[1].feedforward
        with torch.no_grad():
            assert torch.allclose(network(-x), -network(x), atol=1e-5) != bends


def test_a_network_that_is_left_out_writes_nothing():
    block = new_decoder("no network", "d_ff", text_task(0, 20_000), 0).decoder.blocks[0]
    x = torch.randn(2, 5, 64, generator=torch.Generator().manual_seed(0))
    assert not block.feedforward(x).any()
    assert block.attention(x).any()


def test_the_wrong_root_makes_w_down_twice_as_large_and_nothing_else():
    task = text_task(0, 20_000)
    right, wrong = (
        dict(new_decoder("gelu", down, task, 0).named_parameters()) for down in ("d_ff", "d_model")
    )
    for name, weight in right.items():
        times = 2 if name.endswith("W_down.weight") else 1
        torch.testing.assert_close(wrong[name], times * weight)


# What it found, and what chapter 06 says of it


def test_the_gate_is_ahead_and_no_bend_behind_by_little_and_with_every_seed():
    relu = losses("relu")
    for kind, low, high in (("swiglu", 0.036, 0.045), ("gelu", 0.003, 0.017), ("none", -0.035, -0.02)):
        gains = relu - losses(kind)
        assert low < gains.min() < gains.max() < high
    assert max(np.ptp(losses(kind)) for kind in WIDTHS) < 0.04


def test_leaving_the_network_out_costs_as_little_as_leaving_the_bend_out():
    cost = losses("no network") - losses("relu")
    assert -0.01 < cost.min() < 0.01
    assert 0.04 < cost.max() < 0.05
    assert abs(np.median(losses("no network")) - np.median(losses("none"))) < 0.02


def test_a_table_of_pairs_knows_nearly_as_much():
    task = text_task(0)
    pairs = np.full((65, 65), 0.1)
    np.add.at(pairs, (task.ids[:-1], task.ids[1:]), 1)
    pairs /= pairs.sum(axis=1, keepdims=True)
    table = -np.log(pairs[task.held_out[:-1], task.held_out[1:]]).mean()
    assert table == pytest.approx(2.484, abs=0.001)
    for kind in KINDS:
        assert abs(losses(kind) - table).max() < 0.07


def test_seeds_differ_about_as_much_as_bends_do():
    assert 0.75 < np.ptp(losses("relu")) / (losses("relu") - losses("swiglu")).max() < 1.25


def test_the_wrong_root_costs_nothing():
    cost = losses("gelu", "d_model") - losses("gelu")
    assert -0.01 < cost.min() < cost.max() < 0


def test_in_a_longer_training_the_gate_is_ahead_with_two_seeds_of_three():
    before, after = (
        np.array([run.found["validation_loss"] for run in stored("recipes", part="ladder", recipe=name)])
        for name in ("RMSNorm", "SwiGLU")
    )
    assert sorted((before - after > 0.005).tolist()) == [False, True, True]
    assert (before - after).min() > -0.005


def test_in_short_a_model_without_a_bend_learns_too():
    found = experiment("activations").measure_shortly(feedforward="none", seed=3)
    assert found["course"][0] > 3.8
    assert found["loss"] < 3.2
