"""Tests what meets a model of layers with a state: instruments, training, writing, files, a page. It works or says why.

The axes: T positions, H heads, K features of a head.
"""

import re

import numpy as np
import pytest
import torch
from layers.grid import GPT2, SYSTEMS
from training import small
from traitlets import TraitError
from typer.testing import CliRunner

from glassformer import checkpoints, cli, inside, nn, scratch, train, widgets
from glassformer.generate import beam_search, generate
from glassformer.inside.look import entering, look
from glassformer.layers import LinearAttention
from glassformer.text import CharTokenizer
from glassformer.train.optimizers import initialize, kind_of, optimizers_of
from glassformer.train.ram import bytes_of_a_text

HYBRID, MAMBA = SYSTEMS["states and attention"], SYSTEMS["Mamba-2"]
HYBRIDS = {"hybrid": HYBRID, "Mamba-2": MAMBA}
every_hybrid = pytest.mark.parametrize("config", HYBRIDS.values(), ids=HYBRIDS)
STATE = {"form": LinearAttention(n_heads=2, n_key_heads=2, d_key=3, d_value=5)}
IDS = np.array([3, 1, 4, 1, 5, 9, 2, 6])


def numpy_model(config):
    return scratch.Transformer(config, generator=np.random.default_rng(0), dtype=np.float64).eval()


def torch_model(config, **options):
    return nn.Transformer(config, generator=torch.Generator().manual_seed(0), **options).eval()


# Work and memory


@every_hybrid
def test_what_is_counted_step_by_step_is_what_the_formula_says(config):
    model = numpy_model(config)
    cache = model.new_cache(1, 12)
    for t in range(5):
        with inside.counting(model) as count:
            model(IDS[None, t : t + 1], cache=cache)
        assert count.multiply_adds == inside.multiply_adds(config, 1, t)


def test_a_state_costs_the_same_after_any_text_and_is_kept_in_float32_at_least():
    state = 2 * 4 * 3 * 5 * 4  # layers, heads, a state; bytes
    inputs = 2 * 3 * (2 * 2 * 3 + 4 * 5)  # layers, taps - 1, features that are convolved
    for n in (1, 9, 12):
        assert inside.multiply_adds(MAMBA, 1, n) == inside.multiply_adds(MAMBA, 1)
        assert inside.cache_bytes(MAMBA, n) == state + 4 * inputs
    dtypes = {2: torch.bfloat16, 4: torch.float32, 8: torch.float64}
    for config in HYBRIDS.values():
        for size, dtype in dtypes.items():
            kept = torch_model(config, dtype=dtype).new_cache(1, 9)
            assert inside.cache_bytes(config, 9, bytes_per_number=size) == kept.nbytes
    assert {c.keys.dtype for c in torch_model(MAMBA, dtype=torch.bfloat16).new_cache(1, 9).blocks} == {
        torch.float32
    }


# Instruments


def test_instruments_without_attention_weights_name_the_layer_with_a_state():
    model = numpy_model(HYBRID)
    refused = {
        "layer 0 has a state, so it has no attention weights": (
            lambda: inside.previous_token_scores(model, IDS),
            lambda: inside.induction_scores(model, IDS[None, :5]),
        ),
        "layer 0 has a state, and norms what its heads have read before W_o, so they cannot be taken apart": (
            lambda: inside.writes(model, IDS),
            lambda: inside.logit_attribution(model, IDS, 3),
            lambda: inside.ablations(model, [({"ids": IDS[None]}, IDS[None])]),
            lambda: inside.ablated(model, 0, "attention").__enter__(),
            lambda: inside.memories(model, np.tile(IDS, 9), n_contexts=3),
        ),
        "layer 0 has a state, so the systems of equations": (lambda: inside.cost(model, IDS),),
        "layer 3 has no feed-forward network": (
            lambda: inside.ablated(model, 3, "feed-forward").__enter__(),
        ),
    }
    for message, calls in refused.items():
        for call in calls:
            with pytest.raises(ValueError, match=f"^{message}"):
                call()
    assert inside.logit_lens(model, IDS).shape == (5, 8, 11)


def test_of_a_hybrid_what_attends_and_the_networks_can_be_taken_out():
    model = numpy_model(HYBRID)
    seen, whole = look(model, IDS), model(IDS)
    [weights] = seen.arrays("weights")  # of layer 2
    values = seen.arrays("v", "attention")[2]
    np.testing.assert_array_equal(entering(seen, 2, "attention")[:, :4], (weights @ values)[0])
    network = model.decoder.blocks[2].feedforward
    for part in ((2, "attention", [1]), (2, "attention"), (2, "feed-forward")):
        with inside.ablated(model, *part, mean_over=IDS):
            assert np.abs(model(IDS) - whole).max() > 1e-3
        np.testing.assert_array_equal(model(IDS), whole)
    W_down, network.W_down.weight = network.W_down.weight, network.W_down.weight * 0
    bias, network.W_down.bias = network.W_down.bias, network.W_down.bias * 0
    without = model(IDS)
    network.W_down.weight, network.W_down.bias = W_down, bias
    with inside.ablated(model, 2, "feed-forward"):
        np.testing.assert_array_equal(model(IDS), without)


def test_a_model_of_attention_alone_is_a_sum_of_its_heads():
    model = numpy_model(GPT2.replace(feedforward="none", feedforward_bias=False))
    written = inside.writes(model, IDS)
    assert not [part for part in written if "feed-forward" in part]
    np.testing.assert_allclose(sum(written.values()), look(model, IDS).arrays("stream")[-1], atol=1e-12)
    with pytest.raises(ValueError, match="layer 1 has no feed-forward network"):
        inside.promoted_logits(model, 1)
    batches = [({"ids": IDS[None, :-1]}, IDS[None, 1:])]
    assert len(inside.ablations(model, batches)) == 1 + 2 * 3


# Writing


@every_hybrid
@pytest.mark.parametrize("make", [numpy_model, torch_model])
def test_texts_of_unequal_length_are_written_as_alone_with_and_without_a_cache(config, make):
    model, prompts = make(config), [IDS[:2], IDS[:5]]
    together = generate(model, prompts, 6, temperature=0)
    for prompt, text in zip(prompts, together, strict=True):
        for cache in (True, False):
            [alone] = generate(model, prompt, 6, temperature=0, cache=cache)
            np.testing.assert_array_equal(alone, text)
    beams = [beam_search(model, prompts, 5, n_beams=3, n_return=2, cache=cache) for cache in (True, False)]
    for (one, score), (other, same) in zip(*beams, strict=True):
        np.testing.assert_array_equal(one, other)
        assert score == pytest.approx(same, rel=1e-5)
    slid = [
        generate(model, prompts, 14, temperature=0, cache=cache, past_context="half")
        for cache in (True, False)
    ]
    np.testing.assert_array_equal(slid[0][1], slid[1][1])


@every_hybrid
def test_a_twin_in_numpy_and_one_in_bfloat16(config):
    model, ids = torch_model(config), torch.from_numpy(IDS)
    with torch.no_grad():
        expected = model(ids)
        np.testing.assert_allclose(scratch.in_numpy(model)(IDS), expected, atol=1e-6)
        half = nn.Transformer(config, generator=None, dtype=torch.bfloat16).eval()
        half.load_state_dict(model.state_dict())
        assert (half(ids).float() - expected).abs().max() < 0.06 * expected.abs().max()
        cache, steps = half.new_cache(1, 8), []
        for t in range(8):
            steps.append(half(ids[None, t : t + 1], cache=cache))
        assert (torch.cat(steps, dim=1)[0].float() - expected).abs().max() < 0.06 * expected.abs().max()


# Training and files


CONFIG = small.model_config(
    n_kv_heads=4, attention_bias="none", kinds={"state": STATE, "full": {}}, order="state full"
)


def test_weights_of_a_convolution_are_no_matrices():
    built = torch_model(CONFIG)
    kinds = {name: kind_of(name, weight) for name, weight in built.named_parameters()}
    vectors = {name for name in kinds if "convolution" in name or "log_rate" in name or "decay_bias" in name}
    assert len(vectors) == 3 + 2
    assert all(kinds[name] == ("embeddings" if "convolution" in name else "norms") for name in vectors)
    assert kinds["decoder.blocks.0.attention.W_decay.weight"] == "matrices"
    _, muon = optimizers_of(built, small.config(optimizer="muon"))
    moved = {id(weight) for group in muon.param_groups for weight in group["params"]}
    assert moved == {id(w) for name, w in built.named_parameters() if kinds[name] == "matrices"}
    before = {name: built.get_parameter(name).clone() for name in vectors}
    initialize(built, small.config(init="gpt2"))
    assert all(torch.equal(built.get_parameter(name), before[name]) for name in vectors)
    assert built.decoder.blocks[0].attention.W_q.weight.std() < 0.03


def test_memory_of_a_layer_without_a_network_is_not_that_of_one():
    assert bytes_of_a_text(MAMBA, small.config()) == 4 * 12 * (2 * 11 + 2 * 4 * 8)


def test_both_trainers_agree_and_a_checkpoint_and_the_command_know_the_model(tmp_path):
    built = nn.Transformer(CONFIG, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    twin = scratch.in_numpy(built)
    settings = small.config(steps=4, weight_decay=0.5)
    found = list(train.train_in_numpy(twin, small.task(), settings))
    made = train.Trainer(built, small.task(), settings, folder=tmp_path)
    np.testing.assert_allclose(found, [record["loss"] for record in made.run()], rtol=1e-9)
    for room in ("scratch", "nn"):
        loaded = checkpoints.load_model(tmp_path, room=room)
        assert loaded.config == CONFIG
        again = scratch.in_numpy(loaded).named_parameters()
        for name, weight in twin.named_parameters().items():
            np.testing.assert_allclose(again[name], weight, rtol=1e-6, atol=1e-9)
    path = tmp_path / "mine.json"
    path.write_text(CONFIG.to_json(), encoding="utf-8")
    output = CliRunner().invoke(cli.app, ["params", str(path)]).output
    assert re.search(rf"^total +{CONFIG.parameter_count().total:,} ", output, re.M)
    assert "H = n_heads = 2 or 4" in output


def test_a_page_refuses_it_by_name():
    config = GPT2.replace(
        positions="rope",
        norm="rmsnorm",
        attention_bias="none",
        feedforward="swiglu",
        feedforward_bias=False,
        head="untied",
        kinds={"state": STATE},
        order="state",
    )
    with pytest.raises(
        TraitError, match=r'cannot run in a page: kinds=\{"state":\{"form":\{"LinearAttention"'
    ):
        widgets.LiveWriter(model=numpy_model(config), tokenizer=CharTokenizer("abcdefghijk"))
