"""Tests that every family is counted as transformers builds it: weights, what the cache keeps, and multiply-adds."""

import json
import random
from contextlib import suppress

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from glassformer.anatomy import keys_of, known_keys, read, tables
from glassformer.published import published
from tools.assets.config_classes import PLACE, classes

from .small import DERIVED, NEEDED, OLD, n_weights, settings_of, small

FAMILIES = [family for family in tables()["families"] if family in CONFIG_MAPPING]


def counted(given, family):
    return sum(read({**given, "model_type": family}).weights().values())


@pytest.mark.sampled(2)
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


@pytest.mark.parametrize("family", FAMILIES)
def test_older_files_are_read_as_the_form_in_which_their_class_saves_them(family):
    """Old keys, the saved form, and the saved form without what follows from the other keys, say the same."""
    own = settings_of(family)
    usual = {key: value for key, value in own.items() if key not in DERIVED or key in NEEDED.get(family, {})}
    for old in ({}, *OLD.get(family, [])):
        try:
            config, file = CONFIG_MAPPING[family](**usual | old), usual | old
        except Exception:  # the class derives such a list for its own number of layers only
            config, file = CONFIG_MAPPING[family](**own | old), own | old
        saved = config.to_dict()
        less = {key: value for key, value in saved.items() if key not in DERIVED}
        forms = [file, saved]
        with suppress(Exception):  # the class does not take it
            forms += [less] if CONFIG_MAPPING[family](**less).to_dict() == saved else []
        said = [everything({**form, "model_type": family}) for form in forms]
        assert said == [said[0]] * len(said), old


def everything(file):
    """Returns all that is counted of a file."""
    anatomy = read(file)
    kinds = [(kind.word, kind.parts, kind.layers) for kind in anatomy.kinds]
    weights = [anatomy.weights(active=active) for active in (False, True)]
    return kinds, *weights, anatomy.kept(21), anatomy.kept(5000), anatomy.multiply_adds(21)


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
    "llama gpt2 gpt_neox falcon qwen3 qwen3_moe gpt_oss gemma3_text gemma4_text olmo3 glm4_moe mimo_v2_flash "
    "mpt nemotron muse_glimmer_text muse_spark_text modernbert-decoder jetmoe gemma3n_text qwen3_vl_moe_text"
)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("family", WHOLE.split())
@pytest.mark.parametrize("positions", [6, 7, 8, 21])
def test_the_cache_and_the_multiply_adds_are_those_of_transformers_around_a_window_of_8(family, positions):
    model = small(family)
    anatomy = read({**model.config.to_dict(), "model_type": family})
    ids = torch.randint(0, 97, (1, positions + 1))
    head = 97 * 64 if model.get_output_embeddings() is None else 0
    with torch.no_grad():
        cache = model(ids[:, :positions], use_cache=True).past_key_values
        kept = sum(
            layer.keys.numel() + layer.values.numel() for layer in cache.layers if layer.keys is not None
        )
        with FlopCounterMode(display=False) as counter:
            model(ids[:, positions:], past_key_values=cache)
    assert sum(map(sum, anatomy.kept(positions).values())) == kept
    assert anatomy.multiply_adds(positions) == counter.get_total_flops() / 2 + head


@pytest.mark.parametrize("family", ["t5", "umt5"])
def test_a_decoder_keeps_what_it_has_written_and_the_text_that_the_encoder_has_read(family):
    model, positions = small(family), 21
    anatomy = read({**model.config.to_dict(), "model_type": family})
    ids = torch.randint(0, 97, (1, positions + 1))
    with torch.no_grad():
        read_before = model.get_encoder()(ids[:, :positions])
        cache = model(encoder_outputs=read_before, decoder_input_ids=ids[:, :positions]).past_key_values
        kept = (*cache.self_attention_cache.layers, *cache.cross_attention_cache.layers)
        kept = sum(layer.keys.numel() + layer.values.numel() for layer in kept)
        with FlopCounterMode(display=False) as counter:
            model(encoder_outputs=read_before, decoder_input_ids=ids[:, positions:], past_key_values=cache)
    assert sum(map(sum, anatomy.kept(positions).values())) == kept
    assert anatomy.multiply_adds(positions) == counter.get_total_flops() / 2


def test_what_a_file_lacks_is_what_the_classes_of_transformers_take():
    assert json.loads(PLACE.read_text(encoding="utf-8")) == json.loads(json.dumps(classes()))


def test_every_key_of_these_classes_has_a_sentence_or_is_known_to_have_no_effect():
    for family in FAMILIES:
        given = {**small(family, meta=True).config.to_dict(), **dict.fromkeys(known_keys(family), 1)}
        assert keys_of(given)["unknown"] == [], family


@pytest.mark.parametrize(
    ("file", "family", "beside"),
    [
        ({"model_type": "llava", "text_config": {"vocab_size": 32064}}, "llama", ()),
        ({"model_type": "qwen2_5_vl", "hidden_size": 2048}, "qwen2_5_vl_text", ()),
        ({"model_type": "kimi_k25", "text_config": {"model_type": "kimi_k2"}}, "deepseek_v3", ()),
        (
            {
                "model_type": "qwen3_omni_moe",
                "thinker_config": {"text_config": {"model_type": "qwen3_omni_moe_text"}, "audio_config": {}},
                "talker_config": {},
            },
            "qwen3_omni_moe_text",
            ("talker_config", "audio_config"),
        ),
    ],
)
def test_the_part_that_reads_text_is_found_also_if_it_does_not_say_its_family(file, family, beside):
    assert (read(file).family, read(file).beside) == (family, beside)


def test_a_token_of_deepseek_v3_adds_70272_bytes_in_bfloat16():
    anatomy = read({"model_type": "deepseek_v3"})
    assert 2 * (anatomy.kept(1001)["full_attention"][0] - anatomy.kept(1000)["full_attention"][0]) == 70_272
    assert (
        sum(anatomy.weights().values()) + sum(anatomy.weights(groups=("buffers",)).values())
        == 671_026_419_200
    )


def test_the_file_of_deepseek_v3_has_14_billion_numbers_more_which_the_library_drops():
    # README of the file: 11.5B of its own, and copies of embedding and head of 0.9B each
    anatomy = read({"model_type": "deepseek_v3", "num_nextn_predict_layers": 1})
    dropped = sum(anatomy.weights(groups=("dropped",)).values())
    latent = 1536 * (7168 + 128 * 192) + 7168 * 576 + 512 * 128 * 256 + 128 * 128 * 7168 + 1536 + 512
    experts = 257 * 3 * 7168 * 2048 + 256 * 7168 + 256
    assert dropped == latent + experts + 2 * 7168 + 2 * 7168**2 + 3 * 7168 + 2 * 129_280 * 7168
    assert read({"model_type": "deepseek_v3"}).weights(groups=("dropped",)).total() == 0
    unknown = read({"model_type": "mimo_v2_flash"})  # its file has such layers, and does not say how many
    assert unknown.weights(groups=("dropped",)) is None


def test_bert_and_t5_are_counted_as_our_own_code_counts_them():
    base = {"d_ff": 2048, "d_model": 768, "num_heads": 12, "num_layers": 12, "tie_word_embeddings": False}
    files = {
        "bert-base": {"model_type": "bert", "architectures": ["BertModel"]},
        "t5-small": {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"]},
        "t5-v1.1-base": {"model_type": "t5", "feed_forward_proj": "gated-gelu", **base},
    }
    for name, file in files.items():
        assert read(file).weights().total() == published(name).n_parameters, name
    assert read(files["bert-base"]).kept(100) == {"encoder": (0, 0)}
    assert read(files["bert-base"]).multiply_adds(100) is None  # it writes no text


def test_what_is_not_known_is_not_counted():
    pooled = read({"model_type": "glm5_next_text"})  # what its indexer keeps depends on the program
    assert pooled.kept(1000)["indexed_attention"] is None
    assert pooled.multiply_adds(1000) is None
    identity = read({"model_type": "longcat_flash"})  # some of the experts that are chosen cost nothing
    assert identity.weights(active=True) is None
    assert identity.multiply_adds(1000) is None
    assert identity.kept(1000)
    assert identity.weights().total() == 560_664_958_976
    tables_of_pairs = read(
        settings_of("qwen4_exp_text") | {"model_type": "qwen4_exp_text", "ple_layer_ids": [1]}
    )
    assert tables_of_pairs.weights() is None


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


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("laguna", {"gating": True}),
        ("laguna", {"gating": "per-head"}),
        ("laguna", {"gating": "per-element"}),
        ("mamba", {"time_step_rank": "auto"}),
        ("jamba", {"mamba_dt_rank": "auto"}),
        ("t5", {"feed_forward_proj": "gated-gelu"}),
        ("mt5", {"feed_forward_proj": "relu"}),
    ],
)
def test_a_key_whose_value_is_a_word_is_read_as_transformers_reads_it(family, changes):
    model = small(family, meta=True, **changes)
    given = settings_of(family) | changes
    assert counted(given, family) == n_weights(model)
