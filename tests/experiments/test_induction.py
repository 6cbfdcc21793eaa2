"""Tests that every stored run, and a short one, supports what chapter 07 says about induction."""

from functools import cache

import numpy as np
import pytest

from glassformer.experiments import experiment, stored
from glassformer.experiments.induction import PERIODS, VOCAB_SIZE, Repeats, T

short = cache(experiment("induction").measure_shortly)


def final(found, name):
    return found["curves"][name][-1]


def of(n_layers):
    """Returns the stored runs."""
    return [run.found for run in stored("induction", n_layers=n_layers)]


def test_two_blocks_go_on_as_the_last_time():
    for found in of(2):
        assert final(found, "again") < 0.4
        assert final(found, "first") > 3.4  # there is nothing to know: ln 32 = 3.47
        assert max(found["induction"][1]) > 0.4
        assert max(found["induction"][0]) < 0.1
        assert max(found["previous"][0]) > 0.35


@pytest.mark.weekly
def test_one_block_only_learns_which_tokens_there_are():
    for found in [*of(1), short(n_layers=1, seed=0)]:
        assert 2 < final(found, "again") < 3.2
        assert final(found, "first") > 3.4
        assert max(found["induction"][0]) < 0.15


def test_it_comes_all_at_once_and_both_heads_together():
    for run in stored("induction", n_layers=2):
        curves = run.found["curves"]
        step, again = np.array(curves["step"]), np.array(curves["again"])
        before, after = step[again > 2.5].max(), step[again < 0.5].min()
        assert after - before <= 100  # of 600 steps
        previous, induction = np.array(curves["previous"])[:, 0], np.array(curves["induction"])[:, 1]
        for best in (previous, induction):
            assert best[step <= before].max() < 0.3
            assert best[step >= after].min() > 0.3


def test_without_the_head_that_looks_back_one_token_nothing_is_found():
    for found in of(2):
        looks_back = int(np.argmax(found["previous"][0]))
        without = found["again without"]
        assert without[f"block 0: head {looks_back}"] > 1.4  # 3.6 and more where it was trained to the end
        assert without[f"block 0: head {1 - looks_back}"] < 1
        assert without["block 0: feed-forward"] < 0.5
        finds = int(np.argmax(found["induction"][1]))
        assert without[f"block 1: head {finds}"] > 1
        assert without["nothing"] == pytest.approx(final(found, "again"), abs=1e-4)


@pytest.mark.weekly
def test_in_short_too_two_heads_find_it_together():
    """A third of the steps shows the same in kind: the loss on the repetition keeps falling, and was ln 32 = 3.47."""
    found, one_block = (short(n_layers=n, seed=0) for n in (2, 1))
    assert final(found, "again") < 1 < 2 < final(one_block, "again") < 3.4 < final(found, "first")
    previous, induction = (np.array(found[name]) for name in ("previous", "induction"))
    assert previous[0].max() > 0.35 > 0.2 > previous[1].max()
    assert induction[1].max() > 0.35 > 0.1 > induction[0].max()
    without = found["again without"]
    assert without["nothing"] == pytest.approx(final(found, "again"), abs=1e-4)
    assert without[f"block 0: head {previous[0].argmax()}"] > without["nothing"] + 0.4
    assert without[f"block 1: head {induction[1].argmax()}"] > without["nothing"] + 0.7
    for i in (0, 1):
        assert without[f"block {i}: feed-forward"] < without["nothing"] + 0.2


def test_the_task_begins_anew_after_a_number_of_tokens_of_each_texts_own():
    inputs, targets = Repeats(seed=0).batch(3)
    texts = np.concatenate([inputs["ids"], targets[:, -1:]], axis=1)
    np.testing.assert_array_equal(texts[:, 1:], targets)
    assert texts.shape == (16, T + 1)
    assert texts.min() >= 0
    assert texts.max() < VOCAB_SIZE
    periods = {
        next(p for p in range(1, T + 1) if (text[p:] == text[:-p]).all())  # p = T compares two tokens
        for text in texts
    }
    assert periods <= set(range(PERIODS[0], PERIODS[1] + 1))
    assert len(periods) > 5


def test_steps_seeds_and_validation_have_texts_of_their_own():
    batches = [
        Repeats(0).batch(0),
        Repeats(0).batch(1),
        Repeats(1).batch(0),
        next(Repeats(0).validation()),
    ]
    assert len({batch[0]["ids"].tobytes() for batch in batches}) == 4
    np.testing.assert_array_equal(Repeats(0).batch(0)[1], Repeats(0).batch(0)[1])
