"""Tests training with the norm before or after the sublayer: what the text says, also on a short version."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from glassformer.experiments import experiment, spread, stored
from glassformer.experiments.norm_placement import (
    DEEPEST,
    DEPTHS,
    LONGER,
    LOWER,
    RATES,
    SEEDS,
    STEPS,
    WARMUP,
)
from glassformer.experiments.training import new_model, text_task, unigram_loss

EXPERIMENT = experiment("norm_placement")
SHALLOW, MIDDLE, DEEP = DEPTHS
LOW, USUAL, HIGH = RATES


def final(placement, n_layers, rate, warmup, **others):
    """Returns the validation losses of all seeds: of the plain runs, unless `others` chooses different ones."""
    at = {"placement": placement, "n_layers": n_layers, "learning_rate": rate, "warmup": warmup}
    runs = stored("norm_placement", **at, **{"zero_init": None, "steps": None} | others)
    assert [run.settings["seed"] for run in runs] == list(SEEDS)
    return spread(run.found["validation_loss"] for run in runs)


[UNIGRAM] = {run.found["unigram"] for run in stored("norm_placement")}
STUCK = UNIGRAM - 0.1  # hardly better than knowing how often each character occurs


def test_no_run_diverged():
    for run in stored("norm_placement"):
        assert run.found["steps"] == run.settings.get("steps", STEPS)
        assert run.found["validation_loss"] < UNIGRAM + 0.05


def test_pre_norm_trains_at_every_depth_and_rate_with_a_warm_up_or_without():
    for n_layers in DEPTHS:
        for rate in RATES:
            without, with_it = (final("pre", n_layers, rate, warmup) for warmup in (0, WARMUP))
            assert max(without.highest, with_it.highest) < UNIGRAM - 0.3
            # It gains a little in most, and never more than this.
            assert -0.05 < without.median - with_it.median < 0.15


def test_shallow_post_norm_is_the_better_one_at_moderate_rates_and_needs_no_warm_up():
    for rate in (LOW, USUAL):
        for warmup in (0, WARMUP):
            assert final("post", SHALLOW, rate, warmup).highest < final("pre", SHALLOW, rate, warmup).lowest
        without, with_it = (final("post", SHALLOW, rate, warmup) for warmup in (0, WARMUP))
        assert abs(without.median - with_it.median) < 0.03


def test_at_a_high_rate_shallow_post_norm_needs_the_warm_up_and_is_the_better_one_with_it():
    assert final("post", SHALLOW, HIGH, 0).lowest > UNIGRAM - 0.3
    assert final("post", SHALLOW, HIGH, WARMUP).highest < final("pre", SHALLOW, HIGH, WARMUP).lowest


def test_deeper_post_norm_gets_stuck_at_lower_rates():
    """With 4 blocks, post-norm trains at the lowest rate and gets stuck at the highest; in between, warm-up decides."""
    for warmup in (0, WARMUP):
        assert final("post", MIDDLE, LOW, warmup).highest < 2.9
        assert final("post", MIDDLE, HIGH, warmup).lowest > STUCK
    without, with_it = (final("post", MIDDLE, USUAL, warmup) for warmup in (0, WARMUP))
    assert without.lowest > 3.1
    assert with_it.median < 3
    assert with_it.highest > 3.1  # not in every run


def test_deep_post_norm_is_stuck_at_every_rate_and_a_short_warm_up_does_not_help():
    for rate in RATES:
        for warmup in (0, WARMUP):
            assert final("post", DEEP, rate, warmup).lowest > STUCK


def test_a_long_warm_up_helps_it_and_time_alone_hardly_does():
    """As Xiong et al. 2020 say. The runs have three times as many steps, with or without a warm-up of three tenths."""
    longer = {"steps": LONGER * STEPS}
    warmed, healthy = (
        final("post", DEEP, LOW, LONGER * WARMUP, **longer),
        final("pre", DEEP, LOW, 0, **longer),
    )
    assert max(warmed.highest, healthy.highest) < 2.6
    assert abs(warmed.median - healthy.median) < 0.05
    assert final("post", DEEP, LOW, 0, **longer).lowest > 3.1


def test_sublayers_that_add_nothing_at_first_help_it_too():
    """With them, 8 blocks also train without a warm-up, and reach a lower loss than pre-norm."""
    for warmup in (0, WARMUP):
        helped = final("post", DEEP, LOW, warmup, zero_init=True)
        assert helped.highest < UNIGRAM - 0.3
        assert helped.median < final("pre", DEEP, LOW, warmup).lowest


def test_at_24_blocks_pre_norm_trains_and_post_norm_is_stuck():
    for warmup in (0, WARMUP):
        assert final("pre", DEEPEST, LOW, warmup).highest < UNIGRAM - 0.3
        assert final("post", DEEPEST, LOW, warmup).lowest > UNIGRAM - 0.01


def test_at_a_lower_rate_these_steps_are_too_few_to_tell():
    """Pre-norm itself has hardly left the plateau, and post-norm has not left it yet."""
    for warmup in (0, WARMUP):
        for n_layers in (DEEP, DEEPEST):
            pre, post = (final(placement, n_layers, LOWER, warmup) for placement in ("pre", "post"))
            assert 0.02 < UNIGRAM - pre.highest < UNIGRAM - pre.lowest < 0.2
            assert post.median > UNIGRAM
            assert post.lowest > STUCK


# The short version, and its parts


def shortly(placement, n_layers, rate, warmup, **others):
    found = EXPERIMENT.measure_shortly(
        placement=placement, n_layers=n_layers, learning_rate=rate, warmup=warmup, seed=SEEDS[0], **others
    )
    return found["validation_loss"] - found["unigram"]


@pytest.mark.weekly
def test_a_short_version_says_the_same_of_deep_models():
    """A loss below the unigram loss shows that the model has learned from context."""
    assert shortly("pre", DEEP, USUAL, 0) < -0.06
    assert shortly("post", DEEP, USUAL, 0) > -0.03


@pytest.mark.weekly
def test_a_short_version_says_the_same_of_shallow_ones():
    assert shortly("post", SHALLOW, HIGH, 0, steps=120) > -0.05
    assert shortly("post", SHALLOW, HIGH, 30, steps=120) < -0.12


def test_a_run_whose_loss_is_no_number_ends_there(monkeypatch):
    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", lambda weights, length: next_length())
    lengths = iter([1.0, 2.0, float("inf")])

    def next_length():
        return torch.tensor(next(lengths))

    found = EXPERIMENT.measure_shortly(
        placement="pre", n_layers=1, warmup=0, learning_rate=1e-3, seed=0, characters=5000
    )
    assert found["steps"] == 2
    assert found["gradient_norm"] == [1.0, 2.0]
    assert found["validation_loss"] is None


def test_the_unigram_loss_is_that_of_a_model_of_frequencies():
    task = text_task(0, 5000)
    logits = torch.from_numpy(np.log(np.bincount(task.ids, minlength=task.vocab_size) + 1.0))
    targets = torch.from_numpy(task.held_out[1:])
    expected = functional.cross_entropy(logits.expand(len(targets), -1), targets)
    assert unigram_loss(task) == pytest.approx(expected.item(), rel=1e-12)


def test_the_two_placements_start_from_the_same_weights():
    task = text_task(0, 5000)
    pre, post = (new_model(placement, 2, task, 0).state_dict() for placement in ("pre", "post"))
    assert set(pre) - set(post) == {"decoder.norm.weight", "decoder.norm.bias"}
    for name, weight in post.items():
        assert torch.equal(weight, pre[name])
