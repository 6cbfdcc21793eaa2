"""Tests what chapter 16 says that windows, sinks, latents and an indexer cost, and how this was measured."""

import numpy as np
import pytest
import torch

from glassformer import nn
from glassformer.experiments import experiment, long_texts, stored
from glassformer.experiments.long_texts import (
    CONTESTANTS,
    EQUAL_TIME,
    SEEDS,
    STEPS,
    TOP_K,
    WINDOW,
    T,
    made,
    ways_on,
)
from glassformer.experiments.recall import MARKS
from glassformer.experiments.training import drawn

SMALL = ("model.n_layers=1", "model.d_model=32", "model.n_heads=2", "model.d_ff=32", "training.batch_size=2")


@pytest.fixture(scope="module")
def latent():
    config, task, training = made("latent", 3, 2, SMALL)
    return drawn(config, seed=3).eval(), task, training


def runs(contestant, steps=None):
    found = stored("long_texts", part="contestants", contestant=contestant, steps=steps)
    assert [run.settings["seed"] for run in found] == list(SEEDS)
    return [run.found for run in found]


def losses(contestant, steps=None):
    return np.array([found["loss"] for found in runs(contestant, steps)])


def recalled(contestant, steps=None):
    """Returns the fractions by seed and bin of distances."""
    return np.array([found["recalled"] for found in runs(contestant, steps)])


def way(name, when="in the end", what="recalled"):
    """Returns what was found at each seed when attention reads what is named."""
    return np.array([found["ways"][name][when][what] for found in runs("latent")])


# How it is measured


def test_within_the_first_positions_all_ways_read_the_same_and_then_each_its_own(latent):
    model, _, _ = latent
    ids = torch.randint(60, (1, T), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        logits = {name: one.eval()(ids) for name, one in ways_on(model, seed=3).items()}
        assert torch.equal(logits["everything"], model(ids))
    for name in ("chosen", "random", "last"):
        near, far = (logits[name] - logits["everything"]).abs().split([TOP_K, T - TOP_K], dim=1)
        assert near.max() < 1e-5
        assert (far.amax(dim=-1) > 1e-4).float().mean() > 0.9


def test_what_is_chosen_by_rule(latent):
    assert TOP_K == WINDOW == 32  # as the text says
    ways, seen = ways_on(latent[0], seed=3), nn.causal_mask(T, T)
    x, k = torch.zeros(2, T, 32), torch.zeros(2, 1, T, 16)
    last, random = (long_texts.attentions(ways[name])[0].indexer for name in ("last", "random"))
    assert torch.equal(
        last.choose(last(x[..., :48], x, k), seen)[0, 0], nn.window_mask(T, T, window=TOP_K) & seen
    )
    once, again = (random.choose(random(x[..., :48], x, k), seen) for _ in range(2))
    assert not torch.equal(once, again)
    assert (once & ~seen).sum() == 0
    assert (once.sum(dim=-1) == seen.sum(dim=-1).clamp(max=TOP_K)).all()
    assert once[..., -1, :8].any()  # far back, too


def test_first_the_indexers_learn_alone(latent):
    model, task, training = latent
    chosen = ways_on(model, seed=3)["chosen"]
    before = {name: weight.detach().clone() for name, weight in chosen.named_parameters()}
    long_texts.learn_to_choose(chosen, task, training)
    for name, weight in chosen.named_parameters():
        assert torch.equal(weight, before[name]) != (".indexer." in name), name
        assert weight.requires_grad
    assert not any(one.indexer.warm_up for one in long_texts.attentions(chosen))


def test_equal_time_is_as_many_steps_as_were_measured_to_fit():
    [run] = stored("long_texts", part="seconds")
    seconds = run.found["seconds"]
    for name in CONTESTANTS:
        fit = STEPS * seconds["full"] / seconds[name]
        assert EQUAL_TIME.get(name, STEPS) == pytest.approx(fit, rel=0.07), name


# What was found

CHANCE = 1 / MARKS


def test_all_that_have_a_layer_that_reads_everything_recall_every_mark():
    for name in ("full", "windows 3:1", "windows 3:1 with sinks", "latent"):
        assert (recalled(name) > 0.98).all(), name


def test_windows_in_every_layer_recall_nothing_from_beyond_the_first_window():
    each = recalled("windows only")
    assert (each[:2, :2] > 0.75).all()
    assert 0.25 < each[2, :2].min() < each[2, :2].max() < 0.3  # one seed has hardly learned it
    assert (np.abs(each[:, 2:].mean(axis=1) - CHANCE) < 0.03).all()
    assert T // 2 > 4 * (WINDOW - 1) > 7 * 16  # though four layers reach nearly half as far as the text


def gained(one, other):
    """What the second loses less than the first, at each seed."""
    return [round(before - after, 3) for before, after in zip(losses(one), losses(other), strict=True)]


def test_on_plain_text_windows_gain_at_every_seed_and_sinks_a_little_more():
    assert gained("full", "windows 3:1") == [0.049, 0.05, 0.048]
    assert gained("windows 3:1", "windows 3:1 with sinks") == [0.005, 0.004, 0.004]
    alone = gained("windows 3:1", "windows only")
    assert min(alone) < 0 < max(alone)


def test_latents_lose_at_every_seed():
    assert gained("latent", "full") == [0.059, 0.054, 0.109]


def test_in_equal_time_what_is_slower_here_loses_more():
    for name, steps in EQUAL_TIME.items():
        assert (losses(name, steps) > losses(name) + 0.05).all(), name
        assert (losses(name, steps) > losses("full") + 0.1).all(), name


def test_only_what_is_chosen_loses_little_and_recalls_nearly_all_and_learns_both_in_the_end():
    lost = {
        name: way(name, what="loss") - way("everything", what="loss") for name in ("chosen", "random", "last")
    }
    assert lost["chosen"].round(3).tolist() == [0.013, 0.017, 0.012]
    assert lost["last"].round(3).tolist() == [0.002, 0.005, 0.003]  # plain text needs little else
    assert (lost["random"] > 0.4).all()
    far = {name: way(name)[:, 8:].mean(axis=1) for name in ("everything", *lost)}
    assert far["everything"].min() > 0.99
    assert far["chosen"].min() > 0.95
    assert 0.29 < far["random"].min() < far["random"].max() < 0.41
    assert (np.abs(way("last")[:, 2:].mean(axis=1) - CHANCE) < 0.03).all()
    at_first = way("chosen", "at first")[:, 8:].mean(axis=1)
    assert (at_first < far["chosen"] - 0.02).all()
    assert at_first.min() > 0.7
    assert (way("chosen", "at first", "loss") - way("everything", "at first", "loss")).min() > 0.035


def test_what_is_kept():
    kept = {name: {found["cache"] for found in runs(name)} for name in CONTESTANTS}
    assert kept == {
        "full": {524288},
        "windows 3:1": {178688},
        "windows 3:1 with sinks": {178688},
        "windows only": {63488},
        "latent": {131072},
    }
    assert set(way("chosen", what="cache")) == {196608}


# In short


@pytest.mark.weekly
def test_in_short_too_it_learns_and_goes_on_from_where_it_was():
    found = experiment("long_texts").measure_shortly(
        part="contestants", contestant="latent", more_steps=2, seed=3
    )
    everything, chosen = found["ways"]["everything"], found["ways"]["chosen"]
    assert found["loss"] == everything["at first"]["loss"] != everything["in the end"]["loss"]
    assert found["loss"] < 3.2  # knowing only character frequencies gives 3.35
    assert len(found["recalled"]) == T // 16
    latent, rotated, index_key = 24, 8, 16
    assert found["cache"] == 4 * T * (latent + rotated)
    assert chosen["in the end"]["cache"] == 4 * T * (latent + rotated + index_key)
