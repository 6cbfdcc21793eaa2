"""Tests what chapter 18 says that experts gain, which of them are neglected, and how this was measured."""

import numpy as np
import pytest
import torch

from glassformer.experiments import experiment, stored
from glassformer.experiments.mixtures import (
    AFTER,
    CONTESTANTS,
    EQUAL_TIME,
    SEEDS,
    STEPS,
    drawn,
    effective,
    guesses,
    idle,
    made,
)

UNBALANCED = ("experts", "one of 16")
BALANCED = ("experts, loss", "experts, bias", "one of 16, loss", "one of 16, bias")


def runs(contestant, steps=None):
    found = stored("mixtures", part="contestants", contestant=contestant, steps=steps)
    assert [run.settings["seed"] for run in found] == list(SEEDS)
    return [run.found for run in found]


def losses(contestant, steps=None):
    return np.array([found["loss"] for found in runs(contestant, steps)])


def loads(contestant):
    """Returns the loads by seed, number of steps, layer and expert."""
    return np.array([found["loads"] for found in runs(contestant)])


# How it is measured


def test_the_effective_number_of_experts_and_the_idle_ones():
    load = np.array([[0.25, 0.25, 0.25, 0.25], [1, 0, 0, 0], [0.5, 0.46, 0.026, 0.014]])
    np.testing.assert_allclose(effective(load)[:2], [4, 1])
    assert 2 < effective(load)[2] < 2.5
    assert idle(load).tolist() == [0, 3, 1]


def test_all_contestants_but_the_wide_one_have_as_many_neurons_at_work():
    sizes = {name: made(name, 0, STEPS)[0].parameter_count() for name in CONTESTANTS}
    dense, wide = sizes.pop("dense"), sizes.pop("wide")
    assert wide.active == wide.total > 2.5 * dense.total
    for name, size in sizes.items():
        # A router, a bias or a table is all that they add
        assert 1 < size.active / dense.active < 1.03, name
        if "16" not in name:
            assert 1 < size.total / wide.total < 1.01, name


def test_all_contestants_are_trained_alike_on_the_same_text():
    first, *others = [made(name, 1, STEPS) for name in CONTESTANTS]
    for _, task, training in others:
        assert training == first[2]
        assert np.array_equal(task.batch(7)[0]["ids"], first[1].batch(7)[0]["ids"])


@pytest.mark.parametrize("name", ["experts", "shared", "one of 16"])
def test_a_gradient_reaches_every_router_even_that_of_a_single_expert(name):
    config, task, _ = made(name, 0, 2, ("training.batch_size=3",))
    model = drawn(config, 0)
    model(torch.from_numpy(task.batch(0)[0]["ids"])).square().mean().backward()
    for block in model.decoder.blocks:
        assert block.feedforward.router.W.weight.grad.abs().max() > 1e-6  # or only rounding is left


def test_a_guess_from_the_character_is_right_if_a_table_chooses_and_it_alone():
    short = ("model.n_layers=1", "training.batch_size=3")
    for name, always_right in (("table", True), ("experts", False)):
        config, task, _ = made(name, 0, 2, short)
        found = guesses(drawn(config, 0), np.stack([task.held_out[at : at + 129] for at in (0, 500, 1000)]))
        assert (found["guessed"] == [1.0]) is always_right
        assert found["always"] < found["guessed"]


@pytest.mark.parametrize("name", [name for name, changes in CONTESTANTS.items() if "kinds" in changes])
def test_every_choice_goes_to_some_expert(name):
    found = runs(name)
    assert all(one["after"] == [*AFTER, STEPS] for one in found)
    np.testing.assert_allclose(loads(name).sum(axis=-1), 1, atol=1e-3)


# What was found


def gains(contestant, over):
    """Returns by how much its loss is lower than another's, seed by seed."""
    return losses(over) - losses(contestant)


@pytest.mark.parametrize(
    "name", ["wide", "experts, loss", "experts, bias", "table", "shared", "one of 16, loss"]
)
def test_more_neurons_help_at_equal_tokens_whether_or_not_all_of_them_work(name):
    assert (gains(name, "dense") > 0.01).all()


def test_experts_gain_as_much_as_a_dense_network_of_all_their_neurons():
    assert abs(np.median(losses("experts, loss")) - np.median(losses("wide"))) < 0.02
    assert np.median(losses("experts, loss")) < np.median(losses("wide"))


def test_a_table_of_characters_chooses_at_least_as_well_as_a_router():
    for name in ("experts", "experts, loss", "experts, bias"):
        assert (gains("table", name) > 0.005).all()


def test_a_shared_expert_does_not_help_here():
    assert (gains("shared", "experts, loss") < -0.01).all()


@pytest.mark.parametrize("name", UNBALANCED)
def test_without_balance_a_router_neglects_many_of_its_experts(name):
    each = loads(name)
    n_experts = each.shape[-1]
    assert (effective(each[:, -1]).mean(axis=-1) < 0.65 * n_experts).all()
    # More of them are neglected at the end than before training, with every seed
    neglected = idle(each).sum(axis=-1)
    assert (neglected[:, -1] >= neglected[:, 0] + 5).all()
    assert 0.15 < neglected[:, -1].min() / (3 * n_experts) < neglected[:, -1].max() / (3 * n_experts) < 0.5


@pytest.mark.parametrize("name", BALANCED)
def test_a_loss_or_a_bias_keeps_all_experts_at_work(name):
    each = loads(name)
    assert (effective(each[:, -1]) > 0.93 * each.shape[-1]).all()
    assert (idle(each[:, -1]) == 0).all()


@pytest.mark.parametrize("way", ["loss", "bias"])
@pytest.mark.parametrize("name", UNBALANCED)
def test_balance_does_not_cost_loss_here_but_gains_a_little(name, way):
    gain = gains(f"{name}, {way}", name)
    assert (gain > 0).all()
    assert gain.max() < 0.04


def test_most_first_choices_can_be_guessed_from_the_character():
    for name in (*UNBALANCED, *BALANCED):
        for found in runs(name):
            assert min(found["guessed"]) > 0.5
            assert (np.array(found["guessed"]) > np.array(found["always"]) + 0.2).all()
    assert np.median([found["guessed"] for found in runs("experts, loss")]) > 0.7


def test_the_steps_of_equal_time_are_those_of_the_times_that_were_measured():
    [run] = stored("mixtures", part="seconds")
    seconds = run.found["seconds"]
    for name, n in EQUAL_TIME.items():  # two measurements differ by a few in a hundred
        assert abs(n * seconds[name] / (STEPS * seconds["experts, loss"]) - 1) < 0.08


def test_on_a_processor_experts_take_as_long_as_a_dense_network_of_all_their_neurons():
    [run] = stored("mixtures", part="seconds")
    for times in run.found.values():
        assert 1.3 < times["experts, loss"] / times["dense"] < 1.9
        assert 0.8 < times["experts, loss"] / times["wide"] < 1.2


def test_at_equal_time_a_small_dense_network_wins_here():
    assert (losses("dense", EQUAL_TIME["dense"]) < losses("experts, loss") - 0.02).all()


# In short


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["experts, loss", "one of 16"])
def test_in_short_too_loads_are_measured_from_the_beginning_to_the_end(name):
    found = experiment("mixtures").measure_shortly(part="contestants", contestant=name, seed=3)
    assert found["after"] == [0, 10, 20, 40]
    load = np.array(found["loads"])
    np.testing.assert_allclose(load.sum(axis=-1), 1)
    assert load.shape[:2] == (4, 1)
    assert found["guessed"][0] > found["always"][0]


@pytest.mark.weekly
def test_in_short_too_a_loss_balances():
    each = [
        experiment("mixtures").measure_shortly(part="contestants", contestant=name, seed=3)["loads"]
        for name in ("one of 16", "one of 16, loss")
    ]
    alone, balanced = (effective(loads[-1])[0] for loads in each)
    assert balanced > alone + 2
