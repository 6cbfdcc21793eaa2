"""Tests what the book says about the steps from the recipe of 2019 to the modern one, on stored and new runs."""

from itertools import pairwise
from statistics import median

import pytest

from glassformer.experiments import experiment, recipes, spread, stored
from glassformer.experiments.recipes import (
    FEWER,
    FIRST,
    FIRST_WEIGHTS,
    LADDER,
    LAST,
    SCHEDULE,
    SCHEDULE_CHANGES,
    STEPS,
    rung,
)
from glassformer.train.recipe import Recipe

CHARACTERS = 12 * 64 * STEPS


def losses(**settings):
    return [run.found["validation_loss"] for run in stored("recipes", **settings)]


def test_the_ladder_leads_from_one_recipe_of_the_book_to_the_other():
    assert rung(FIRST) == Recipe.of_the_book("baseline")
    assert rung(LAST) == Recipe.of_the_book("modern")
    with pytest.raises(ValueError, match="name='GELU' is not one of"):
        rung("GELU")


def test_every_step_of_the_ladder_changes_what_it_says():
    recipes = [rung(name) for name in LADDER]
    assert all(one != other for one, other in pairwise(recipes))


def test_all_of_it_is_equal_in_characters_and_in_size():
    for run in stored("recipes", part="ladder"):
        assert run.found["characters"] == CHARACTERS == 1_536_000
        assert 790_000 < run.found["parameters"] <= 810_000


def test_the_recipe_of_2019_is_where_nanogpt_has_it():
    assert median(losses(part="ladder", recipe=FIRST)) == pytest.approx(1.898, abs=0.02)


def test_the_modern_recipe_is_a_third_of_a_nat_better():
    modern = spread(losses(part="ladder", recipe=LAST))
    assert modern.median <= 1.55
    assert modern.highest < spread(losses(part="ladder", recipe=FIRST)).lowest - 0.33


@pytest.mark.parametrize(("recipe", "share"), [(FIRST, 0.15), ("a tuned schedule", 0.25)])
def test_so_much_of_the_characters_is_enough_at_every_seed(recipe, share):
    """Compared with the recipe of 2019, and with the same recipe at a rate tuned as the modern one's was."""
    mark = spread(losses(part="ladder", recipe=recipe)).lowest
    enough = [steps for steps in FEWER if max(losses(part="fewer characters", steps=steps)) < mark]
    assert min(enough) / STEPS == share


def test_made_anew_the_runs_measure_the_tenth_that_the_stored_ones_measured(monkeypatch):
    """Since the stored runs, the recipes set aside half of the held-out tenth for the test."""
    made = []

    class Seen(Exception):  # noqa: N818 - no fault
        pass

    def seen(recipe):
        made.append(recipe.data)
        raise Seen

    monkeypatch.setattr(recipes, "trainer_of", seen)
    for part in ("ladder", "fewer characters"):
        with pytest.raises(Seen):
            recipes.measure(part=part, seed=0)
    assert [(data.validation, data.test) for data in made] == [(0.1, 0.0)] * 2


def test_rmsnorm_and_the_norms_of_q_and_k_gain_no_more_than_seeds_differ_by():
    names = list(LADDER)
    for name in ("RMSNorm", "norms of q and k"):
        before, after = (spread(losses(part="ladder", recipe=names[names.index(name) + i])) for i in (-1, 0))
        widest = max(one.highest - one.lowest for one in (before, after))
        assert abs(after.median - before.median) < widest


def test_zeros_and_larger_first_weights_gain_together_and_neither_alone():
    before, both = (losses(part="ladder", recipe=name) for name in list(LADDER)[1:3])
    zeros, larger = (
        losses(part="first weights", recipe=SCHEDULE, changes=list(changes))
        for changes in FIRST_WEIGHTS.values()
    )
    seeds = list(zip(before, zeros, larger, both, strict=True))
    assert len(seeds) == 3
    assert all(together < start - 0.04 for start, *_, together in seeds)
    assert all(alone > start for start, alone, *_ in seeds)
    assert {alone < start for start, _, alone, _ in seeds} == {True, False}
    assert median(larger) > median(before) - 0.01


def test_the_parts_of_these_steps_make_the_steps():
    names = list(LADDER)
    assert names[1] == SCHEDULE
    assert sorted(sum(SCHEDULE_CHANGES.values(), ())) == sorted(LADDER[SCHEDULE])
    assert sorted(sum(FIRST_WEIGHTS.values(), ())) == sorted(LADDER[names[2]])


def test_the_rate_alone_gains_as_much_as_the_whole_schedule_and_the_other_changes_next_to_nothing():
    before, together = (losses(part="ladder", recipe=name) for name in (FIRST, SCHEDULE))
    rate, *others = (
        [
            start - loss
            for start, loss in zip(before, losses(part="schedule", changes=list(changes)), strict=True)
        ]
        for changes in SCHEDULE_CHANGES.values()
    )
    whole = [start - loss for start, loss in zip(before, together, strict=True)]
    assert all(0.125 < gain < 0.145 for gain in rate)
    assert all(0.115 < gain < 0.145 for gain in whole)
    assert abs(median(rate) - median(whole)) < 0.01
    for gains, least, most in zip(others, (0.003, 0, 0.015), (0.007, 0.008, 0.03), strict=True):
        assert all(least < -gain < most for gain in gains)


def test_in_the_same_time_it_is_still_far_better():
    assert f"{median(losses(part='the same time')):.2f}" == "1.58"
    for run in stored("recipes", part="the same time"):
        assert run.found["characters"] == pytest.approx(CHARACTERS / run.found["time_of_a_step"], abs=12 * 64)
        assert 0.61 <= round(run.found["characters"] / CHARACTERS, 2) <= 0.73


def test_made_anew_and_shortly_the_modern_recipe_is_better():
    one = experiment("recipes")
    old, new = (one.measure_shortly(part="ladder", recipe=recipe, seed=0) for recipe in (FIRST, LAST))
    assert new["validation_loss"] < old["validation_loss"] - 0.2
    assert old["course"][0] - old["course"][-1] > 1  # both learn
    assert old["characters"] == new["characters"]


def test_made_anew_in_the_same_time_it_makes_as_many_steps_fewer_as_they_are_dearer(monkeypatch):
    """`make bench` measures how much more a step costs; here the number is invented."""
    monkeypatch.setattr(recipes, "time_of_a_step", lambda recipe, changes: 1.6)
    found = experiment("recipes").measure_shortly(part="the same time", seed=0)
    assert found["time_of_a_step"] == 1.6
    assert found["characters"] == 6 * 32 * 75  # of 120 steps


def test_the_time_of_a_step_is_in_steps_of_the_first_recipe(monkeypatch):
    """Makes two short runs of each recipe in turn, and leaves out the first steps."""
    made = []

    class Timed:
        def __init__(self, recipe):
            made.append(recipe)
            self.seconds = 3.0 if recipe.training.optimizer == "muon" else 2.0

        def run(self):
            return [{"seconds": 100.0}] * 2 + [{"seconds": self.seconds}] * 10

    monkeypatch.setattr(recipes, "trainer_of", Timed)
    assert recipes.time_of_a_step(LAST, (), rounds=2) == 1.5
    assert [recipe.training.optimizer for recipe in made] == ["adamw", "muon"] * 2
