"""Tests the position tournament: its method, its results, and a short version with the same outcome."""

from functools import cache

import numpy as np
import pytest
import torch

from glassformer import scratch
from glassformer.experiments import experiment, stored
from glassformer.experiments.positions import (
    BIN,
    METHODS,
    MORE_STEPS,
    REACH,
    T5_OWN,
    T,
    as_large_as_sinusoids,
    binned,
    copy_with,
    loss_by_position,
    recipe_of,
    trained_on,
    ways_to_reach,
)
from glassformer.experiments.training import drawn
from glassformer.text import corpus
from glassformer.train import Trainer, validation_loss

SMALL = ("model.d_model=16", "model.n_layers=1", "model.n_heads=2", "model.d_ff=16", "data.validation=0.005")


def begun(positions, length=T, seed=0):
    """Returns a small model before training, and its task."""
    recipe = recipe_of(positions, length, seed, steps=2, changes=SMALL)
    _, task, config = recipe.made_for(corpus())
    return as_large_as_sinusoids(drawn(config.replace(context_length=REACH), seed)), task, recipe


def quarters(losses):
    """Returns the average loss in each quarter of the positions."""
    return np.reshape(losses, (4, -1)).mean(axis=1)


def found(positions, way="as trained", length=T, when="losses", t5_max_distance=None):
    """Returns the quarters of the stored runs, (seeds, 4)."""
    runs = stored("positions", positions=positions, length=length, t5_max_distance=t5_max_distance)
    return np.array([quarters(run.found[when][way]) for run in runs])


# How it measures


def test_the_loss_at_a_position_is_the_mean_over_windows_one_by_one():
    model, task, _ = begun("rope")
    losses = loss_by_position(model, task, every=3)
    starts = range(0, len(task.held_out) - REACH, 3 * T)
    assert len(starts) > 1
    expected = np.zeros(REACH)
    for start in starts:
        window = torch.from_numpy(task.held_out[start : start + REACH + 1].astype(np.int64))
        with torch.no_grad():
            log_p = torch.log_softmax(model(window[:-1]), dim=-1)
        expected -= log_p[torch.arange(REACH), window[1:]].numpy()
    np.testing.assert_allclose(losses, expected / len(starts), rtol=1e-5)


def test_the_first_quarter_is_what_training_calls_the_validation_loss():
    # But for the last three of the windows of length T, after which not enough text is left.
    model, task, _ = begun("none")
    n_windows = len(range(0, len(task.held_out) - REACH, T))
    task.held_out = task.held_out[: n_windows * T + 1]
    first = validation_loss(model, task)
    model, task, _ = begun("none")
    assert loss_by_position(model, task)[:T].mean() == pytest.approx(first, rel=1e-5)


def test_a_bin_is_the_mean_of_neighbouring_positions():
    losses = binned(np.arange(REACH, dtype=float))
    assert losses == [BIN * i + (BIN - 1) / 2 for i in range(REACH // BIN)]


def test_all_methods_learn_from_the_same_text_and_start_from_the_same_words():
    models, batches = zip(
        *((model, task.batch(0)[0]["ids"]) for model, task, _ in map(begun, METHODS)), strict=True
    )
    for model, batch in zip(models[1:], batches[1:], strict=True):
        assert np.array_equal(batch, batches[0])
        assert torch.equal(model.token_embedding.weight, models[0].token_embedding.weight)


def test_a_step_has_equally_many_characters_at_every_length():
    sizes = {length: begun("rope", length)[1].batch(0)[0]["ids"].shape for length in (T, REACH)}
    assert sizes == {T: (12, T), REACH: (3, REACH)}


def test_token_vectors_are_as_large_as_what_sinusoids_add():
    model, _, _ = begun("sinusoidal")
    words = model.token_embedding.weight.detach().square().mean().sqrt().item()
    waves = np.sqrt((scratch.sinusoidal(np.arange(REACH), 16) ** 2).mean())
    assert 0.5 < waves / words < 1  # 1/√2 and 1


def test_rows_of_a_learned_table_beyond_the_training_length_stay_as_they_were():
    model, task, recipe = begun("learned")
    before = model.decoder.positions.weight.detach().clone()
    Trainer(model, task, recipe.training, progress=False).run()
    changed = (model.decoder.positions.weight.detach() != before).any(dim=1)
    assert changed[:T].all()
    assert not changed[T:].any()


@pytest.mark.parametrize(("max_distance", "all_met"), [(None, True), (T5_OWN, False)])
def test_t5_has_met_its_last_bucket_in_training_but_not_with_a_distance_of_its_own(max_distance, all_met):
    recipe = recipe_of("t5", T, 0, 2, SMALL, max_distance)
    config = recipe.made_for(corpus())[2]
    settings = {"n_buckets": config.t5_n_buckets, "max_distance": config.t5_max_distance}
    buckets = scratch.t5_bucket(-np.arange(REACH), bidirectional=False, **settings)
    assert (set(buckets[:T]) == set(buckets)) == all_met


def test_interpolation_makes_four_steps_of_one():
    model, _, _ = begun("rope")
    squeezed = ways_to_reach(model)["interpolated"]
    ids = torch.arange(20)
    with torch.no_grad():
        torch.testing.assert_close(squeezed(ids, position_ids=4 * torch.arange(20)), model(ids))
        assert not torch.allclose(squeezed(ids), model(ids), atol=1e-2)


def test_a_larger_base_slows_the_slowest_hand_to_a_quarter_and_the_fastest_not_at_all():
    model, _, _ = begun("rope")
    larger = ways_to_reach(model)["larger base"]
    K = model.config.d_head
    before, after = (scratch.frequencies(K, base=m.config.rope_base) for m in (model, larger))
    assert after[0] == before[0]
    assert after[-1] == pytest.approx(before[-1] / 4, rel=1e-12)
    assert (np.diff(after / before) < 0).all()


def test_training_on_leaves_the_model_that_it_begins_from_alone():
    model = copy_with(begun("rope")[0], rope_interpolation=4.0)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    further = trained_on(model, recipe_of("rope", REACH, 1, 2, SMALL))
    assert further.config.rope_interpolation == 4.0
    for name, weight in before.items():
        assert torch.equal(model.state_dict()[name], weight)
    assert any(not torch.equal(further.state_dict()[name], weight) for name, weight in before.items())


def test_further_training_goes_on_from_the_weights_that_are_there():
    # The recipe sets these matrices to 0 before training, and a step changes them by far less than 1.
    model, _, _ = begun("rope")
    with torch.no_grad():
        model.decoder.blocks[0].attention.W_o.weight.fill_(1.0)
    further = trained_on(model, recipe_of("rope", REACH, 1, 1, SMALL))
    assert further.decoder.blocks[0].attention.W_o.weight.mean() > 0.9


# What it found, and what chapter 04 says of it: for every seed


def test_within_the_training_length_rope_and_t5_lead_and_no_positions_are_last():
    first = {method: found(method)[:, 0] for method in METHODS}
    assert (abs(first["rope"] - first["t5"]) < 0.03).all()
    for method in ("sinusoidal", "learned", "alibi"):
        assert (first[method] > np.maximum(first["rope"], first["t5"]) + 0.05).all()
        assert (first[method] < first["none"] - 0.05).all()


def test_sinusoids_fail_worst_and_the_table_no_better_than_no_positions():
    last = {method: found(method)[:, 3] for method in METHODS}
    assert all((last["sinusoidal"] > last[method]).all() for method in METHODS if method != "sinusoidal")
    assert (last["learned"] > last["none"]).all()
    for method in ("sinusoidal", "learned"):
        quarter = found(method)
        assert (quarter[:, 1] > quarter[:, 0] + 0.5).all()  # at once
    assert (last["none"] > found("none")[:, 0] + 0.2).all()


def test_rope_holds_to_twice_the_training_length_and_then_climbs_above_alibi_which_it_led():
    rope = found("rope")
    assert (abs(rope[:, 1] - rope[:, 0]) < 0.1).all()
    assert (rope[:, 3] > rope[:, 0] + 0.25).all()
    for method in ("alibi", "t5"):
        assert (rope[:, 3] > found(method)[:, 3] + 0.05).all()
    assert (rope[:, 3] < found("sinusoidal")[:, 3]).all()
    assert (rope[:, 3] < found("learned")[:, 3]).all()


def test_alibi_stays_level_and_t5_nearly_so_below_it_all_the_way():
    alibi, t5 = found("alibi"), found("t5")
    assert (alibi[:, 1:] < alibi[:, :1] + 0.02).all()
    assert (t5[:, 1:] < t5[:, :1] + 0.08).all()
    assert (t5 < alibi).all()


def test_t5_with_buckets_that_training_never_met_climbs_above_rope_and_no_positions():
    """It equals the other T5 within the training length; beyond it, only this one's loss rises."""
    met, unmet = found("t5"), found("t5", t5_max_distance=T5_OWN)
    assert (abs(unmet[:, 0] - met[:, 0]) < 0.03).all()
    assert (np.diff(unmet, axis=1) > 0.1).all()
    assert (unmet[:, 3] > found("rope")[:, 3]).all()
    assert np.median(unmet[:, 3]) > np.median(found("none")[:, 3])


def test_a_model_trained_at_that_length_is_below_them_at_the_end():
    last = found("rope", length=REACH)[:, 3]
    for method in ("alibi", "t5"):
        assert (last < found(method)[:, 3]).all()


def test_the_yardstick_falls_with_more_to_look_back_on():
    yardstick = found("rope", length=REACH)
    assert (yardstick[:, 1:] < yardstick[:, :1]).all()


def test_interpolation_is_level_but_worse_than_no_positions_from_the_start():
    squeezed = found("rope", "interpolated")
    assert (np.ptp(squeezed[:, 1:], axis=1) < 0.05).all()
    assert (squeezed > found("none")).all()


def test_a_larger_base_costs_next_to_nothing_and_takes_most_of_the_climb_away():
    plain, larger = found("rope"), found("rope", "larger base")
    assert (abs(larger[:, 0] - plain[:, 0]) < 0.05).all()
    assert (larger[:, 3] - larger[:, 0] < (plain[:, 3] - plain[:, 0]) / 2).all()


@pytest.mark.parametrize("more", MORE_STEPS)
def test_trained_on_at_the_new_length_the_interpolated_model_is_still_last(more):
    when = f"losses after {more} more steps"
    squeezed = found("rope", "interpolated", when=when)
    for way in ("as trained", "larger base"):
        assert (squeezed > found("rope", way, when=when)).all()


def test_further_training_brings_the_interpolated_model_nearly_back():
    before, soon, later = (
        found("rope", "interpolated", when=when)[:, 3]
        for when in ("losses", *(f"losses after {more} more steps" for more in MORE_STEPS))
    )
    best = found("rope", "as trained", when=f"losses after {MORE_STEPS[-1]} more steps")[:, 3]
    assert (soon < before - 0.4).all()
    assert (soon > best + 0.4).all()
    assert (later < best + 0.15).all()


# A short one, made now


@cache
def quarters_of(method):
    """Returns the quarters for a new seed with each method, before and after further training."""
    found = experiment("positions").measure_shortly(positions=method, length=T, seed=3)
    return {when: {way: quarters(losses) for way, losses in ways.items()} for when, ways in found.items()}


@pytest.fixture
def short():
    return {method: quarters_of(method) for method in ("sinusoidal", "alibi", "rope")}


@pytest.mark.weekly
def test_in_short_too_rope_leads_sinusoids_fail_at_once_and_alibi_stays_level(short):
    sinusoids, alibi, rope = (short[method]["losses"]["as trained"] for method in short)
    assert rope[0] < min(alibi[0], sinusoids[0]) - 0.01
    assert sinusoids[1] > sinusoids[0] + 0.03
    assert sinusoids[3] > alibi[3] + 0.05
    assert abs(alibi[1:] - alibi[0]).max() < 0.1
    assert rope[3] - rope[0] > alibi[3] - alibi[0] + 0.02


@pytest.mark.weekly
def test_in_short_too_interpolation_costs_and_a_larger_base_hardly(short):
    """The stored runs show that interpolation prevents the rise, and what further training repairs."""
    ways = short["rope"]["losses"]
    costs = {way: ways[way][0] - ways["as trained"][0] for way in ("interpolated", "larger base")}
    assert costs["interpolated"] > 0.015
    assert abs(costs["larger base"]) < costs["interpolated"] / 2
    climbs = {way: losses[3] - losses[0] for way, losses in ways.items()}
    assert climbs["interpolated"] < climbs["as trained"]
    after = short["rope"]["losses after 15 more steps"]
    assert after.keys() == ways.keys()
    for way in ways:
        assert after[way].mean() < ways[way].mean()
    assert after["interpolated"][0] > after["as trained"][0]
