"""Tests what chapter 18 says that experts gain, which of them are neglected, and how this was measured."""

import numpy as np
import pytest

from glassformer.experiments import stored
from glassformer.experiments.mixtures import (
    AFTER,
    CONTESTANTS,
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
