"""Tests what chapter 17 says that a state loses, and how this was measured."""

import numpy as np
import pytest

from glassformer.experiments import experiment, long_texts, stored
from glassformer.experiments.recall import Recall
from glassformer.experiments.states import EQUAL_TIME, SEEDS, STEPS, Copies, Pairs, T, made
from glassformer.tasks import NO_TARGET

STATES = [("pairs", "gated delta rule"), ("pairs", "linear attention"), ("copies", "gated delta rule")]


def runs(part, contestant, steps=None):
    found = stored("states", part=part, contestant=contestant, steps=steps)
    assert [run.settings["seed"] for run in found] == list(SEEDS)
    return [run.found for run in found]


def right(part, contestant):
    """Returns the fractions by seed and size."""
    return np.array([found["right"] for found in runs(part, contestant)])


def full():
    """Returns what `long_texts` found with full attention, which is trained on the same text in the same way."""
    return [run.found for run in stored("long_texts", part="contestants", contestant="full", steps=None)]


# How it is measured


@pytest.mark.parametrize("n", Pairs.sizes)
def test_every_key_is_asked_once_for_the_value_that_followed_it(n):
    inputs, targets = Pairs(0).drawn(n, 3, (1,))
    for ids, asked in zip(inputs["ids"], targets, strict=True):
        value = dict(ids[: 2 * n].reshape(n, 2).tolist())
        assert len(value) == n
        assert max(value) < Pairs.n_keys <= min(value.values())
        questions = np.flatnonzero(asked != NO_TARGET)
        assert questions.tolist() == list(range(2 * n, 4 * n, 2))
        assert dict(zip(ids[questions].tolist(), asked[questions].tolist(), strict=True)) == value
    assert (inputs["ids"][:, 2 * n :] != inputs["ids"][:, : 2 * n]).any()  # in another order


@pytest.mark.parametrize("n", Copies.sizes)
def test_a_copy_is_asked_for_letter_by_letter(n):
    inputs, targets = Copies(0).drawn(n, 3, (1,))
    letters, separator, before = np.split(inputs["ids"], [n, n + 1], axis=1)
    assert (separator == Copies.vocab_size - 1).all()
    assert (letters < separator).all()
    assert (targets[:, :n] == NO_TARGET).all()
    assert np.array_equal(targets[:, n:], letters)
    assert np.array_equal(before, letters[:, :-1])


@pytest.mark.parametrize("task", [Pairs, Copies])
def test_all_steps_have_as_many_characters_and_the_longest_text_has_all_that_a_model_can_read(task):
    sizes = [task(0).batch(step)[0]["ids"].shape for step in range(len(task.sizes))]
    assert {B * length for B, length in sizes} == {2048}
    assert max(length for _, length in sizes) == T


def test_a_state_has_the_same_size_in_all_that_have_one():
    for part, n_layers in (("pairs", 2), ("copies", 2), ("text", 4)):
        found = stored("states", part=part)
        cache = {run.settings["contestant"]: run.found["cache"] for run in found}
        state = n_layers * 4 * (2 * 32 * 32 + 3 * 3 * 64)  # and three inputs of each of three convolutions
        kept = n_layers * 4 * 2 * 64 * T
        assert cache.pop("hybrid") == (state * (n_layers - 1) + kept) // n_layers
        assert cache.pop("full", kept) == kept
        assert set(cache.values()) == {state}
    assert {found["cache"] for found in full()} == {kept}


def test_the_model_that_all_are_compared_with_on_text_is_that_of_long_texts():
    config, task, training = made("text", "full", 1, STEPS["text"])
    assert (config, training) == long_texts.made("full", 1, STEPS["text"], ())[::2]
    assert isinstance(task, Recall)


# What was found


@pytest.mark.parametrize(("part", "contestant"), STATES)
def test_a_state_recalls_less_the_more_it_has_to_keep(part, contestant):
    each = right(part, contestant)
    assert (np.diff(each) < -0.004).all()
    assert (each[:, 0] > 0.85).all()
    assert (each[:, -1] < 0.6).all()
    assert (each[:, -1] > 0.18).all()  # more than guesses


def test_what_decays_recalls_less_of_pairs_that_are_all_asked_for():
    gated, alone, linear, mamba = (
        np.median(right("pairs", name), axis=0)
        for name in ("gated delta rule", "delta rule", "linear attention", "mamba-2")
    )
    assert (mamba < gated).all()
    assert (gated < alone).all()
    assert (gated < linear).all()


def test_the_steps_of_equal_time_are_those_of_the_times_that_were_measured():
    [run] = stored("states", part="seconds")
    seconds = run.found["seconds"]
    for name, n in EQUAL_TIME.items():  # two measurements differ by a few in a hundred
        assert abs(n * seconds[name] / (STEPS["text"] * seconds["full"]) - 1) < 0.08


# In short


@pytest.mark.weekly
def test_in_short_too_it_recalls_fewer_of_more_pairs():
    found = experiment("states").measure_shortly(part="pairs", contestant="gated delta rule", seed=3)
    few, *_, many = found["right"]
    assert few > many + 0.1
    assert many < 0.2
