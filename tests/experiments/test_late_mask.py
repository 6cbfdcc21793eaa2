"""Tests the mask after the softmax under AdamW: what was found, and a short version."""

import numpy as np
import pytest

from glassformer.experiments import experiment, stored
from glassformer.experiments.late_mask import AT, EARLY, LATE
from glassformer.experiments.pitfalls import RIGHT


def losses(bug, what, step):
    """Returns the losses of the stored runs at a step, by seed."""
    runs = [run.found for run in stored("late_mask", bug=bug)]
    return np.array([run[what][run["at"].index(step)] for run in runs])


def test_the_right_code_reports_what_it_finds():
    assert (losses(RIGHT, "reported", EARLY[0]) == losses(RIGHT, "right", EARLY[0])).all()


def test_at_first_the_mistake_looks_harmless():
    assert losses(LATE, "reported", 50) == pytest.approx(losses(LATE, "right", 50), abs=0.025)
    assert np.median(losses(LATE, "reported", 100)) == pytest.approx(
        np.median(losses(RIGHT, "reported", 100)), abs=0.05
    )


def test_then_the_reported_loss_is_too_good_and_the_weights_are_bad():
    assert losses(LATE, "reported", 250).max() < losses(RIGHT, "reported", 250).min() - 0.4
    assert losses(LATE, "reported", 400).max() < 0.6
    assert losses(LATE, "reported", AT[-1]).max() < 0.03
    for step in AT[2:]:
        assert losses(LATE, "right", step).min() > losses(RIGHT, "right", 250).max() + 0.2


def test_a_training_ends_after_the_last_step_of_interest():
    found = experiment("late_mask").measure_shortly(bug=RIGHT, seed=3, at=(2, 5))
    assert found["at"] == [2, 5]
    assert found["reported"] == found["right"]


def test_in_short_too_the_right_code_finds_another_loss():
    found = experiment("late_mask").measure_shortly(bug=LATE, seed=3)
    assert found["at"] == [40]
    assert found["reported"][0] != pytest.approx(found["right"][0], abs=1e-3)
