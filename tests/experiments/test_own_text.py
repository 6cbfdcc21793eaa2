"""Tests what the book says about the length of a text: what a short text costs, and when to stop training."""

import numpy as np
import pytest

from glassformer.experiments import experiment, stored
from glassformer.experiments.own_text import CHARACTERS, EVERY, STEPS


def found(characters, what):
    return np.array([run.found[what] for run in stored("own_text", characters=characters)])


def test_each_run_was_as_long_and_had_as_many_parameters_but_for_its_characters():
    for run in stored("own_text"):
        assert [step for step, _ in run.found["validations"]] == list(range(EVERY, STEPS + 1, EVERY))
        assert run.found["best"] == min(loss for _, loss in run.found["validations"])
        assert run.found["epochs"] * run.settings["characters"] == pytest.approx(STEPS * 12 * 64, rel=1e-4)
    assert np.ptp([run.found["parameters"] for run in stored("own_text")]) < 5_000


# What chapter 15 says of it


def test_with_ten_thousand_characters_it_ends_worse_than_blind_with_every_seed():
    assert found(10_000, "validation_loss").min() > np.log(65) + 0.3
    assert (found(10_000, "best") < 2.8).all()
    for (_, first), *later in found(10_000, "validations"):
        assert all(loss > first for _, loss in later)


def test_with_thirty_thousand_there_is_a_best_moment_and_it_passes():
    assert (found(30_000, "validation_loss") - found(30_000, "best")).min() > 0.2
    for losses in found(30_000, "validations")[..., 1]:
        assert 0 < losses.argmin() < 3


def test_with_a_hundred_thousand_it_falls_to_the_end():
    for n in (100_000, 1_000_000):
        assert (np.diff(found(n, "validations")[..., 1], axis=-1) < 0.01).all()
        assert np.array_equal(found(n, "best"), found(n, "validation_loss"))


def test_more_text_is_better_with_every_seed():
    best = np.stack([found(n, "best") for n in CHARACTERS])
    assert (np.diff(best, axis=0) < -0.1).all()


@pytest.mark.weekly
def test_in_short_a_text_of_a_page_is_learned_by_heart():
    few, many = (experiment("own_text").measure_shortly(characters=n, seed=3) for n in (1000, 100_000))
    assert few["loss"][-1] < many["loss"][-1] - 0.5
    assert few["validation_loss"] > many["validation_loss"] + 0.5
