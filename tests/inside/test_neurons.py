"""Tests memories: a planted one is found, and the strongest contexts are those of a plain search."""

import numpy as np
import pytest
import torch
from close import DOUBLE, assert_close

from glassformer.inside import memories, promoted_logits
from glassformer.trace import trace

from .models import BENT, GPT2, MODERN, POST, SUMS, build, some_ids

PLAIN = GPT2.replace(
    positions="none",
    norm="rmsnorm",
    attention_bias="none",
    feedforward="relu",
    feedforward_bias=False,
    head="untied",
)


def planted(config, sign=1):
    """Returns a model in which only token 3 excites neuron 5 of block 1, which promotes token 7."""
    model = build(config)
    for block in model.decoder.blocks:
        block.attention.W_o.weight[:] = 0  # no position hears of another
        block.feedforward.W_down.weight[:] = 0
    model.decoder.norm.weight[:] = 1
    feedforward = model.decoder.blocks[1].feedforward
    norm = model.decoder.blocks[1].norm_feedforward
    stream = model.token_embedding.weight
    if model.decoder.embedding_norm is not None:
        stream = model.decoder.embedding_norm(stream)
    key = norm(stream)
    # A column that answers 1 to token 3 and 0 to 7 others: as many as there are features
    excited = np.linalg.solve(key[[3, 0, 1, 2, 4, 5, 6, 8]], np.eye(8)[0])
    (feedforward.W_gate or feedforward.W_up).weight[:, 5] = 9 * excited
    if feedforward.W_gate is not None:
        feedforward.W_up.weight[:, 5] = sign * excited
    feedforward.W_down.weight[5] = sign * np.linalg.pinv(model.unembedding.weight.T)[:, 7]
    return model


@pytest.mark.parametrize(
    ("config", "sign"),
    [(PLAIN, 1), (PLAIN.replace(feedforward="swiglu"), 1), (PLAIN.replace(feedforward="swiglu"), -1)],
)
def test_a_planted_memory_is_found(config, sign):
    model = planted(config, sign)
    rng = np.random.default_rng(0)
    ids = rng.choice([0, 1, 2, 4, 5, 6, 8], 12 * 20 + 1)
    places = 12 * np.arange(20) + rng.integers(0, 10, 20)
    ids[places] = 3
    ids[places[:15] + 1] = 7  # after three in four of them
    best = memories(model, ids, n_contexts=20, n_promoted=1)[0]
    assert (best.block, best.neuron, best.sign) == (1, 5, sign)
    assert best.promoted.tolist() == [7]
    assert sorted(best.places) == places.tolist()
    assert best.agreement == 15 / 20
    assert best.chance == 15 / 240
    assert (np.diff(sign * best.excitement) <= 0).all()
    assert (sign * best.excitement > 1).all()


@pytest.mark.parametrize("config", [MODERN, GPT2], ids=["gated", "not gated"])
def test_the_contexts_are_the_strongest_of_the_whole_text(config, monkeypatch):
    monkeypatch.setattr("glassformer.inside.neurons.AT_A_TIME", 30)  # two windows and a half
    model = build(config)
    ids = some_ids(config, (7 * 12 + 5,))
    with trace() as seen:
        model(ids[: 7 * 12].reshape(7, 12))
    neurons = [array.reshape(-1, config.d_ff) for array in seen.arrays("neurons")]
    found = memories(model, ids, n_contexts=6)
    signs = (1, -1) if config.gated else (1,)
    assert (
        len(found) == len(set(memory[:3] for memory in found)) == config.n_layers * config.d_ff * len(signs)
    )
    for memory in found:
        values = neurons[memory.block][:, memory.neuron]
        strongest = sorted(values, key=lambda value: -memory.sign * value)[:6]
        assert_close(memory.excitement, strongest, DOUBLE)
        assert_close(values[memory.places], memory.excitement, DOUBLE)


@pytest.mark.parametrize("config", [MODERN, GPT2], ids=["gated", "not gated"])
def test_agreement_and_chance_are_shares_of_what_follows(config):
    model, ids = build(config), some_ids(config, (61,))
    found = memories(model, ids, n_contexts=4, n_promoted=3)
    for memory in found:
        follows = [ids[place + 1] in memory.promoted for place in memory.places]
        assert memory.agreement == np.mean(follows)
        assert memory.chance == pytest.approx(np.mean([i in memory.promoted for i in ids[1:61]]), abs=1e-12)
        logits = memory.sign * promoted_logits(model, memory.block)[memory.neuron]
        assert set(memory.promoted) == set(np.argsort(logits)[-3:])
    gains = [memory.agreement - memory.chance for memory in found]
    assert gains == sorted(gains, reverse=True)


@pytest.mark.parametrize("name", SUMS)
def test_a_neuron_promotes_its_row_as_norm_and_head_read_it(name):
    model = build(SUMS[name])
    last = model.config.n_layers - 1
    row = model.decoder.blocks[last].feedforward.W_down.weight[2]
    centred = row if model.config.norm == "rmsnorm" else row - row.mean()
    weight = model.token_embedding.weight.T if model.unembedding.weight is None else model.unembedding.weight
    expected = model.config.head_scale * (centred * model.decoder.norm.weight) @ weight
    assert_close(promoted_logits(model, last)[2], expected, DOUBLE)


def test_bad_input_is_refused():
    model, ids = build(GPT2), some_ids(GPT2, (60,))
    with pytest.raises(ValueError, match="whole windows in ids=0 must be at least 1"):
        memories(model, ids[:12])
    with pytest.raises(ValueError, match="places in ids=12 must be at least 20"):
        memories(model, ids[:13])
    with pytest.raises(ValueError, match="n_contexts=0"):
        memories(model, ids, n_contexts=0)
    with pytest.raises(ValueError, match="n_promoted=0"):
        memories(model, ids, n_promoted=0)
    with pytest.raises(ValueError, match="exactly one axis"):
        memories(model, ids[None])
    with pytest.raises(TypeError, match="ids must be an array of integers"):
        memories(model, ids * 1.0)
    with pytest.raises(TypeError, match="must be a Transformer"):
        memories(torch.nn.Linear(2, 3), ids)
    for config in (POST, BENT, GPT2.replace(family="encoder"), GPT2.replace(head="none")):
        with pytest.raises(ValueError, match=r"post|head|decoder"):
            promoted_logits(build(config), 0)
    with pytest.raises(ValueError, match=r"block\[\]=2 is outside 0\.\.1"):
        promoted_logits(model, 2)
