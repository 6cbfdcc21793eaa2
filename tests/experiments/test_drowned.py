"""Tests the sinusoids that drown small token vectors: what was found, and a short version."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from glassformer import nn
from glassformer.config import ModelConfig
from glassformer.experiments import experiment, stored
from glassformer.experiments.drowned import ROOT, SCALES, SEEDS, measure, size
from glassformer.text import CharTokenizer, corpus, split_in_three


def losses(positions, scale=1.0):
    """Returns the losses of the stored runs, by seed."""
    return np.array([run.found["loss"] for run in stored("drowned", positions=positions, scale=scale)])


def unigram():
    """Returns the loss of a model that knows only how frequent each character is."""
    text = corpus()
    ids = np.array(CharTokenizer.from_text(text).encode(text))
    train, held_out, _ = split_in_three(ids, 0.05, 0.05)
    return -np.log(np.bincount(train) / len(train))[held_out].mean()


def test_the_stored_runs_are_the_declared_ones():
    assert [run.settings for run in stored("drowned")] == [dict(run) for run in experiment("drowned").runs]
    assert len(losses("none")) == len(SEEDS) == 3


def test_without_a_factor_only_the_frequencies_of_characters_are_learned():
    assert losses("sinusoidal") == pytest.approx(unigram(), abs=0.03)


def test_that_is_far_worse_than_no_positions_at_all():
    assert losses("sinusoidal").min() > losses("none").max() + 0.7


def test_the_larger_the_factor_the_lower_the_loss():
    for small, large in pairwise(SCALES):
        assert losses("sinusoidal", large).max() < losses("sinusoidal", small).min()
    assert losses("sinusoidal", ROOT).max() < losses("sinusoidal").min() - 0.5


def test_a_table_that_starts_as_small_as_the_tokens_drowns_nothing():
    assert losses("learned") == pytest.approx(losses("none"), abs=0.1)


def test_the_size_is_that_of_the_scaled_vectors():
    sizes = {"vocab_size": 5, "context_length": 4, "d_model": 8, "n_layers": 1, "n_heads": 1}
    config = ModelConfig(**sizes, embedding_scale=3.0)
    model = nn.Transformer(config, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        model.token_embedding.weight[:] = torch.tensor([2.0, -2.0]).repeat(4)
    assert size(model) == pytest.approx(6.0)


def test_an_unknown_method_is_refused():
    with pytest.raises(ValueError, match="positions='alibi'"):
        measure("alibi", 1.0, 10, 0)


def test_in_short_too_the_factor_helps():
    one, other = (
        experiment("drowned").measure_shortly(positions="sinusoidal", scale=scale, seed=3)["loss"]
        for scale in (1.0, 32.0)
    )
    assert other < one - 0.1
