"""Tests the map of the house: its lines are code, its names are ours, and the models that it names have the parts."""

import ast
import re
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest

from glassformer import anatomy, contents, layers
from glassformer.anatomy.formulas import evaluate, parse
from glassformer.config import CHOICES, FEEDFORWARDS, NORMS, POSITIONS, ROPE_SCALINGS, ModelConfig
from glassformer.layers import QK_NORMS

BOOK = Path(__file__).parents[3] / "book"
TEXT = (BOOK / "map.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|\n").split(" | ")]
    for line in TEXT.splitlines()
    if line.startswith("| ") and "<br>" in line
]
PARTS = [re.sub(r"\[(.*?)\]\(.*?\)", r"\1", part.partition("<br>")[0]) for part, *_ in ROWS]
LONGEST = 48  # characters of a line, so that the table fits on a page
SHELF = {one["name"]: one["config"] for one in anatomy.shelf()}

ON_THE_SHELF = {
    **{"Gemma 2": "Gemma 2 2B", "Gemma 3": "Gemma 3 27B", "Gemma 4": "Gemma 4 31B", "Qwen3": "Qwen3 0.6B"},
    **{"Llama 3.1": "Llama 3.1 8B", "Llama 4": "Llama 4 Scout", "OLMo 3": "Olmo 3.1 32B", "GLM-5": "GLM-5.2"},
    **{"gpt-oss": "gpt-oss-120b", "Qwen3-Next": "Qwen3-Next 80B-A3B", "Qwen3.5": "Qwen3.5 27B"},
    **{"Kimi Linear": "Kimi Linear 48B-A3B", "Nemotron 3": "Nemotron 3 Nano 30B-A3B"},
    **{"DeepSeek-V4": "DeepSeek-V4-Pro", "MiniMax-M2": "MiniMax-M2.7", "Ministral 3": "Devstral Small 2 24B"},
    **{
        name: name for name in ("Llama 3.1 8B", "DeepSeek-V3", "DeepSeek-V3.2", "MiniMax-M2.7", "Gemma 4 31B")
    },
    "Qwen3 235B-A22B": "Qwen3 235B-A22B",
}
"""Names of the map, and the file that they stand for."""

BY_DEFAULT = {
    **{"nanochat": "nanochat", "Gemma 3n": "gemma3n_text", "SmolLM3": "smollm3", "Command A": "cohere2"},
    **{"Hunyuan": "hunyuan_v1_dense", "Apertus": "apertus", "Arcee AFM": "arcee", "EXAONE 4": "exaone4"},
    **{
        "GLM-4-0414": "glm4",
        "OLMo Hybrid": "olmo_hybrid",
        "OLMoE": "olmoe",
        "MiMo-V2-Flash": "mimo_v2_flash",
    },
    **{"GLM-4.5": "glm4_moe", "Kimi K2": "deepseek_v3", "Granite 4": "granitemoehybrid"},
    **{"Gemma 4 E2B": "gemma4_text", "Step 3.7 Flash": "step3p5"},
}
"""The others, and the family whose class has such values by default."""

OWN = {
    "GLM-4.5": {"use_qk_norm": False},
    "Granite 4": {
        "layer_types": ["mamba", "attention"],
        "num_hidden_layers": 2,
        "residual_multiplier": 0.22,
        "logits_scaling": 8,
    },
    "Gemma 4 E2B": {"num_kv_shared_layers": 20},
    "Kimi K2": {"first_k_dense_replace": 1},
    "Command A": {"num_hidden_layers": 4, "logit_scale": 0.0625},
    "nanochat": {"final_logit_softcapping": 15.0},
}
"""What their files have instead."""

HOLDS = {
    "embeddings of each layer": "'layer_embedding' in parts",
    "rotation": "rotates",
    "stretched frequencies": "stretching in ['yarn', 'llama3']",
    "partial rotation": "rotates_part",
    "proportional rotation": "stretching == 'proportional'",
    "layers without positions": "attends and not rotates",
    "scores that grow with the position": "rope_parameters.llama_4_scaling_beta or unrotated",
    "fewer heads of keys and values": "n_kv_heads < n_heads",
    "no biases": "not qkv_bias",
    "norm of queries and keys": "qk_norm == 'head'",
    "the same over all heads at once": "qk_norm == 'width'",
    "the same after the rotation": "query_norm_last",
    "a latent for keys and values": "'latent' in parts",
    "keys that are also values": "keys_are_values",
    "norm of values": "value_norm",
    "keys and values of an earlier layer": "shares_kv",
    "one array for keys and values": "'compressed' in parts",
    "short convolution": "'delta' in parts or 'channel_delta' in parts",
    "window": "window",
    "layers that differ": "window",
    "sink": "sinks or 'compressed' in parts",
    "soft cap on scores": "attn_logit_softcapping",
    "indexer": "'indexer' in parts",
    "compressed tokens": "compression",
    "delta rule with decay": "'delta' in parts",
    "a decay for each feature of a key": "'channel_delta' in parts",
    "Mamba-2": "'mamba2' in parts",
    "output gate": "gate",
    "norm and gate after a state": "'delta' in parts or 'channel_delta' in parts",
    "output in groups": "n_output_groups",
    "RMSNorm": "gain == 1 and not centred",
    "LayerNorm without a bias": "gain == 1 and centred",
    "no gain": "gain == 0",
    "norm after the sublayer": "placement == 'post'",
    "norms before and after": "placement == 'sandwich'",
    "both sublayers side by side": "placement == 'parallel'",
    "gate": "gated",
    "squared ReLU": "not gated and (mlp_hidden_act or hidden_act) in ['relu2', None]",
    "xIELU": "ff_vectors == 2",
    "a gate with limits": "swiglu_limit",
    "experts": "'experts' in parts",
    "weights divided by their sum": "norm_topk_prob",
    "a sigmoid for each score": "scoring_func in ['sigmoid', 'sqrtsoftplus', None]",
    "a bias that only chooses": "choice_bias",
    "groups of experts": "n_group > 1",
    "a table that chooses": "num_hash_layers",
    "shared expert": "d_shared",
    "dense layers at the beginning": "'dense' in parts",
    "a loss that balances": "router_aux_loss_coef",
    "a factor on what is added": "residual_multiplier != 1",
    "several streams": "'streams' in parts",
    "a head of its own": "not tied",
    "soft cap on logits": "final_logit_softcapping",
    "a factor on logits": "logit_scale or logits_scaling",
    "FP8 in blocks": "quantization_config.quant_method == 'fp8'",
    "MXFP4": "quantization_config.quant_method == 'mxfp4'",
}
"""What is true in one of a model's layers if the model has the part, by names of families.toml."""


@cache
def anatomies(name):
    """Returns what the files say that a name of the map stands for."""
    if name in ON_THE_SHELF:
        return anatomy.read(SHELF[ON_THE_SHELF[name]])
    return anatomy.read({"model_type": BY_DEFAULT[name]} | OWN.get(name, {}))


def named(text):
    """Yields the models that a text names, the longest names first, and whether they have the part."""
    for clause in re.split("; ", text):
        has = not re.search(r"\b(not|no longer|has biases)\b", clause)
        for name in sorted({**ON_THE_SHELF, **BY_DEFAULT}, key=len, reverse=True):
            if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-]|\.\d)", clause):
                clause = clause.replace(name, "")
                yield name, has


def test_each_row_has_a_part_two_lines_models_a_price_and_a_chapter():
    assert len(ROWS) >= 50
    assert {len(row) for row in ROWS} == {5}
    assert len(set(PARTS)) == len(PARTS)
    for _, lines, models, _, chapter in ROWS:
        for line in lines.split("<br>"):
            code = line.strip("`")
            assert ast.parse(code).body, code
            assert len(code) <= LONGEST, code
        assert [*named(models)], models
        linked = re.fullmatch(r"\[(\d\d)\]\(\.\./notebooks/(.+)\.ipynb\)", chapter)
        assert contents.chapter(linked[1]).name == linked[2]


def test_every_part_of_our_layers_is_on_the_map_and_every_name_is_ours():
    ours = [re.search("<br>(.+)", part)[1].strip("`") for part, *_ in ROWS]
    assert {*layers.PARTS} <= {name.partition("(")[0] for name in ours}
    known = {one.name for one in fields(ModelConfig)}
    choices = CHOICES | {"positions": POSITIONS, "norm": NORMS, "rope_scaling": ROPE_SCALINGS}
    choices |= {"feedforward": FEEDFORWARDS, "qk_norm": QK_NORMS}
    for name in ours:
        if name.startswith(("read by", "a matter of")):
            continue
        what, _, value = name.partition("=")
        what, _, field = what.rstrip(")").partition("(")
        if what in known:
            assert not value or value == "True" or value.strip('"') in choices[what], name
        else:
            part = getattr(layers, what)
            assert not field or field in {one.name for one in fields(part)}, name


def test_each_part_that_a_file_shows_is_in_the_models_that_the_map_names():
    assert HOLDS.keys() <= {*PARTS}
    wrong = []
    for part, (_, _, models, *_) in zip(PARTS, ROWS, strict=True):
        for name, has in named(models) if part in HOLDS else ():
            seen, formula = anatomies(name), parse(HOLDS[part])
            found = any(evaluate(formula, seen.scope(kind)) for kind in seen.kinds)
            wrong += [(part, name)] * (found != has)
    assert not wrong


@pytest.mark.parametrize("name", [*ON_THE_SHELF, *BY_DEFAULT])
def test_every_model_has_a_file_or_a_family(name):
    assert anatomies(name).kinds
