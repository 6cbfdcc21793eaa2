"""Tests that a file of which nothing is lacking is one that our code reads, and that all others are refused."""

from contextlib import suppress

import pytest
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from glassformer.anatomy import report, shelf, tables
from glassformer.huggingface import config_from_hf, config_to_hf, unknown_keys
from glassformer.published import PUBLISHED, published
from tests.huggingface.models import CASES, IDS, make

from .small import OLD, settings_of, small

FAMILIES = [family for family in tables()["families"] if family in CONFIG_MAPPING]


def refusal(given):
    """Returns why our code refuses a file without its unknown keys, or "" if it reads it."""
    try:
        config_from_hf(given, ignore=unknown_keys(given))
    except (TypeError, ValueError) as error:
        return str(error)
    return ""


def check(given):
    found = report(given, 21)
    assert (found.get("lacking") == []) == (refusal(given) == ""), (found.get("lacking"), refusal(given))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("family", FAMILIES)
def test_our_code_runs_a_file_of_a_family_exactly_if_it_lacks_nothing(family):
    own = settings_of(family)
    check({**small(family, meta=True).config.to_dict(), "model_type": family})
    for old in ({}, *OLD.get(family, [])):
        check({**own, **old, "model_type": family})
        with suppress(
            TypeError, ValueError
        ):  # the class derives such a list for its own number of layers only
            check({**CONFIG_MAPPING[family](**own | old).to_dict(), "model_type": family})


@pytest.mark.parametrize("case", CASES)
def test_our_code_runs_every_case_that_is_compared_with_transformers(case):
    file = {**IDS, **CASES[case].settings, "model_type": CASES[case].model_type}
    saved = {**make(case).config.to_dict(), "architectures": [CASES[case].architecture]}
    for given in (file, saved):
        assert (report(given, 21)["lacking"], refusal(given)) == ([], "")


@pytest.mark.parametrize("one", shelf(), ids=[one["name"] for one in shelf()])
def test_our_code_runs_a_file_of_the_shelf_exactly_if_it_lacks_nothing(one):
    check(one["config"])


@pytest.mark.parametrize(
    "settings",
    [
        {"quant_method": "fp8", "weight_block_size": [128, 128]},
        {"quant_method": "mxfp4"},
        {
            "quant_method": "compressed-tensors",
            "format": "float-quantized",
            "config_groups": {"group_0": {"weights": {"type": "float", "num_bits": 8}}},
        },
    ],
)
def test_nothing_is_lacking_of_weights_that_are_decoded(settings):
    given = written("llama-2-7b", quantization_config=settings)
    assert (report(given, 21)["lacking"], refusal(given)) == ([], "")


def test_nothing_is_lacking_of_what_we_publish_and_write():
    for model in PUBLISHED.values():
        with suppress(ValueError):  # no family of files has all its parts
            given = config_to_hf(model.config)
            assert (report(given, 21)["lacking"], refusal(given)) == ([], "")


def written(name, **changes):
    return config_to_hf(published(name).config) | changes


LACKS = (
    (
        IDS | CASES["deepseek_v3"].settings | {"model_type": "deepseek_v3", "attention_bias": True},
        "biases in latent attention",
    ),
    *(
        (IDS | CASES[case].settings | {"model_type": CASES[case].model_type, key: value}, what)
        for case, key, value, what in (
            ("mamba2", "use_bias", True, "biases of the matrices of Mamba-2"),
            ("mamba2", "hidden_act", "gelu", "Mamba-2 with another activation than SiLU"),
            ("mamba2", "time_step_limit", [0.0, 100.0], "limits on the steps of Mamba-2"),
            ("laguna", "moe_router_logit_softcapping", 2.0, "a soft cap on the scores of a router"),
            ("ernie4_5_moe", "use_bias", True, "biases in networks beside experts without any"),
            (
                *("deepseek_v2", "norm_topk_prob", True),
                "weights of DeepSeek-V2's experts that are divided by their sum",
            ),
            ("granite4", "mamba_proj_bias", True, "biases of the matrices of Mamba-2"),
            ("granite4", "time_step_limit", [0.1, float("inf")], "limits on the steps of Mamba-2"),
        )
    ),
    *(
        (
            written("llama-2-7b", **{key: settings}),
            "weights stored in fewer bits by another method than FP8 and MXFP4",
        )
        for key, settings in (
            ("quantization", {"bits": 4}),
            ("quantization_config", {"bits": 4}),
            ("quantization_config", {"quant_method": "gptq"}),
            ("quantization_config", {"quant_method": "compressed-tensors", "format": "pack-quantized"}),
        )
    ),
    (written("gpt2", add_cross_attention=True), "attention to the output of a separate encoder"),
    (
        written("gpt2", scale_attn_by_inverse_layer_idx=True),
        "scores that are also divided by the number of the layer",
    ),
    (written("bert-base", is_decoder=True), "an encoder whose positions see only what comes before them"),
    (
        written("bert-base", position_embedding_type="relative_key"),
        "learned vectors of the distances between tokens",
    ),
    (
        written("gemma-3-1b", use_bidirectional_attention=True),
        "a decoder whose positions also see what comes after them",
    ),
    *(
        (
            written(name, architectures=[kind]),
            "the head of this class, which does something else than predict tokens",
        )
        for name, kind in (
            ("llama-2-7b", "LlamaForSequenceClassification"),
            ("bert-base", "BertForTokenClassification"),
            ("t5-small", "T5EncoderModel"),
        )
    ),
)
"""Files that our tables of a family refuse, and what is said of it."""


@pytest.mark.parametrize(("given", "what"), LACKS)
def test_what_tables_of_a_family_refuse_is_lacking(given, what):
    assert [what] == [lacked for lacked, _ in report(given, 21)["lacking"]]
    assert refusal(given)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (written("gpt2", n_head=11), "n_embd=768 is not divisible by n_head=11"),
        (written("gpt2", hidden_size=700), "n_embd=768 contradicts hidden_size=700"),
        (written("t5-small", is_gated_act=True), "feed_forward_proj='relu' contradicts is_gated_act=True"),
        (written("llama-3-8b", head_dim=63), "head_dim=63 is odd"),
        (written("llama-3-8b", num_key_value_heads=5), "num_attention_heads=32 is not divisible"),
        (written("llama-3-8b", rms_norm_eps=-1), "rms_norm_eps=-1.0 must be positive"),
        (written("llama-3-8b", rope_theta=2.5), "rope_theta=2.5 contradicts"),
        (written("llama-3-8b", num_experts=8), "num_experts=8 is not supported"),
        (
            written("llama-3-8b", quantization_config={"quant_method": "fp8", "fmt": "e5m2"}),
            "quantization_config.fmt='e5m2' is not supported",
        ),
        (
            written("qwen2.5-7b", layer_types=["sliding_attention"] * 28),
            "contradicts use_sliding_window=False",
        ),
        ({"model_type": "gpt2", "vocab_size": 9}, "n_positions is missing"),
        ({"model_type": "llava", "text_config": written("llama-2-7b")}, "model_type='llava' is not one of"),
    ],
)
def test_only_our_code_refuses_values_that_contradict_each_other_or_are_out_of_range(given, why):
    """These differ, because no part is lacking: `python -m glassformer params` says why they are refused."""
    assert report(given, 21)["lacking"] == []
    assert why in refusal(given)
