"""Tests that every family is counted as transformers builds it: weights, what the cache keeps, and multiply-adds."""

import json
import random

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from glassformer.anatomy import keys_of, known_keys, read, tables
from tools.assets.config_classes import PLACE, classes

from .small import n_weights, settings_of, small

FAMILIES = [family for family in tables()["families"] if family in CONFIG_MAPPING]


def counted(given, family):
    return sum(read({**given, "model_type": family}).weights().values())


@pytest.mark.parametrize("family", FAMILIES)
def test_weights_are_those_that_transformers_builds_also_when_keys_change(family):
    generator = random.Random(family)
    given = settings_of(family)
    usual, tied = small(family, meta=True).config.to_dict(), "tie_word_embeddings"
    keys = sorted(known_keys(family) - {"layer_types", "mlp_layer_types"})
    for changes in ({}, *(changed(generator, usual, keys) for _ in range(4))):
        try:
            model = small(family, meta=True, **changes)
        except Exception:  # transformers cannot build it either
            continue
        if getattr(model.config, tied, False) != changes.get(tied, usual.get(tied, False)):
            continue  # a T5, whose class only unties its head when it loads weights
        assert counted(given | changes, family) == n_weights(model), changes
        assert counted(model.config.to_dict(), family) == n_weights(model), changes


def changed(generator, usual, keys):
    """Returns three keys of a file with other values: numbers twice as large or null, and flags turned."""
    found = {}
    for key in generator.sample(keys, min(3, len(keys))):
        value = usual.get(key)
        if isinstance(value, bool):
            found[key] = not value
        elif isinstance(value, int):
            found[key] = generator.choice([2 * value, None])
    return found


# Attention that keeps all keys, or those of a window; what others keep is counted by hand below
WHOLE = (
    "llama gpt2 gpt_neox falcon qwen3 qwen3_moe gpt_oss gemma3_text gemma4_text olmo3 glm4_moe mimo_v2_flash"
)


@pytest.mark.parametrize("family", WHOLE.split())
@pytest.mark.parametrize("positions", [6, 7, 8, 21])
def test_the_cache_and_the_multiply_adds_are_those_of_transformers_around_a_window_of_8(family, positions):
    model = small(family)
    anatomy = read({**model.config.to_dict(), "model_type": family})
    ids = torch.randint(0, 97, (1, positions + 1))
    with torch.no_grad():
        cache = model(ids[:, :positions], use_cache=True).past_key_values
        kept = sum(layer.keys.numel() + layer.values.numel() for layer in cache.layers)
        with FlopCounterMode(display=False) as counter:
            model(ids[:, positions:], past_key_values=cache)
    assert sum(map(sum, anatomy.kept(positions).values())) == kept
    assert anatomy.multiply_adds(positions) == counter.get_total_flops() / 2


def test_what_a_file_lacks_is_what_the_classes_of_transformers_take():
    assert json.loads(PLACE.read_text(encoding="utf-8")) == json.loads(json.dumps(classes()))


def test_every_key_of_these_classes_has_a_sentence_or_is_known_to_have_no_effect():
    for family in FAMILIES:
        given = {**small(family, meta=True).config.to_dict(), **dict.fromkeys(known_keys(family), 1)}
        assert keys_of(given)["unknown"] == [], family


def test_a_token_of_deepseek_v3_adds_70272_bytes_in_bfloat16():
    anatomy = read({"model_type": "deepseek_v3"})
    assert 2 * (anatomy.kept(1001)["full_attention"][0] - anatomy.kept(1000)["full_attention"][0]) == 70_272
    assert (
        sum(anatomy.weights().values()) + sum(anatomy.weights(groups=("buffers",)).values())
        == 671_026_419_200
    )


def test_a_state_does_not_grow():
    anatomy = read({"model_type": "qwen3_next"})
    before, after = anatomy.kept(1000), anatomy.kept(100_000)
    assert before["linear_attention"] == after["linear_attention"]
    assert before["linear_attention"][1] == 36 * 32 * 128 * 128
    assert after["full_attention"][0] == 12 * 2 * 2 * 256 * 100_000


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"num_hidden_layers": 10**9}, "the number of layers=1000000000 must be at most 10,000"),
        ({"num_hidden_layers": 2.5}, "the number of layers=2.5 must be a whole number"),
        ({"hidden_size": "x"}, "hidden_size='x' must be a whole number"),
        ({"hidden_size": 0}, "hidden_size=0 must be at least 1"),
        ({"hidden_size": -64}, "hidden_size=-64 must be at least 1"),
        ({"hidden_size": 0.5}, "hidden_size=0.5 must be a whole number"),
        ({"num_attention_heads": 0}, "num_attention_heads=0 must be at least 1"),
        ({"model_type": "gpt2", "n_head": 0}, "n_head=0 must be at least 1"),
        ({"linear_key_head_dim": "x"}, "linear_key_head_dim='x' must be a whole number"),
        ({"layer_types": 3}, "layer_types=3 must be a list"),
        ({"layer_types": ["full_attention"]}, "layer_types has 1 entries, but there must be one for layer 1"),
        ({"layer_types": ["x"] * 36}, "layer 0 is of the kind 'x', but qwen3_next has full_attention"),
        ({"per_layer_config": {"0": 3}}, "per_layer_config=3 of layer 0 must be an object"),
        ({"model_type": ["x"]}, r"model_type=\['x'\] is not known here"),
    ],
)
def test_what_is_wrong_in_a_file_is_named_and_nothing_is_counted(changes, said):
    with pytest.raises((TypeError, ValueError), match=said):
        read({"model_type": "qwen3_next", **changes})
