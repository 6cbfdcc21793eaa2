"""Tests the recall task: how marks and questions are planted, and how well distant marks are found."""

import numpy as np
import pytest
import torch

from glassformer import nn
from glassformer.experiments import experiment, stored
from glassformer.experiments.positions import CONTESTANTS, REACH, T5_OWN, T, recipe_of
from glassformer.experiments.recall import BIN, FIRST_PLACES, MARKS, CappedAlibi, Recall, measure, ways
from glassformer.experiments.training import drawn
from glassformer.tasks import NO_TARGET
from glassformer.text import CharTokenizer, corpus

SMALL = ("model.d_model=16", "model.n_layers=1", "model.n_heads=2", "model.d_ff=16")
IDS = np.asarray(CharTokenizer.from_text(corpus()).encode(corpus()[:40_000]))


@pytest.fixture
def task():
    return Recall(IDS, T, 12, seed=0)


def found(positions, way="as trained", length=T, t5_max_distance=None):
    """Returns the share of marks found in each quarter of the distances, (seeds, 4)."""
    runs = stored("recall", positions=positions, length=length, t5_max_distance=t5_max_distance)
    return np.array([np.reshape(run.found["recalled"][way], (4, -1)).mean(axis=1) for run in runs])


# The task


def test_every_window_has_one_mark_and_every_question_after_it_asks_for_that_mark(task):
    for step in range(20):
        inputs, targets = task.batch(step)
        for ids, wanted in zip(inputs["ids"], targets, strict=True):
            [place] = np.flatnonzero((ids >= task.first_mark) & (ids < task.question))
            asked = np.flatnonzero(ids == task.question)
            assert place < FIRST_PLACES
            assert (asked > place).all()
            assert (wanted[asked] == ids[place]).all()


def test_all_else_is_the_text_and_what_nothing_foretells_is_no_target(task):
    windows = task._windows(0)
    inputs, targets, back = task.planted(windows, (0, 0))
    special = inputs >= task.first_mark
    assert np.array_equal(inputs[~special], windows[:, :-1][~special])
    before = np.zeros_like(special)
    before[:, :-1] = special[:, 1:]
    asked = back > 0
    assert np.array_equal(asked, inputs == task.question)
    assert (targets[before & ~asked] == NO_TARGET).all()
    plain = ~before & ~asked
    assert np.array_equal(targets[plain], windows[:, 1:][plain])


def test_how_far_back_a_mark_is_said_to_be_is_where_it_stands(task):
    windows = np.tile(IDS[: REACH + 1], (50, 1))
    inputs, _, back = task.planted(windows, (3, 1))
    rows, places = np.nonzero(back)
    assert len(rows) > 300
    assert back[rows, places].min() == 1
    marks = inputs[rows, places - back[rows, places]]
    assert ((marks >= task.first_mark) & (marks < task.question)).all()


def test_all_marks_come_and_a_batch_is_the_same_each_time(task):
    marks = [
        ids[(ids >= task.first_mark) & (ids < task.question)]
        for ids in (task.batch(i)[0]["ids"] for i in range(20))
    ]
    assert set(np.concatenate(marks) - task.first_mark) == set(range(MARKS))
    for first, again in zip(task.batch(5), task.batch(5), strict=True):
        assert np.array_equal(
            first["ids"] if isinstance(first, dict) else first,
            again["ids"] if isinstance(again, dict) else again,
        )


def test_a_model_that_has_not_learned_guesses():
    found = measure(positions="none", length=T, seed=0, steps=1, every=12, changes=("model.n_layers=1",))
    assert list(found["recalled"]) == ["as trained"]
    shares = found["recalled"]["as trained"]
    assert len(shares) == REACH // BIN
    assert abs(np.mean(shares) - 1 / MARKS) < 0.05


def test_a_capped_penalty_is_alibis_within_training_and_grows_no_more_beyond():
    query, keys = torch.tensor([200]), torch.arange(201)
    capped, alibi = (method(4).score_bias(query, keys) for method in (CappedAlibi, nn.AlibiPositions))
    within = 200 - keys < T
    assert torch.equal(capped[..., within], alibi[..., within])
    assert (capped[..., ~within] == alibi[..., 200 - (T - 1), None]).all()


def test_each_suspect_is_taken_away_and_nothing_else():
    config = recipe_of("alibi", T, 0, 1, SMALL).made_for(corpus())[2].replace(context_length=REACH)
    model = drawn(config, seed=0)
    read = ways(model, T)
    assert list(read) == ["as trained", "penalty capped"]
    short, long = torch.arange(T)[None], torch.arange(REACH)[None] % config.vocab_size
    with torch.no_grad():
        as_trained, capped = read.values()
        assert torch.equal(as_trained(short % config.vocab_size), capped(short % config.vocab_size))
        assert not torch.equal(as_trained(long), capped(long))
    assert list(ways(drawn(config.replace(positions="rope"), seed=0), T)) == [
        "as trained",
        "interpolated",
        "larger base",
    ]
    assert list(ways(drawn(config.replace(positions="rope"), seed=0), REACH)) == ["as trained"]


# What was found


@pytest.mark.parametrize("contestant", CONTESTANTS, ids=str)
def test_within_the_training_length_all_find_nearly_all(contestant):
    assert (found(**contestant)[:, 0] > 0.97).all()


@pytest.mark.parametrize(
    "contestant",
    [
        {"positions": "none"},
        {"positions": "learned"},
        {"positions": "t5"},
        {"positions": "t5", "t5_max_distance": T5_OWN},
        {"positions": "rope", "length": REACH},
    ],
    ids=str,
)
def test_these_find_nearly_all_that_stand_far_back_too(contestant):
    assert (found(**contestant)[:, 3] > 0.94).all()


@pytest.mark.parametrize("positions", ["rope", "alibi"])
def test_rope_and_alibi_lose_more_with_every_quarter_and_a_third_at_least_in_the_end(positions):
    quarters = found(positions)
    assert (np.diff(quarters, axis=1) < 0).all()
    assert (quarters[:, 3] < 0.7).all()


def test_without_what_was_new_to_them_both_find_them_again():
    assert (found("alibi", "penalty capped")[:, 3] > 0.9).all()
    assert (found("rope", "interpolated")[:, 3] > 0.97).all()
    assert (found("rope", "larger base")[:, 3] > found("rope")[:, 3] + 0.1).all()


def test_sinusoids_are_in_between():
    last = found("sinusoidal")[:, 3]
    assert (last > 0.75).all()
    assert (last > np.maximum(found("rope")[:, 3], found("alibi")[:, 3])).all()


def test_in_short_too_they_learn_to_find_what_is_near():
    near = experiment("recall").measure_shortly(positions="none", length=T, seed=3)["recalled"]["as trained"][
        0
    ]
    assert near > 3 / MARKS
