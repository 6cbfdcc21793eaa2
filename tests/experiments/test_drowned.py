"""Tests the sinusoids that drown small token vectors: what was found, and a short version."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from glassformer import nn
from glassformer.config import ModelConfig
from glassformer.experiments import experiment, stored
from glassformer.experiments.drowned import ROOT, SCALES, STEPS, size
from glassformer.text import CharTokenizer, corpus, split_in_three

SHORT, LONG = STEPS
EQUAL = 32.0  # times 0.02 is 0.64; the sinusoids have 0.71


def losses(positions, scale=1.0, steps=SHORT):
    """Returns the losses of the stored runs, by seed."""
    runs = stored("drowned", positions=positions, scale=scale, steps=steps)
    return np.array([run.found["loss"] for run in runs])


def unigram():
    """Returns the loss of a model that knows only how frequent each character is."""
    text = corpus()
    ids = np.array(CharTokenizer.from_text(text).encode(text))
    train, held_out, _ = split_in_three(ids, 0.05, 0.05)
    return -np.log(np.bincount(train) / len(train))[held_out].mean()


def test_without_a_factor_only_the_frequencies_of_characters_are_learned_at_first():
    assert losses("sinusoidal") == pytest.approx(unigram(), abs=0.03)


def test_at_first_the_loss_is_lowest_where_both_are_about_equally_large():
    by_factor = [losses("sinusoidal", scale) for scale in SCALES]
    for small, large in pairwise(by_factor[: SCALES.index(EQUAL) + 1]):
        assert large.max() < small.min()
    assert losses("sinusoidal", EQUAL).min() > losses("none").max() + 0.05  # no positions are better still


def test_after_longer_training_it_is_lowest_where_tokens_have_grown_as_large_as_the_sinusoids():
    """At a factor of √64 they have, and the model overtakes no positions; smaller and larger ones drown one part."""
    none, best = losses("none", steps=LONG), losses("sinusoidal", ROOT, LONG)
    assert best.max() < none.min() - 0.05
    assert losses("sinusoidal", EQUAL, LONG).min() > best.max() + 0.05
    assert losses("sinusoidal", steps=LONG).min() > none.max() + 0.1
    grown = {scale: stored("drowned", scale=scale, steps=LONG)[0].found["grown"] for scale in (ROOT, EQUAL)}
    assert grown[ROOT] == pytest.approx(0.5**0.5, rel=0.1)
    assert grown[EQUAL] > 3 * 0.5**0.5


def test_a_table_that_starts_as_small_as_the_tokens_drowns_nothing():
    assert losses("learned") == pytest.approx(losses("none"), abs=0.1)


def test_the_size_is_that_of_the_scaled_vectors():
    sizes = {"vocab_size": 5, "context_length": 4, "d_model": 8, "n_layers": 1, "n_heads": 1}
    config = ModelConfig(**sizes, embedding_scale=3.0)
    model = nn.Transformer(config, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        model.token_embedding.weight[:] = torch.tensor([2.0, -2.0]).repeat(4)
    assert size(model) == pytest.approx(6.0)


@pytest.mark.weekly
def test_in_short_too_the_factor_helps():
    one, other = (
        experiment("drowned").measure_shortly(positions="sinusoidal", scale=scale, seed=3)["loss"]
        for scale in (1.0, 32.0)
    )
    assert other < one - 0.1
