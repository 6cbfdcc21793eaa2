"""Tests what is particular to the families with the delta rule: their files, in all forms, and what is refused."""

import numpy as np
import pytest
import torch
import transformers
from safetensors.numpy import load_file, save_file

from glassformer.anatomy import read, shelf
from glassformer.huggingface import config_from_hf, load, save, state_from_hf
from glassformer.huggingface.configs import described

from .models import CASES, STATES, file_of, make, numpy

LINEAR, FULL = "linear_attention", "full_attention"
DELTA = ("qwen3_5-delta", "qwen3_next-delta", "kimi_linear", "olmo_hybrid", "olmo_hybrid-nope")


def assert_same_states(one, other):
    one, other = one.state_dict(), other.state_dict()
    assert one.keys() == other.keys()
    for name, values in one.items():
        np.testing.assert_array_equal(values, other[name])


# Files


@pytest.mark.parametrize("case", DELTA)
def test_weights_have_the_names_of_a_model_in_memory_too(tmp_path, case):
    theirs = make(case)
    theirs.save_pretrained(tmp_path)
    model = load(tmp_path)
    state = {name: numpy(weight) for name, weight in theirs.state_dict().items()}
    found = state_from_hf(model.config, state, model_type=CASES[case].model_type)
    for name, values in model.state_dict().items():
        np.testing.assert_array_equal(values, found[name])


def test_convolutions_are_read_in_pieces_of_any_size(tmp_path):
    """transformers joins the three of an OLMo hybrid, and saves them as three equal pieces."""
    case, changes = "olmo_hybrid", {"linear_value_head_dim": 12}
    make(case, **changes).save_pretrained(tmp_path / "theirs")
    model = load(tmp_path / "theirs")
    save(model, tmp_path / "ours")
    name = "model.layers.0.linear_attn.{}_conv1d.weight".format
    for folder, sizes in (("theirs", [24, 24, 24]), ("ours", [12, 12, 48])):
        weights = load_file(tmp_path / folder / "model.safetensors")
        assert [len(weights[name(letter)]) for letter in "qkv"] == sizes
    assert_same_states(load(tmp_path / "ours"), model)
    del weights[name("k")]
    save_file(weights, tmp_path / "ours/model.safetensors")
    with pytest.raises(ValueError, match=r"0\.linear_attn\.q_conv1d\.weight is not a weight of this model"):
        load(tmp_path / "ours")


# Settings


def test_kimi_lists_its_layers_from_one():
    sizes = {"head_dim": 5, "num_heads": 3, "short_conv_kernel_size": 3}
    lists = {"full_attn_layers": [3], "kda_layers": [1, 2, 4]}
    given = file_of("kimi_linear", layer_types=None)
    own = {key: value for key, value in given.items() if not key.startswith("linear_")}
    usual = config_from_hf(file_of("kimi_linear"))
    assert config_from_hf(own | {"linear_attn_config": sizes | lists}) == usual
    deeper = config_from_hf(given | {"num_hidden_layers": 9, "mlp_layer_types": ["dense"] * 9})
    assert [i for i in range(9) if deeper.kind(i) == "full"] == [4, 8]
    for change, why in (
        ({"kda_layers": [1, 2]}, "must have each layer from 1 to 4"),
        ({"kda_layers": [0, 1, 2]}, "must have each layer from 1 to 4"),
        ({"new": 3}, "must be an object with"),
        ({"num_heads": 9}, "linear_attn_config.num_heads=9 contradicts linear_num_heads=3"),
    ):
        with pytest.raises(ValueError, match=why):
            config_from_hf(given | {"linear_attn_config": sizes | lists | change})


def test_olmo_hybrid_derives_sizes_and_is_without_positions_if_its_base_is_null():
    null = dict.fromkeys(name for name in STATES if name.startswith("linear_") and "conv" not in name)
    config = config_from_hf(file_of("olmo_hybrid", **null))
    form = config.layer(0).attention.form
    # ¾ of 24 by 4, and twice as much
    assert (form.n_heads, form.n_key_heads, form.d_key, form.d_value) == (4, 4, 4, 8)
    bare = {key: value for key, value in file_of("olmo_hybrid").items() if key != "rope_parameters"}
    for rope, positions in (
        ({}, "rope"),
        ({"rope_parameters": None}, "rope"),
        ({"rope_theta": None}, "none"),
        ({"rope_theta": None, "rope_parameters": None}, "none"),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": None}}, "none"),
    ):
        theirs = transformers.OlmoHybridConfig(**bare | rope).rope_parameters["rope_theta"]
        assert config_from_hf(bare | rope).positions == positions == ("none" if theirs is None else "rope")


REFUSED = [
    *(
        (case, {"hidden_act": "gelu"}, "hidden_act='gelu' is not supported: layers with a state have it, too")
        for case in DELTA
    ),
    *((case, {"new": 3}, "new=3 is not known") for case in DELTA),
    ("qwen3_5-delta", {"linear_num_value_heads": 3}, "heads=3 is not divisible by linear_num_key_heads=2"),
    ("qwen3_5-delta", {"linear_key_head_dim": None}, "linear_key_head_dim is missing"),
    ("qwen3_5-delta", {"linear_conv_kernel_dim": 0}, "linear_conv_kernel_dim=0 must be at least 1"),
    ("qwen3_5-delta", {"attn_output_gate": False}, "attn_output_gate=False is not supported"),
    ("qwen3_5-delta", {"layer_types": ["mamba"] * 4}, "known are linear_attention, full_attention"),
    ("qwen3_next-delta", {"num_experts": 4}, "num_experts_per_tok=10 must be at most the experts to choose from, 4"),
    ("kimi_linear", {"moe_router_activation_func": "softmax"}, "moe_router_activation_func='softmax' is not supported"),
    ("kimi_linear", {"mla_use_nope": False}, "mla_use_nope=False is not supported"),
    ("kimi_linear", {"tie_word_embeddings": True}, "tie_word_embeddings=True is not supported"),
    ("kimi_linear", {"attention_bias": True}, "attention_bias=True is not supported"),
    ("kimi_linear", {"kv_lora_rank": None}, "kv_lora_rank is missing"),
    ("kimi_linear", {"linear_head_dim": -1}, "linear_head_dim=-1 must be at least 1"),
    ("olmo_hybrid", {"partial_rotary_factor": 0.5}, "partial_rotary_factor=0.5 is not supported"),
    ("olmo_hybrid", {"linear_allow_neg_eigval": None}, "linear_allow_neg_eigval=None"),
    ("olmo_hybrid", {"sliding_window": 7}, "sliding_window=7 is not supported"),
]  # fmt: skip


@pytest.mark.parametrize(("case", "changes", "why"), REFUSED)
def test_what_is_refused(case, changes, why):
    with pytest.raises((ValueError, TypeError), match=why):
        config_from_hf(file_of(case, **changes))


PUBLISHED = [one for one in shelf() if one["name"].startswith(("Qwen3.5 27B", "Qwen3-Next", "Kimi Linear"))]


@pytest.mark.parametrize("one", PUBLISHED, ids=[one["name"] for one in PUBLISHED])
def test_published_files_have_the_sizes_that_anatomy_and_transformers_count(one):
    """The whole model, if it runs; otherwise attention and the states, which are read from it all the same."""
    config = described(one["config"], ignore=["auto_map"])
    anatomy = read(one["config"])
    ours = {part.name: part.count for part in config.parameter_count().parts}
    if "27B" in one["name"]:
        with torch.device("meta"):
            text = transformers.Qwen3_5TextConfig(**one["config"]["text_config"])
            theirs = transformers.Qwen3_5ForCausalLM(text)
        n = sum(weight.numel() for weight in theirs.parameters())
        assert config.parameter_count().total == n == sum(anatomy.weights().values())
    mixes = ("attention", "latent", "delta", "channel_delta")
    assert sum(size for name, size in ours.items() if "attention" in name) == sum(
        n for (part, _), n in anatomy.weights().items() if part in mixes
    )
