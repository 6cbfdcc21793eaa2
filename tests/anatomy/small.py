"""Small models of every family of transformers that `anatomy` reads."""

from importlib import import_module
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

SIZES: dict[str, Any] = {
    "vocab_size": 97, "hidden_size": 64, "n_embd": 64, "num_hidden_layers": 6, "n_layer": 6, "num_layers": 6,
    "num_attention_heads": 4, "n_head": 4, "num_key_value_heads": 2, "num_kv_heads": 2, "head_dim": 16,
    "intermediate_size": 48, "ffn_dim": 48, "ffn_hidden_size": 48, "word_embed_proj_dim": 64,
    "dense_intermediate_size": 56, "intermediate_size_mlp": 56, "moe_intermediate_size": 24,
    "shared_expert_intermediate_size": 40, "shared_intermediate_size": 40, "moe_shared_expert_intermediate_size": 40,
    "num_experts": 8, "n_routed_experts": 8, "num_local_experts": 8, "moe_num_experts": 8, "num_experts_per_tok": 3,
    "num_experts_per_token": 3, "moe_topk": 3, "moe_k": 3, "n_group": 1, "topk_group": 1, "num_expert_group": 1,
    "kv_lora_rank": 20, "q_lora_rank": 28, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 12,
    "index_n_heads": 16, "index_head_dim": 8, "o_lora_rank": 16, "o_groups": 2,
    "sliding_window": 8, "attention_chunk_size": 8, "max_position_embeddings": 256, "n_positions": 256,
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 12,
    "linear_head_dim": 16, "linear_num_heads": 4, "mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 16,
    "mamba_n_groups": 2, "mamba_num_heads": 8, "mamba_head_dim": 16, "mamba_d_ssm": 128, "mamba_dt_rank": 4,
    "dim": 64, "n_heads": 4, "n_layers": 6, "hidden_dim": 48, "d_kv": 16, "d_ff": 48, "d_model": 64,
    "num_decoder_layers": 4, "ssm_state_size": 16, "n_groups": 2, "num_heads": 8, "state_size": 16, "time_step_rank": 4,
    "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 97, "global_head_dim": 32,
    "pad_token_id": None, "bos_token_id": None, "eos_token_id": None,
}  # fmt: skip
"""What the keys of files are in these models, as far as a family has them."""

CONV = {"layer_types": ["conv", "full_attention"] * 3}
OWN: dict[str, dict[str, Any]] = {
    "bert": {"architectures": ["BertForMaskedLM"]},
    "roberta": {"architectures": ["RobertaForMaskedLM"]},
    "xlm-roberta": {"architectures": ["XLMRobertaForMaskedLM"]},
    "distilbert": {"architectures": ["DistilBertForMaskedLM"]},
    "modernbert": {
        "architectures": ["ModernBertForMaskedLM"],
        "pad_token_id": 0,
        "bos_token_id": 0,
        "eos_token_id": 0,
    },
    "modernbert-decoder": {"pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 0, "local_attention": 16},
    "step3p5": {
        "layer_types": ["full_attention", "sliding_attention"] * 3,
        "num_sliding_attention_heads": 8,
        "pad_token_id": 0,
    },
    "gpt_neo": {"attention_types": [[["global", "local"], 3]], "window_size": 8},
    "nemotron": {"head_dim": 16, "num_key_value_heads": 2},
    "hunyuan_vl_text": {"head_dim": 16},
    "muse_spark_text": {"moe_hidden_size": 32},
    "gemma3n_text": {
        "layer_types": ["sliding_attention", "full_attention"] * 3,
        "intermediate_size": [48, 48, 48, 48, 80, 80],
        "activation_sparsity_pattern": [0.0] * 6,
        "num_kv_shared_layers": 2,
    },
    "mistral_large4_text": {
        "num_key_value_heads": 4,
        "kv_source_layers": [0, 1, 1, 3, 3, 5],
        "mlp_layer_types": ["dense", "sparse"] * 3,
        "indexer_types": ["full", "full", "shared"] * 2,
    },
    "glm5_next_text": {
        "num_key_value_heads": 4,
        "qk_rope_head_dim": 0,
        "layer_types": ["linear_attention", "indexed_attention"] * 3,
        "mlp_layer_types": ["dense", "sparse"] * 3,
        "indexer_types": ["full", "full", "full", "shared", "full", "shared"],
    },
    "dots3_note_text": {
        "num_key_value_heads": 4,
        "layer_types": ["sliding_attention", "indexed_attention"] * 3,
        "mlp_layer_types": ["dense", "sparse"] * 3,
    },
    "qwen4_exp_text": {
        "layer_types": ["linear_attention", "indexed_attention"] * 3,
        "indexer_n_heads": 4,
        "indexer_kv_heads": 1,
        "indexer_head_dim": 16,
        "indexer_budget": 16,
        "indexer_compress_ratio": 4,
        "hc_lowrank": 8,
    },
    "longcat_flash": {"zero_expert_num": 0, "expert_ffn_hidden_size": 24},
    "dbrx": {
        "attn_config": {"kv_n_heads": 2, "rope_theta": 1e4},
        "ffn_config": {"moe_num_experts": 8, "moe_top_k": 3, "ffn_hidden_size": 24, "hidden_size": 64},
    },
    "t5": {"architectures": ["T5ForConditionalGeneration"]},
    "mt5": {"architectures": ["MT5ForConditionalGeneration"]},
    "umt5": {"architectures": ["UMT5ForConditionalGeneration"]},
    "lfm2": CONV,
    "lfm2_moe": CONV,
    "bamba": {"attn_layer_indices": [1, 3]},
    "granitemoehybrid": {"layer_types": ["linear_attention", "full_attention"] * 3},
    "laguna": {"layer_types": ["full_attention", "sliding_attention"] * 3},
    "dots1": {
        "n_routed_experts": 8,
        "n_shared_experts": 1,
        "num_experts_per_tok": 3,
        "first_k_dense_replace": 1,
    },
    "deepseek_v2": {"num_experts_per_tok": 3},
    "deepseek_v32": {"index_topk": 4},
    "glm_moe_dsa": {"index_topk": 4},
    "kimi_linear": {"q_lora_rank": None},
    "phi3": {"sliding_window": 8},
    "starcoder2": {"sliding_window": 8},
    "ministral": {"sliding_window": 8},
    "mamba2": {"head_dim": 16},
    "cwm": {"bos_token_id": 1, "eos_token_id": 2},
    "deepseek_v4": {
        "layer_types": ["sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"]
        * 2,
        "compress_rates": {"compressed_sparse_attention": 4, "heavily_compressed_attention": 8},
        "num_key_value_heads": 1,
        "index_topk": 4,
    },
}
NEEDED = {
    "ministral": {"head_dim": 16},
    "hunyuan_v1_dense": {"head_dim": 16},
    "hunyuan_v1_moe": {"head_dim": 16},
    "lfm2_moe": {"layer_types": ["conv"] * 32},
}
"""What the classes of these families need and have no default for."""

DERIVED = {
    *("layer_types", "mlp_layer_types", "rope_parameters", "layers_block_type"),
    *("attention_layers", "per_layer_config", "indexer_types", "no_rope_layers"),
}
"""Keys that the classes save, and that older files say in other words."""

WINDOWED = [{"use_sliding_window": True, "max_window_layers": 3, "sliding_window": 8}]
DENSE, INTERVAL = [{"first_k_dense_replace": 2}], [{"full_attention_interval": 3}]
PATTERN = [{"sliding_window_pattern": 3}]
OLD: dict[str, list[dict[str, Any]]] = {
    **dict.fromkeys(["qwen2", "qwen3", "qwen2_moe", "qwen3_moe", "qwen2_5_vl_text"], WINDOWED),
    **dict.fromkeys(
        ["deepseek_v2", "deepseek_v3", "deepseek_v32", "glm4_moe", "glm4_moe_lite", "dots1"], DENSE
    ),
    **dict.fromkeys(["glm4v_moe_text", "hy_v3", "hy_v4", "solar_open"], DENSE),
    **dict.fromkeys(["qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"], INTERVAL),
    **dict.fromkeys(["gemma2", "gemma3_text", "cohere2", "exaone4"], PATTERN),
    "cohere2_moe": [{"sliding_window_pattern": 3}, DENSE[0] | {"prefix_dense_sliding_window_pattern": 1}],
    "exaone_moe": [{"sliding_window_pattern": 3}, *DENSE],
    "llama4_text": [
        {"interleave_moe_layer_step": 2},
        {"moe_layers": [1, 3]},
        {"no_rope_layers": [1, 1, 0] * 2},
        {"no_rope_layer_interval": 3},
    ],
    "smollm3": [WINDOWED[0] | {"no_rope_layer_interval": 3}, WINDOWED[0] | {"no_rope_layers": [1, 1, 0] * 2}],
    "jamba": [
        {"attn_layer_period": 3, "attn_layer_offset": 1, "expert_layer_period": 2, "expert_layer_offset": 1}
    ],
    "nemotron_h": [
        {"hybrid_override_pattern": "M-M*E-"},
        {"layers_block_type": ["mamba", "moe", "attention", "mlp", "mamba", "mlp"]},
    ],
    "granitemoehybrid": [
        {"layer_types": ["mamba", "attention"] * 3},
        {"layer_types": None, "layers_block_type": ["mamba"] * 6},
    ],
    "glm_moe_dsa": [*DENSE, {"index_topk_freq": 2}, {"index_topk_pattern": "FSFSFS"}],
    "mistral_large4_text": [
        {"index_topk_freq": 2},
        {"index_topk_pattern": "FSFSFS"},
        {"no_rope_layer_interval": 2},
    ],
    "axk1": [*DENSE, {"moe_layer_freq": 2}],
    "kimi_linear": [
        {
            "linear_attn_config": {
                "full_attn_layers": [4, 6],
                "kda_layers": [1, 2, 3, 5],
                "num_heads": 2,
                "head_dim": 8,
            },
            "linear_num_heads": 2,
            "linear_head_dim": 8,
        },
        *DENSE,
    ],
    "bailing_hybrid": [{"layer_group_size": 3}, *DENSE],
    "deepseek_v4": [{"compress_ratios": [0, 4, 128, 4, 128, 0]}, {"num_hash_layers": 2}],
    "minimax_m3_vl_text": [
        {"sparse_attention_config": {"sparse_attention_freq": [0, 1, 1] * 2, "sparse_num_index_heads": 2}},
        {"moe_layer_freq": [0, 1, 1, 1, 1, 1]},
    ],
    "ernie4_5_moe": [{"moe_layer_start_index": 2, "moe_layer_interval": 2}, {"moe_layer_end_index": 4}],
    "lfm2": [{"full_attn_idxs": [1, 3]}],
    "afmoe": [{"global_attn_every_n_layers": 3}, {"num_dense_layers": 2}],
    "mimo_v2_flash": [{"moe_layer_freq": [0, 1, 1, 1, 0, 1]}],
    "gemma3n_text": [{"intermediate_size": 48}],
    "gemma4_text": [{"global_head_dim": 32, "num_global_key_value_heads": 1, "attention_k_eq_v": True}],
    "modernbert-decoder": [{"global_attn_every_n_layers": 2}],
    "recurrent_gemma": [{"block_types": ["attention", "recurrent"]}],
    "step3p5": [{"attention_other_setting": {"num_attention_heads": 8}}, {"moe_layers_enum": [1, 2]}],
    "dots3_note_text": [*DENSE, {"moe_layer_freq": 2}, {"use_sliding_window": False}, {"use_dsa": False}],
    "glm5_next_text": [{"index_topk_freq": 2}, {"linear_attn_config": {"head_dim": 8, "num_heads": 2}}],
}
"""What older files of these families say, which the classes save in other words."""


def settings_of(kind: str) -> dict[str, Any]:
    """Returns the keys of a small file of this family."""
    kind_of = CONFIG_MAPPING[kind]
    usual, other = kind_of(**NEEDED.get(kind, {})).to_dict(), dict(kind_of.attribute_map)
    there = NEEDED.get(kind, {}) | {key: value for key, value in SIZES.items() if usual.get(key) is not None}
    if "latent" not in kind and usual.get("kv_lora_rank") is not None:
        there.pop("head_dim", None)  # that of the rotated part, which the class sets
        there["num_key_value_heads"] = there["num_attention_heads"]  # each head has its own
    return {key: value for key, value in there.items() if other.get(key) not in there} | OWN.get(kind, {})


def small(kind: str, *, meta: bool = False, **changed: Any) -> Any:
    """Returns a small model of this family, on the meta device without numbers."""
    config = CONFIG_MAPPING[kind](**settings_of(kind) | changed)
    config._attn_implementation = config._experts_implementation = "eager"
    torch.manual_seed(0)
    with torch.device("meta" if meta else "cpu"):
        if config.architectures:
            return getattr(transformers, config.architectures[0])(config).eval()
        if type(config) in MODEL_FOR_CAUSAL_LM_MAPPING:
            return AutoModelForCausalLM.from_config(config).eval()
        model = _reader(type(config))(config).eval()
        if not getattr(config, "tie_word_embeddings", False):
            model.head = torch.nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        return model


def _reader(config: type) -> Any:
    """Returns the class that reads text in a model of several parts, by that of its config."""
    module = import_module(config.__module__.replace("configuration_", "modeling_"))
    return next(
        kind
        for name, kind in vars(module).items()
        if getattr(kind, "config_class", None) is config
        and name.endswith("Model")
        and "PreTrained" not in name
    )


def n_weights(model: torch.nn.Module) -> int:
    """Returns the number of a model's weights, each counted once."""
    return sum({id(weight): weight.numel() for weight in model.parameters()}.values())
