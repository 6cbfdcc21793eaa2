"""Tests what chapter 10 and the page on schedules say about runs of 2,000 steps of a tiny decoder."""

import pytest

from glassformer.experiments import experiment, longer, stored
from glassformer.experiments.longer import (
    CHANGES,
    DESCRIBED,
    OF_2019,
    RATE_ALONE,
    share,
)
from glassformer.experiments.recipes import SCHEDULE, rung
from glassformer.train import TrainingConfig
from glassformer.train.recipe import Recipe


def finals(name):
    return [run.found["validation_loss"] for run in stored("longer", **DESCRIBED | CHANGES[name])]


def lost(name):
    """What a change loses, at each seed."""
    return [round(other - one, 3) for one, other in zip(finals("as described"), finals(name), strict=True)]


def test_all_of_it_pays_in_two_thousand_steps_at_every_seed():
    assert [round(one, 2) for one in lost("the rate stays high")] == [0.11, 0.11, 0.09]
    for name, least, most in (
        ("no weight decay", 0.024, 0.067),
        ("no clipping", 0.008, 0.016),
        ("momentum instead of AdamW", 0.030, 0.065),
        ("momentum, three times the peak", 0.037, 0.073),
    ):
        assert (min(lost(name)), max(lost(name))) == (least, most)
    seeds = finals("as described")
    assert max(seeds) - min(seeds) < 0.004


def test_without_weight_decay_adamw_leads_at_two_seeds_of_three():
    bare = finals("no weight decay")
    for name in list(CHANGES)[-2:]:
        assert sum(one < other for one, other in zip(bare, finals(name), strict=True)) == 2


def test_wsd_ends_a_little_lower_still_at_every_seed():
    assert sorted(lost("constant, then down: WSD")) == [-0.01, -0.01, -0.003]


def test_the_rate_alone_gains_at_every_seed():
    before, after = (
        [run.found["validation_loss"] for run in stored("longer", **one)] for one in (OF_2019, RATE_ALONE)
    )
    gained = [round(old - new, 2) for old, new in zip(before, after, strict=True)]
    assert gained == [0.16, 0.15, 0.13]


def test_the_rate_alone_is_one_of_the_changes_of_the_ladder():
    recipe = Recipe.of_the_book("baseline").training
    of_2019 = {
        "peak": recipe.learning_rate,
        "decay": recipe.decay,
        "final_share": recipe.final_share,
        "warmup": recipe.warmup,
        "beta_v": recipe.betas[1],
    }
    assert of_2019 == OF_2019
    assert of_2019 | {"peak": rung(SCHEDULE).training.learning_rate} == RATE_ALONE


@pytest.mark.parametrize("warmup", [0, 20])
def test_wsd_stays_at_the_peak_and_falls_in_the_last_fifth(warmup):
    plan = TrainingConfig(steps=100, batch_size=1, warmup=warmup)
    shares = [share(plan, "wsd", step) for step in range(100)]
    assert shares[warmup:81] == [1.0] * (81 - warmup)
    assert shares[:warmup] == [share(plan, "none", step) for step in range(warmup)]
    assert shares[80:] == pytest.approx([1 - i / 20 for i in range(20)])


def test_a_run_that_breaks_off_says_when():
    found = experiment("longer").measure_shortly(optimizer="momentum", peak=1e4, clip=0.0, seed=0)
    assert found["steps"] < 60
    assert found["validation_loss"] is None


def test_without_clipping_a_gradient_keeps_its_length():
    one = experiment("longer")
    clipped, free = (one.measure_shortly(seed=0, clip=clip, warmup=0) for clip in (0.1, 0.0))
    assert clipped["loss"] != free["loss"]
    assert min(clipped["longest"], free["longest"]) > 0.5  # the length before clipping


def test_made_anew_and_shortly_it_learns_as_trained_in_numpy():
    """With the same settings, the package's own loop has the same losses."""
    from glassformer import scratch
    from glassformer.experiments.training import text_task
    from glassformer.train import train_in_numpy

    task = text_task(3, 60_000, longer.LENGTH, longer.BATCH_SIZE)
    plan = TrainingConfig(
        steps=20, batch_size=longer.BATCH_SIZE, learning_rate=1e-2, warmup=5, decay="cosine"
    )
    losses = list(train_in_numpy(longer.new_model(task, 3), task, plan))
    found = experiment("longer").measure_shortly(seed=3, decay="cosine", warmup=5, steps=20)
    assert found["loss"] == pytest.approx(losses, rel=1e-6)
    assert losses[-1] < losses[0] - 0.5
    assert isinstance(longer.new_model(task, 3), scratch.Transformer)
