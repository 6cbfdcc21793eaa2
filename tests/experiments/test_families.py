"""Tests the dates that two families translate: the decoder's input, what counts as right, and the results."""

import numpy as np
import pytest

from glassformer import shipped
from glassformer.experiments import experiment, stored
from glassformer.experiments.experiment import WHOLE_TENTH
from glassformer.experiments.families import (
    DECODER,
    WAYS,
    OneText,
    answers,
)
from glassformer.generate import generate
from glassformer.tasks import NO_TARGET, Pairs
from glassformer.train.recipe import Recipe

START, STOP, PAD = 8, 9, 0
SOURCES = [np.array(text) for text in ([1, 2, 3], [4], [5, 6])]
TARGETS = [np.array(text) for text in ([7, 1], [2, 2], [3])]


@pytest.fixture
def small():
    ids = {"start_id": START, "stop_id": STOP, "pad_id": PAD}
    pairs = Pairs(SOURCES, TARGETS, 2, 0, validation=0.4, **ids)
    pairs.held_out = np.arange(3)
    return pairs


@pytest.fixture(scope="module")
def dates():
    return Recipe.of_the_book("dates", WHOLE_TENTH).made_for("")


def of_all(pairs, *, whole):
    task = OneText(pairs, whole=whole)
    return task._filled_up([0, 1, 2])


# One text of two


def test_a_pair_is_one_text_that_is_read_up_to_its_end(small):
    inputs, _ = of_all(small, whole=True)
    assert inputs["ids"].tolist() == [[1, 2, 3, 8, 7, 1], [4, 8, 2, 2, 9, 0], [5, 6, 8, 3, 9, 0]]


def test_asked_for_all_every_character_but_the_first_is_a_target_and_no_padding(small):
    _, targets = of_all(small, whole=True)
    no = NO_TARGET
    assert targets.tolist() == [[2, 3, 8, 7, 1, 9], [8, 2, 2, 9, no, no], [6, 8, 3, 9, no, no]]


def test_asked_for_the_answer_what_follows_the_start_is_a_target_alone(small):
    _, targets = of_all(small, whole=False)
    no = NO_TARGET
    assert targets.tolist() == [[no, no, no, 7, 1, 9], [no, 2, 2, 9, no, no], [no, no, 3, 9, no, no]]


@pytest.mark.weekly
def test_the_two_have_as_many_parameters_and_see_the_same_days(dates):
    _, pairs, config = dates
    counts = [one.parameter_count().total for one in (config, config.replace(**DECODER))]
    assert counts[1] == pytest.approx(counts[0], rel=5e-4)
    task = OneText(pairs, whole=False)
    assert task.length <= config.context_length
    assert np.array_equal(task.held_out, pairs.held_out)
    ours, theirs = (some.batch(3)[1] for some in (pairs, task))
    assert [row[row >= 0].tolist() for row in ours] == [row[row >= 0].tolist() for row in theirs]


@pytest.mark.weekly
def test_right_is_what_greedy_writing_gets_right(dates):
    _, pairs, _ = dates
    model, tokenizer = shipped.load("dates", room="nn")
    [[wrong, _, _]] = shipped.card("dates")["mistakes"]
    texts = [tokenizer.decode(pairs.sources[i]) for i in pairs.held_out]
    pairs.held_out = np.array([pairs.held_out[texts.index(wrong)], *pairs.held_out[:19]])
    right = 0
    written = generate(
        model, None, 12, source=[pairs.sources[i] for i in pairs.held_out], temperature=0,
        start_id=pairs.start_id, stop_ids=[pairs.stop_id],
    )  # fmt: skip
    for i, text in zip(pairs.held_out, written, strict=True):
        right += text.tolist() == [pairs.start_id, *pairs.targets[i], pairs.stop_id]
    assert right == 19
    assert answers(model, pairs)["right"] == right / 20


# What it found, and what chapter 12 says of it


def found(way, steps, what="right"):
    return np.array([run.found[what] for run in stored("families", way=way, steps=steps)])


def test_they_have_as_many_parameters():
    counts = {run.found["parameters"] for run in stored("families")}
    assert max(counts) - min(counts) <= 64


def test_after_300_steps_the_encoder_decoder_is_steady_and_a_decoder_is_better_or_worse():
    both = found(WAYS[0], 300)
    assert 0.98 < both.min() <= both.max() < 0.9901
    decoders = np.concatenate([found(way, 300) for way in WAYS[1:]])
    assert decoders.min() < 0.95
    assert (decoders > both.max()).any()
    assert decoders.max() < both.max() + 0.01
    assert (decoders < both.min()).sum() >= 2


def test_after_100_steps_the_encoder_decoder_is_ahead_and_seeds_overlap():
    both, decoder = found(WAYS[0], 100), found(WAYS[1], 100)
    assert both.mean() > decoder.mean() + 0.02
    assert (decoder > both.min()).sum() == 2


@pytest.mark.weekly
def test_in_short_a_decoder_learns_dates():
    shortly = experiment("families").measure_shortly(way=WAYS[1], seed=3)
    assert shortly["answer_loss"] < shortly["loss"][0] - 0.5
