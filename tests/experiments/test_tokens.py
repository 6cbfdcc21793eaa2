"""Tests characters against byte pairs: the method, the results, and a short version with the same outcome."""

import math

import numpy as np
import pytest
import torch
from close import SINGLE, assert_close
from torch.nn import functional

from glassformer import nn
from glassformer.experiments import experiment, spread, stored, tokens
from glassformer.experiments.tokens import (
    BATCH,
    HELD_OUT,
    SEEDS,
    SIZES,
    STEPS,
    T,
    bits_per_byte,
    losses,
    measure,
    recipe_of,
    tokenizer_of,
    work_of_a_token,
)
from glassformer.text import corpus


def found(size, what="bits_per_byte", equal="work"):
    runs = stored("tokens", vocab_size=size, equal=equal)
    assert [run.settings["seed"] for run in runs] == list(SEEDS)
    return [run.found[what] for run in runs]


# How it measures


def small(vocab_size=70):
    config = recipe_of(1, 0)[0].replace(vocab_size=vocab_size, n_layers=1)
    return nn.Transformer(config, generator=torch.Generator().manual_seed(0))


def test_each_token_is_asked_for_once_and_after_half_a_window_at_least():
    model, ids = small(), np.random.default_rng(0).integers(70, size=5 * T + 9)
    nats, targets = losses(model, ids)
    n = len(targets)
    assert n % (T // 2) == 0
    assert len(ids) - T // 2 - 1 - n < T // 2  # no whole half window is left at the end
    np.testing.assert_array_equal(targets, ids[T // 2 + 1 :][:n])
    with torch.no_grad():
        for place in (0, 31, 32, 77, n - 1):  # one by one: from the start of its window on
            start = place // (T // 2) * (T // 2)
            logits = model(torch.from_numpy(ids[None, start : start + T]))[0, place - start + T // 2]
            expected = functional.cross_entropy(logits, torch.tensor(targets[place]))
            assert_close(nats[place], expected, SINGLE)


def test_bits_per_byte_are_those_of_the_text():
    assert bits_per_byte(np.full(7, math.log(256)), "7 bytes") == pytest.approx(8)
    assert bits_per_byte(np.array([math.log(4)]), "馬") == pytest.approx(2 / 3)


def test_the_work_is_what_torch_counts_and_the_embedding_costs_nothing():
    """PyTorch's own counter of operations, forward and backward over one window; it cannot see into fused attention."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    for vocab_size in (70, 500):
        model = small(vocab_size)
        counter = FlopCounterMode(display=False)
        with counter, sdpa_kernel(SDPBackend.MATH):
            ids = torch.zeros((1, T), dtype=torch.long)
            functional.cross_entropy(model(ids)[0], ids[0]).backward()
        assert counter.get_total_flops() == pytest.approx(T * work_of_a_token(model.config), rel=1e-3)


def test_neither_tokenizer_sees_what_is_held_out(monkeypatch):
    text = corpus()[:100_000]
    monkeypatch.setattr(tokens, "corpus", lambda: text)
    read = text[: int(len(text) * (1 - HELD_OUT))]
    marked = measure(512, 0, steps=1, every=400, changes=["model.n_layers=1"])
    assert marked["characters_per_token"] == len(read) / len(tokenizer_of(read, 512).encode(read))


# What was found


def test_the_work_is_equal():
    everything = [work for size in SIZES for work in found(size, "work")]
    assert max(everything) / min(everything) < 1.003
    assert found(None, "steps") == [STEPS] * 3


def test_with_equal_text_it_is_half_the_work_and_as_much_text():
    assert found(1024, "text_read", "text") == pytest.approx(found(None, "text_read"), rel=2e-3)
    share = found(1024, "work", "text")[0] / found(None, "work")[0]
    assert round(share, 2) == 0.55


def test_no_run_saw_the_whole_text_once():
    assert max(read for size in SIZES for read in found(size, "text_read")) < 0.7


def test_at_equal_work_byte_pairs_are_better_at_every_seed():
    characters = spread(found(None))
    for size in SIZES[1:]:
        assert max(found(size)) < characters.lowest
    best = min(spread(found(size)).median for size in SIZES)
    assert 0.04 < 1 - best / characters.median < 0.055  # a twentieth


def test_the_best_are_1024_and_2048_which_seeds_do_not_tell_apart():
    ours = {size: spread(found(size)) for size in SIZES}
    one, two = ours[1024], ours[2048]
    assert one.lowest < two.highest
    assert two.lowest < one.highest
    for size in (None, 512, 4096):
        assert ours[size].lowest > max(one.highest, two.highest)


def test_at_4096_more_than_half_of_the_work_is_in_the_head():
    run = stored("tokens", vocab_size=4096)[0].found
    head = 6 * run["parameters_of_tables"] / 2 * run["steps"] * BATCH * T
    assert 0.5 < head / run["work"] < 0.65


def test_at_equal_text_characters_are_better_at_every_seed():
    assert max(found(None)) < min(found(1024, equal="text"))


# Made anew


@pytest.mark.weekly
def test_made_anew_and_shortly_byte_pairs_are_better(monkeypatch):
    """Uses a part of the text, whose tokens take little time to learn and encode."""
    text = corpus()[:200_000]
    monkeypatch.setattr(tokens, "corpus", lambda: text)
    one = experiment("tokens")
    characters, pairs = (one.measure_shortly(vocab_size=size, seed=0) for size in (None, 1024))
    assert pairs["bits_per_byte"] < characters["bits_per_byte"] < math.log2(65)
    assert pairs["steps"] < characters["steps"]
    assert pairs["work"] == pytest.approx(characters["work"], rel=0.01)
    assert characters["nats_per_token"] / math.log(2) == pytest.approx(characters["bits_per_byte"])
