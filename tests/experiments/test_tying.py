"""Tests one matrix at both ends against two: the comparison, the results, and a short version with the same outcome."""

import math

import numpy as np
import pytest

from glassformer import nn
from glassformer.experiments import experiment, stored
from glassformer.experiments.tying import ARMS, SEEDS, config_of
from glassformer.text import CharTokenizer, corpus

N_CHARACTERS = CharTokenizer.from_text(corpus()).vocab_size


def bits(size, arm, steps=200):
    runs = stored("tying", vocab_size=size, arm=arm, steps=steps)
    assert [run.settings["seed"] for run in runs] == list(SEEDS)
    return np.array([run.found["bits_per_byte"] for run in runs])


# What is compared


@pytest.mark.parametrize("size", ARMS)
def test_parameters_are_equal_where_the_text_says_so(size):
    total = {
        arm: config_of(size or N_CHARACTERS, changes).parameter_count().total
        for arm, changes in ARMS[size].items()
    }
    table = (size or N_CHARACTERS) * 32
    assert total["untied"] == total["tied"] + table
    for arm in total.keys() - {"tied", "untied"}:
        assert total[arm] == pytest.approx(total["tied"], rel=1e-3)
        assert ARMS[size][arm]["head"] == "untied"
    for arm, changes in ARMS[size].items():
        runs = stored("tying", vocab_size=size, arm=arm)
        assert {run.found["parameters"] for run in runs} == {
            config_of(size or N_CHARACTERS, changes).parameter_count().total
        }


def test_tied_and_untied_begin_with_the_same_small_numbers():
    """The head of an untied model is drawn like the table, so neither starts with larger logits."""
    import torch

    from glassformer.train import TrainingConfig, initialize

    stds = []
    for head in ("tied", "untied"):
        model = nn.Transformer(config_of(1024, {"head": head}), generator=torch.Generator().manual_seed(0))
        initialize(model, TrainingConfig(steps=1, batch_size=1, init="gpt2", seed=0))
        weights = dict(model.named_parameters())
        stds += [
            w.std().item()
            for name, w in weights.items()
            if name in ("token_embedding.weight", "unembedding.weight")
        ]
    assert len(stds) == 3
    assert stds == pytest.approx([0.02] * 3, rel=0.02)


# What was found, and what chapter 08 says of it


@pytest.mark.parametrize("size", ARMS)
def test_tied_models_are_behind_with_every_seed_at_equal_parameters_too(size):
    for arm in ARMS[size]:
        if arm != "tied":
            assert bits(size, arm).max() < bits(size, "tied").min() - 0.05


def test_with_byte_pairs_the_largest_is_the_best():
    assert bits(1024, "untied").max() < bits(1024, "untied, narrower").min() - 0.03


def test_trained_for_50_steps_the_second_matrix_is_worth_nothing_and_the_size_is_worth_something():
    tied, untied = bits(1024, "tied", 50), bits(1024, "untied", 50)
    assert tied.min() < untied.max()  # the seeds do not tell them apart
    assert untied.min() < tied.max()
    assert np.median(tied) == pytest.approx(np.median(untied), abs=0.01)
    assert untied.max() < bits(1024, "untied, narrower", 50).min() - 0.05


def test_trained_for_50_steps_it_is_the_other_way_round_at_equal_parameters():
    assert bits(1024, "tied", 50).max() < bits(1024, "untied, narrower", 50).min() - 0.05
    tied, untied = bits(1024, "tied", 100), bits(1024, "untied, narrower", 100)
    assert tied.min() < untied.max()  # the seeds do not tell them apart
    assert untied.min() < tied.max()


# Made anew


@pytest.mark.weekly
def test_made_anew_and_shortly_the_wider_tied_one_is_ahead():
    one = experiment("tying")
    tied, untied = (
        one.measure_shortly(vocab_size=1024, arm=arm, steps=40, seed=0)
        for arm in ("tied", "untied, narrower")
    )
    assert untied["parameters"] == pytest.approx(tied["parameters"], rel=1e-3)
    assert tied["bits_per_byte"] < untied["bits_per_byte"] - 0.05 < math.log2(1024)
