"""Tests what is particular to DeepSeek's and GLM's families: each part matters, and what is refused or passed over."""

import json
from dataclasses import replace
from importlib import import_module

import pytest
import torch
from safetensors.numpy import load_file, save_file

from glassformer.anatomy import shelf
from glassformer.huggingface import config_from_hf, config_to_hf, load
from glassformer.published import published

from .models import YARN_WITH_FACTORS, all_in_double, ask_ours, ask_theirs, batch, make, numpy, rope

V3, V32, GLM5, GLM45 = "deepseek_v3-yarn", "deepseek_v32-yarn", "glm_moe_dsa", "glm4_moe"
V4 = "deepseek_v4"
IN_V32, IN_GLM5 = (
    import_module(f"transformers.models.{kind}.modeling_{kind}") for kind in ("deepseek_v32", "glm_moe_dsa")
)
UNSTRETCHED = {"rope_type": "default", "rope_theta": 200.0}
NOTHING = torch.nn.Identity()


def without(key):
    return {"rope_parameters": {name: value for name, value in YARN_WITH_FACTORS.items() if name != key}}


def without_buffer(model, part):
    for name, buffer in (*model.named_buffers(), *model.named_parameters()):
        if part in name:
            buffer.zero_()


NEUTRAL = {
    "the square of a factor on scores": (V3, without("mscale_all_dim")),
    "the factor on rotated numbers": (V3, without("mscale")),
    "YaRN": (V3, {"rope_parameters": UNSTRETCHED}),
    "pairs": (V3, {"rope_interleave": False}),
    "halves": ("deepseek_v3", {"rope_interleave": True}),
    "the choice": (V32, {"index_topk": 33}),
    "borrowing": (GLM5, {"indexer_types": ["full"] * 4}),
    "a part of each head": (GLM45, rope(50.0, partial_rotary_factor=1.0)),
    "norms of queries and keys": (GLM45, {"use_qk_norm": False}),
    "biases": (GLM45, {"attention_bias": False}),
    "the queries' norm": (V3, lambda attention: setattr(attention, "q_a_layernorm", NOTHING)),
    "the latent's norm": (V3, lambda attention: setattr(attention, "kv_a_layernorm", NOTHING)),
    "the eps of this norm": (V3, lambda attention: setattr(attention.kv_a_layernorm, "variance_epsilon", 0.1)),
    "the indexer's norm": (V32, lambda attention: setattr(attention.indexer, "k_norm", NOTHING)),
    "the indexer's pairs": (GLM5, {}),
    "experts' groups": (V3, {"n_group": 1, "topk_group": 1}),
    "experts' weights by their sum": (V3, {"norm_topk_prob": False}),
    "the scale of experts": (V3, {"routed_scaling_factor": 1.0}),
    "groups of a softmax": ("deepseek_v2", {"topk_method": "greedy"}),
    "windows": ("dots1", {"sliding_window": 33}),
    "the number of Sinkhorn's iterations": (V4, {"hc_sinkhorn_iters": 1}),
    "what is added to the weights of streams": (V4, {"hc_eps": 1e-6}),
    "the limit of gates": (V4, {"swiglu_limit": 10.0}),
    "the scale of V4's experts": (V4, {"routed_scaling_factor": 1.0}),
    "a table of experts": (V4, "tid2eid"),
    **{
        f"the bias of {case}": (case, "correction_bias")
        for case in (V3, V4, GLM45, "minimax_m2", "hy_v3", "ernie4_5_moe", "laguna")
    },
}  # fmt: skip
"""What makes each part of the library's models do nothing: other settings, or a change of each attention."""


@pytest.mark.parametrize("part", NEUTRAL)
@torch.no_grad()
def test_each_part_matters_in_the_library(part, monkeypatch):
    case, change = NEUTRAL[part]
    with all_in_double():
        whole = make(case, torch.float64)
        other = make(case, torch.float64, **(change if isinstance(change, dict) else {}))
        other.load_state_dict(whole.state_dict(), strict=False)
        for layer in other.model.layers if callable(change) else ():
            change(layer.self_attn)
        if isinstance(change, str):
            without_buffer(other, change)
        given = batch(case, False)
        expected = numpy(ask_theirs(case, whole, given)[0])
        if part == "the indexer's pairs":
            names = "apply_rotary_pos_emb", "apply_rotary_pos_emb_interleave"
            halves, pairs = (
                getattr(module, name) for module, name in zip((IN_V32, IN_GLM5), names, strict=True)
            )
            # Only the indexer says how: unsqueeze_dim=2
            monkeypatch.setattr(IN_GLM5, names[1], lambda *x, **how: (halves if how else pairs)(*x, **how))
        moved = numpy(ask_theirs(case, other, given)[0])
    assert abs(moved - expected).max() > 1e-3 * abs(expected).max()


@torch.no_grad()
def test_a_ramp_without_width_as_in_kimi_k2(tmp_path):
    alike = YARN_WITH_FACTORS | {"beta_fast": 1.0, "beta_slow": 1.0}
    with all_in_double():
        theirs = make(V3, torch.float64, rope_parameters=alike)
        theirs.save_pretrained(tmp_path)
        given = batch(V3, False)
        expected = numpy(ask_theirs(V3, theirs, given)[0])
    ours = load(tmp_path, room="nn", dtype="float64")
    assert abs(numpy(ask_ours("nn", ours, given)[0]) - expected).max() < 1e-13
    assert config_from_hf(config_to_hf(ours.config)) == ours.config


def test_layers_for_drafts_are_passed_over_and_no_others(tmp_path):
    make(GLM5).save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    weights = load_file(path)
    config = load(tmp_path).config
    more = {name.replace("layers.3.", "layers.4."): w for name, w in weights.items() if "layers.3." in name}
    save_file(weights | more, path)
    with pytest.raises(ValueError, match=r"model\.layers\.4\.\S+ is not a weight of this model"):
        load(tmp_path)
    more["model.layers.4.eh_proj.weight"] = weights["model.norm.weight"]
    save_file(weights | more, path)
    assert load(tmp_path).config == config
    save_file(weights | {"model.layers.3.eh_proj.weight": weights["model.norm.weight"]}, path)
    with pytest.raises(ValueError, match=r"layers\.3\.eh_proj\.weight is not a weight of this model"):
        load(tmp_path)
    path = tmp_path / "config.json"
    many = dict.fromkeys(("num_hidden_layers", "first_k_dense_replace"), 10**4)
    gone = ("mlp_layer_types", "indexer_types", "layer_types")
    given = {key: value for key, value in json.loads(path.read_text()).items() if key not in gone}
    path.write_text(json.dumps(given | many))
    with pytest.raises(
        ValueError, match=r"=10000, but model\.layers\.9999\.self_attn\.o_proj\.weight is missing"
    ):
        load(tmp_path)


def test_files_of_the_hub_have_other_names_and_a_table_has_whole_numbers(tmp_path):
    make(V4).save_pretrained(tmp_path)
    path, usual = tmp_path / "model.safetensors", load(tmp_path).state_dict()
    weights = {name.removeprefix("model."): w for name, w in load_file(path).items()}
    others = (("embed_tokens.", "embed."), ("hc_head.hc_", "hc_head_"))
    for theirs, published_as in others:
        weights = {name.replace(theirs, published_as): w for name, w in weights.items()}
    assert {"embed.weight", "head.weight", "hc_head_fn", "layers.0.attn.attn_sink"} < weights.keys()
    draft = {"mtp.0.e_proj.weight": weights["norm.weight"]}  # of a layer for drafts
    save_file(weights | draft, path)
    found = load(tmp_path).state_dict()
    assert found.keys() == usual.keys()
    assert all((found[name] == values).all() for name, values in usual.items())
    table, gate = "layers.0.ffn.gate.tid2eid", "layers.0.ffn.gate.weight"
    for name, dtype, wanted in (
        (table, "float32", "whole numbers"),
        (gate, "int64", "numbers with a fraction"),
    ):
        save_file(weights | {name: weights[name].astype(dtype)}, path)
        with pytest.raises(ValueError, match=f"{name} has numbers of type {dtype}, but must have {wanted}"):
            load(tmp_path)
    save_file(weights | {table: weights[table].astype("int32")}, path)
    assert load(tmp_path).config == config_from_hf(json.loads((tmp_path / "config.json").read_text()))


SHELF = {one["name"]: one["config"] for one in shelf()}
K2 = SHELF["DeepSeek-V3"] | {
    "model_type": "kimi_k2", "vocab_size": 163840, "num_attention_heads": 64, "num_key_value_heads": 64,
    "n_routed_experts": 384, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1, "rope_theta": 50000.0,
    "routed_scaling_factor": 2.827, "max_position_embeddings": 131072, "num_nextn_predict_layers": 0,
    "rope_scaling": {
        "beta_fast": 1.0, "beta_slow": 1.0, "factor": 32.0, "mscale": 1.0, "mscale_all_dim": 1.0,
        "original_max_position_embeddings": 4096, "type": "yarn",
    },
}  # fmt: skip
FILES = {
    "deepseek-v3": (SHELF["DeepSeek-V3"], {}),
    "kimi-k2": (K2, {}),
    "minimax-m2": (SHELF["MiniMax-M2.7"], {"context_length": 204_800}),
}
"""Published files, and what differs in them from models of `published`."""


@pytest.mark.parametrize("name", FILES)
def test_published_files_describe_the_models_whose_sizes_are_published(name):
    given, differs = FILES[name]
    wanted = published(name).config.replace(**differs)
    found = config_from_hf(given, ignore=["quantization_config", "auto_map"])
    assert [found.layer(i) for i in range(found.n_layers)] == [wanted.layer(i) for i in range(found.n_layers)]
    assert found.parameter_count().total == wanted.parameter_count().total


@pytest.mark.parametrize("name", ["DeepSeek-V3.2", "DeepSeek-V4-Pro", "GLM-5.2", "Kimi Linear 48B-A3B"])
def test_published_files_need_no_key_to_be_ignored_besides_how_numbers_are_stored(name):
    config = config_from_hf(SHELF[name], ignore=["quantization_config", "auto_map"])
    n_experts = 384 if name == "DeepSeek-V4-Pro" else 256
    assert config.layer(config.n_layers - 1).feedforward.experts.n_experts == n_experts
    assert config_from_hf(config_to_hf(config)) == config


def file(case, **changes):
    given = json.loads(make(case).config.to_json_string(use_diff=False))
    return {key: value for key, value in (given | changes).items() if value != "absent"}


REFUSED = [
    (V3, {"scoring_func": "softmax"}, "scoring_func='softmax' is not supported"),
    (V3, {"topk_method": "greedy"}, "topk_method='greedy' is not supported"),
    (V3, {"moe_layer_freq": 2}, "moe_layer_freq=2 is not supported"),
    (V3, {"first_k_dense_replace": -1}, "first_k_dense_replace=-1 must be at least 0"),
    (V3, {"n_group": 3}, "n_routed_experts=8 is not divisible by n_group=3"),
    (V3, {"topk_group": 5}, "topk_group=5 must be at most n_group"),
    (V3, {"num_experts_per_tok": 9}, "num_experts_per_tok=9 must be at most"),
    (V3, {"n_shared_experts": None}, "n_shared_experts is missing"),
    (V32, {"mlp_layer_types": ["dense"] * 3}, "num_hidden_layers=4 contradicts the length of mlp_layer_types=3"),
    (V32, {"mlp_layer_types": ["moe"] * 4}, "mlp_layer_types=.* known are dense, sparse"),
    ("deepseek_v2", {"topk_method": "noaux_tc"}, "topk_method='noaux_tc' is not supported: known are greedy, group"),
    ("deepseek_v2", {"norm_topk_prob": True}, "norm_topk_prob=True is not supported"),
    ("minimax_m2", {"rotary_dim": 2, "partial_rotary_factor": 0.5}, "rotary_dim=2 contradicts partial_rotary_factor"),
    ("minimax_m2", {"shared_intermediate_size": 9}, "shared_intermediate_size=9 is not supported"),
    ("ernie4_5_moe", {"use_bias": True}, "use_bias=True is not supported"),
    ("ernie4_5_moe", {"moe_norm_min": 0.1}, "moe_norm_min=0.1 is not supported"),
    (V4, {"scoring_func": "sigmoid"}, "scoring_func='sigmoid' is not supported"),
    (V4, {"n_shared_experts": 2}, "n_shared_experts=2 is not supported"),
    (V4, {"hc_sinkhorn_iters": 0}, "hc_sinkhorn_iters=0 must be at least 1"),
    (V4, {"hc_mult": None}, "hc_mult is missing"),
    (V4, {"mlp_layer_types": ["dense"] * 5}, "mlp_layer_types=.* known are hash_moe, moe"),
    (V4, {"mlp_layer_types": None, "num_hash_layers": -1}, "num_hash_layers=-1 must be at least 0"),
    ("laguna", {"moe_router_logit_softcapping": 2.0}, "moe_router_logit_softcapping=2.0 is not supported"),
    (V3, {"num_key_value_heads": 2}, "num_attention_heads=4 contradicts num_key_value_heads=2"),
    (V3, {"attention_bias": True}, "attention_bias=True is not supported"),
    (V3, {"q_lora_rank": "absent"}, "q_lora_rank is missing"),
    (V3, {"quantization_config": {"quant_method": "gptq"}}, "quant_method='gptq' is not supported"),
    (V32, {"index_topk": 0}, "index_topk=0 must be at least 1"),
    (V32, {"index_head_dim": 6}, "index_head_dim=6 contradicts qk_rope_head_dim=8"),
    (V32, {"indexer_rope_interleave": True}, "indexer_rope_interleave=True is not supported"),
    (GLM5, {"indexer_types": ["shared"] * 4}, "indexer_types=.* no layer is before the first one"),
    (GLM5, {"indexer_types": None, "index_topk_pattern": "FSF"}, "length of index_topk_pattern=3"),
]  # fmt: skip


@pytest.mark.parametrize(("case", "changes", "why"), REFUSED)
def test_what_is_refused(case, changes, why):
    with pytest.raises(ValueError, match=why):
        config_from_hf(file(case, **changes))


OLDER = [
    ({"index_topk_pattern": "FSSF"}, "fssf"),
    ({"index_topk_pattern": ["full", "shared", "full", "full"]}, "fsff"),
    ({"index_topk_freq": 2}, "ffsf"),
    ({"index_topk_freq": 3, "index_skip_topk_offset": 1}, "fssf"),
    ({}, "ffff"),
]


@pytest.mark.parametrize(("older", "kinds"), OLDER)
def test_older_files_say_otherwise_which_layers_share(older, kinds):
    config = config_from_hf(file(GLM5, indexer_types=None, **older))
    forms = [config.layer(i).attention.form for i in range(4)]
    assert "".join("s" if form.borrows_choice else "f" for form in forms) == kinds
    assert [form.indexer is None for form in forms] == [kind == "s" for kind in kinds]
    assert config_from_hf(config_to_hf(config)) == config


def test_what_no_file_of_these_families_can_say_is_refused_by_name():
    config = config_from_hf(file(V3))
    other = {
        name: {**kind, "form": replace(kind["form"], latent_eps=0.5)} for name, kind in config.kinds.items()
    }
    with pytest.raises(ValueError, match=r"^deepseek_v3 of transformers has no form=.*'latent_eps': 0\.5"):
        config_to_hf(config.replace(kinds=other))
    config = config.replace(rope_interpolation=1.0)  # there is nothing that would be stretched
    with pytest.raises(ValueError, match=r"^deepseek_v3 of transformers has no attention_scale="):
        config_to_hf(config.replace(attention_scale=0.5))
