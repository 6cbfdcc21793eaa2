"""Builds models of transformers from configs, with weights large enough that no difference is overlooked.

The models are small versions of published ones. Every choice that `huggingface` translates occurs in at least one.
"""

import sys
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import pytest
import torch
import transformers
from transformers import modeling_rope_utils

from glassformer.huggingface import config_from_hf, config_to_hf, unknown_keys

VOCABULARY, CONTEXT = 41, 160
IDS = {"vocab_size": VOCABULARY, "bos_token_id": None, "eos_token_id": None, "pad_token_id": None}

GPT2 = {"n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": CONTEXT} | {
    name: 0.0 for name in ("resid_pdrop", "embd_pdrop", "attn_pdrop")
}
BERT = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 40,
    "max_position_embeddings": CONTEXT,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
# Heads of 8 numbers, 4 of them: wider than d_model. Decoder and encoder differ in depth.
T5 = {"d_model": 24, "d_kv": 8, "d_ff": 40, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 4}
T5 |= {"dropout_rate": 0.0, "relative_attention_num_buckets": 12, "relative_attention_max_distance": 20}
T5_START = {"decoder_start_token_id": 0, "pad_token_id": 0}
LLAMA = {
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": CONTEXT,
}


DEEP = LLAMA | {"num_hidden_layers": 4}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 9, "rope_theta": 200.0}


def rope(base, **more):
    return {"rope_parameters": {"rope_type": "default", "rope_theta": base} | more}


def of_kinds(windowed, full):
    usual = {"rope_type": "default"}
    return {"rope_parameters": {"sliding_attention": usual | windowed, "full_attention": usual | full}}


# Heads of 10 + 8 numbers, of which 8 rotate: one of their pairs is stretched, one on the ramp. Texts have 33 positions,
# of which an indexer chooses 7. The latent norms keep their 1e-6, far from that of the others.
LATENT = DEEP | {
    "num_key_value_heads": 4,
    "kv_lora_rank": 9,
    "q_lora_rank": 11,
    "qk_nope_head_dim": 10,
    "qk_rope_head_dim": 8,
    "v_head_dim": 7,
    "rms_norm_eps": 0.1,
    "first_k_dense_replace": 4,
}
# As in DeepSeek-V3: a layer without experts comes first, and experts lie in groups
MIXED = {
    "n_routed_experts": 8,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 14,
    "n_shared_experts": 2,
    "routed_scaling_factor": 1.7,
    "first_k_dense_replace": 1,
}
GROUPED = MIXED | {"n_group": 4, "topk_group": 2}
INDEXED = LATENT | GROUPED | {"index_n_heads": 16, "index_head_dim": 12, "index_topk": 7}
MAMBA = {
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_heads": 6,
    "head_dim": 8,
    "state_size": 5,
    "n_groups": 3,
    "conv_kernel": 3,
    "chunk_size": 8,
    "layer_norm_epsilon": 0.1,
}
FACTORS = {
    "embedding_multiplier": 3.0,
    "residual_multiplier": 0.4,
    "attention_multiplier": 0.3,
    "logits_scaling": 0.5,
}
GRANITE_4 = DEEP | {
    "num_local_experts": 0,
    "shared_intermediate_size": 40,
    "intermediate_size": 7,
    "layer_types": ["mamba", "mamba", "attention", "mamba"],
    "mamba_n_heads": 6,
    "mamba_n_groups": 2,
    "mamba_d_state": 5,
    "mamba_chunk_size": 8,
    "rms_norm_eps": 0.1,
    **FACTORS,
}
# Two heads of keys and four of values, which are equally wide together: transformers saves the convolution of an OLMo
# hybrid in three equal pieces. The norm behind a state has the eps of the others, except in OLMo hybrid.
STATES = DEEP | {
    "layer_types": ["linear_attention", "linear_attention", "full_attention", "linear_attention"],
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 6,
    "linear_value_head_dim": 3,
    "linear_conv_kernel_dim": 3,
    "rms_norm_eps": 0.1,
}
KIMI = {
    key: value for key, value in (LATENT | GROUPED).items() if "first_k" not in key and "routed_ex" not in key
} | {
    "num_experts": 8,
    "layer_types": STATES["layer_types"],
    "mlp_layer_types": ["dense"] + ["sparse"] * 3,
    "linear_num_heads": 3,
    "linear_head_dim": 5,
    "linear_conv_kernel_dim": 3,
}
# Layers that choose experts by token come first, and a window is shorter than the texts, of which blocks of 4 and 6
# positions make a token
V4 = DEEP | {
    "num_hidden_layers": 5,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "partial_rotary_factor": 0.5,
    "q_lora_rank": 10,
    "o_groups": 2,
    "o_lora_rank": 3,
    "sliding_window": 5,
    "index_n_heads": 16,
    "index_head_dim": 6,
    "index_topk": 2,
    "layer_types": [
        *("sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"),
        *("compressed_sparse_attention", "sliding_attention"),
    ],
    "mlp_layer_types": ["hash_moe"] * 2 + ["moe"] * 3,
    "compress_rates": {"compressed_sparse_attention": 4, "heavily_compressed_attention": 6},
    "rms_norm_eps": 0.1,
    "n_routed_experts": 7,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 14,
    "swiglu_limit": 0.5,
    "hc_mult": 3,
    "hc_sinkhorn_iters": 4,
    "hc_eps": 0.01,
    "rope_theta": 50.0,
    "compress_rope_theta": 200.0,
    "rope_parameters": {key: value for key, value in YARN.items() if key != "rope_theta"},
}
del V4["intermediate_size"]  # another name of the width of an expert
YARN_WITH_FACTORS = YARN | {"beta_fast": 3.0, "beta_slow": 0.5, "mscale": 0.7, "mscale_all_dim": 1.5}


# More experts than are chosen for most texts, and none as wide as a layer without them
ROUTED = {"num_experts_per_tok": 3, "num_experts": 7}
LOCAL = {"num_experts_per_tok": 3, "num_local_experts": 7}
NARROW = ROUTED | {"moe_intermediate_size": 14}


class Case(NamedTuple):
    """A model of transformers: what the parity ledger calls it, its class, and settings of its config."""

    named: str
    architecture: str
    settings: dict

    @property
    def model_type(self):
        return getattr(transformers, self.architecture).config_class.model_type


CASES = {
    "gpt2": Case("GPT-2", "GPT2LMHeadModel", GPT2),
    "gpt2-untied": Case(
        "GPT-2, untied", "GPT2LMHeadModel", GPT2 | {"tie_word_embeddings": False, "n_inner": 40}
    ),
    "gpt2-headless": Case(
        "GPT-2, no head, ReLU, scores not scaled",
        "GPT2Model",
        GPT2 | {"activation_function": "relu", "scale_attn_weights": False},
    ),
    "bert": Case("BERT", "BertModel", BERT),
    "bert-mlm": Case(
        "BERT, masked language model",
        "BertForMaskedLM",
        BERT | {"hidden_act": "gelu_new", "type_vocab_size": 3},
    ),
    "bert-pretraining": Case("BERT, pre-training", "BertForPreTraining", BERT),
    "t5": Case("T5", "T5ForConditionalGeneration", T5),
    "t5-v1.1": Case(
        "T5 v1.1",
        "T5ForConditionalGeneration",
        T5 | {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
    ),
    "llama": Case("LLaMA, grouped queries", "LlamaForCausalLM", LLAMA),
    "llama-biased": Case(
        "LLaMA, biases, tied, interpolated positions",
        "LlamaForCausalLM",
        LLAMA
        | {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True, "hidden_act": "gelu"}
        | rope(500_000.0, rope_type="linear", factor=4.0),
    ),
    # With these bases, one pair of dimensions is stretched, one is on the ramp, and one is left alone. The texts, of 33
    # positions, are longer than the original contexts.
    "llama-3.1": Case(
        "Llama 3.1, stretched positions",
        "LlamaForCausalLM",
        LLAMA
        | {"head_dim": 8}
        | rope(
            200.0,
            rope_type="llama3",
            factor=8.0,
            low_freq_factor=1.0,
            high_freq_factor=4.0,
            original_max_position_embeddings=24,
        ),
    ),
    "llama-yarn": Case(
        "LLaMA, YaRN",
        "LlamaForCausalLM",
        LLAMA
        | {"head_dim": 8}
        | rope(
            200.0,
            rope_type="yarn",
            factor=6.0,
            beta_fast=3.0,
            beta_slow=0.5,
            original_max_position_embeddings=24,
        ),
    ),
    "qwen3-yarn": Case(
        "Qwen3, YaRN with two factors",
        "Qwen3ForCausalLM",
        LLAMA
        | {"head_dim": 8}
        | rope(
            200.0,
            rope_type="yarn",
            factor=4.0,
            mscale=1.0,
            mscale_all_dim=0.5,
            original_max_position_embeddings=30,
        ),
    ),
    "mistral": Case(
        "Mistral, one key head",
        "MistralForCausalLM",
        LLAMA | {"num_key_value_heads": 1, "head_dim": 8, "sliding_window": None},
    ),
    "mistral-window": Case("Mistral, sliding window", "MistralForCausalLM", LLAMA | {"sliding_window": 7}),
    # A LLaMA of transformers must be as wide as a multiple of its heads; a Mistral need not
    "mistral-odd": Case(
        "Mistral, width not divisible by heads",
        "MistralForCausalLM",
        LLAMA | {"hidden_size": 22, "head_dim": 8, "sliding_window": None},
    ),
    "qwen2": Case("Qwen2", "Qwen2ForCausalLM", LLAMA | {"tie_word_embeddings": True} | rope(1_000_000.0)),
    "qwen3": Case("Qwen3", "Qwen3ForCausalLM", LLAMA | {"head_dim": 8} | rope(1_000_000.0)),
    "qwen3-headless": Case("Qwen3, no head", "Qwen3Model", LLAMA | {"head_dim": 8}),
    # Layers that differ, all within reach of these 33 positions. No two choices of a model have the same number.
    "qwen2-windows": Case(
        "Qwen2, windows in some layers",
        "Qwen2ForCausalLM",
        DEEP | {"use_sliding_window": True, "sliding_window": 7, "max_window_layers": 1},
    ),
    "seed_oss": Case("Seed-OSS", "SeedOssForCausalLM", LLAMA | {"head_dim": 8, "attention_dropout": 0.0}),
    "arcee": Case("Arcee", "ArceeForCausalLM", LLAMA),
    "ernie4_5": Case(
        "ERNIE 4.5", "Ernie4_5ForCausalLM", LLAMA | {"head_dim": 8, "use_bias": True} | rope(50.0)
    ),
    "phi3": Case("Phi-3", "Phi3ForCausalLM", LLAMA),
    "phi3-window": Case("Phi-3, sliding window", "Phi3ForCausalLM", LLAMA | {"sliding_window": 7}),
    "smollm3": Case("SmolLM3", "SmolLM3ForCausalLM", DEEP | {"no_rope_layer_interval": 3} | rope(50.0)),
    "granite": Case(
        "Granite",
        "GraniteForCausalLM",
        LLAMA | FACTORS,
    ),
    # Heads of "auto" width, which is 8
    "granite4": Case("Granite 4", "GraniteMoeHybridForCausalLM", GRANITE_4),
    "granite4-rope": Case(
        "Granite 4, rotated, biases, tied",
        "GraniteMoeHybridForCausalLM",
        GRANITE_4
        | {
            "attention_bias": True,
            "position_embedding_type": "rope",
            "tie_word_embeddings": True,
            "mamba_conv_bias": False,
            "mamba_d_conv": 2,
            "mamba_n_groups": 1,
            "mamba_expand": 3,
            "mamba_d_head": 12,
        }
        | rope(50.0),
    ),
    "mamba2": Case("Mamba-2", "Mamba2ForCausalLM", MAMBA),
    "mamba2-headless": Case(
        "Mamba-2, no head, one group",
        "Mamba2Model",
        MAMBA | {"n_groups": 1, "use_conv_bias": False, "expand": 4, "num_heads": 12},
    ),
    "ministral3": Case(
        "Ministral 3",
        "Ministral3ForCausalLM",
        LLAMA
        | {"head_dim": 8}
        | rope(
            200.0,
            rope_type="yarn",
            factor=4.0,
            beta_fast=3.0,
            beta_slow=0.5,
            mscale=1.0,
            mscale_all_dim=1.0,
            original_max_position_embeddings=9,
            llama_4_scaling_beta=0.3,
        ),
    ),
    "olmo": Case("OLMo", "OlmoForCausalLM", LLAMA | rope(50.0)),
    "cohere": Case("Command R", "CohereForCausalLM", LLAMA | {"logit_scale": 0.7} | rope(50.0)),
    "cohere2": Case(
        "Command A",
        "Cohere2ForCausalLM",
        DEEP
        | {
            "sliding_window": 7,
            "layer_types": ["sliding_attention", "full_attention"] * 2,
            "logit_scale": 0.7,
            "attention_bias": True,
            "layer_norm_eps": 0.1,
        }
        | rope(50.0),
    ),
    "exaone4": Case(
        "EXAONE 4",
        "Exaone4ForCausalLM",
        DEEP | {"sliding_window": 7, "layer_types": ["sliding_attention", "full_attention"] * 2} | rope(50.0),
    ),
    "exaone4-full": Case(
        "EXAONE 4, no windows",
        "Exaone4ForCausalLM",
        LLAMA | {"sliding_window": None, "layer_types": ["full_attention"] * 2} | rope(50.0),
    ),
    "apertus": Case("Apertus", "ApertusForCausalLM", LLAMA | {"head_dim": 8} | rope(50.0)),
    "hunyuan": Case(
        "Hunyuan",
        "HunYuanDenseV1ForCausalLM",
        LLAMA
        | {"head_dim": 8, "attention_bias": True}
        | rope(50.0, rope_type="dynamic", factor=1.0, alpha=3.0),
    ),
    "nanochat": Case(
        "nanochat",
        "NanoChatForCausalLM",
        LLAMA | {"rms_norm_eps": 0.1, "attention_bias": True, "final_logit_softcapping": 3.0} | rope(50.0),
    ),
    "helium": Case(
        "Helium",
        "HeliumForCausalLM",
        LLAMA | {"head_dim": 6, "attention_bias": True, "mlp_bias": True} | rope(50.0),
    ),
    "glm": Case("GLM-4 of 2024", "GlmForCausalLM", LLAMA | {"head_dim": 8} | rope(50.0)),
    "glm4": Case("GLM-4", "Glm4ForCausalLM", LLAMA | {"head_dim": 8, "attention_bias": False} | rope(50.0)),
    "olmo2": Case("OLMo 2", "Olmo2ForCausalLM", LLAMA | rope(50.0)),
    "olmo3": Case(
        "OLMo 3",
        "Olmo3ForCausalLM",
        DEEP
        | {"sliding_window": 7, "layer_types": ["sliding_attention"] * 3 + ["full_attention"]}
        | of_kinds({"rope_theta": 50.0}, YARN),
    ),
    "gemma": Case("Gemma", "GemmaForCausalLM", LLAMA | {"head_dim": 8}),
    "gemma2": Case(
        "Gemma 2",
        "Gemma2ForCausalLM",
        DEEP
        | {
            "head_dim": 8,
            "query_pre_attn_scalar": 20,
            "sliding_window": 7,
            "attn_logit_softcapping": 2.0,
            "final_logit_softcapping": 3.0,
        }
        | rope(50.0),
    ),
    "gemma2-headless": Case("Gemma 2, no head", "Gemma2Model", DEEP | {"head_dim": 8}),
    "gemma3": Case(
        "Gemma 3",
        "Gemma3ForCausalLM",
        DEEP
        | {"head_dim": 8, "query_pre_attn_scalar": 20, "sliding_window": 7, "sliding_window_pattern": 3}
        | of_kinds({"rope_theta": 50.0}, {"rope_type": "linear", "factor": 3.0, "rope_theta": 900.0}),
    ),
    "deepseek_v3-yarn": Case(
        "DeepSeek-V3, YaRN",
        "DeepseekV3ForCausalLM",
        LATENT | GROUPED | {"rope_parameters": YARN_WITH_FACTORS},
    ),
    "deepseek_v3": Case(
        "DeepSeek-V3, dense, queries from x, halves",
        "DeepseekV3ForCausalLM",
        LATENT | {"q_lora_rank": None, "rope_interleave": False} | rope(50.0),
    ),
    "deepseek_v2": Case(
        "DeepSeek-V2",
        "DeepseekV2ForCausalLM",
        LATENT | GROUPED | {"topk_method": "group_limited_greedy", "kv_lora_rank": 10} | rope(50.0),
    ),
    "deepseek_v32-yarn": Case(
        "DeepSeek-V3.2, YaRN", "DeepseekV32ForCausalLM", INDEXED | {"rope_parameters": YARN_WITH_FACTORS}
    ),
    "deepseek_v4": Case("DeepSeek-V4", "DeepseekV4ForCausalLM", V4),
    "glm_moe_dsa": Case(
        "GLM-5", "GlmMoeDsaForCausalLM", INDEXED | {"indexer_types": ["full", "shared"] * 2} | rope(50.0)
    ),
    "glm4_moe": Case(
        "GLM-4.5",
        "Glm4MoeForCausalLM",
        DEEP | MIXED | {"head_dim": 8, "use_qk_norm": True, "attention_bias": True} | rope(50.0),
    ),
    "glm4_moe_lite": Case(
        "GLM-4.7 Flash",
        "Glm4MoeLiteForCausalLM",
        LATENT | MIXED | {"mlp_layer_types": ["dense", "sparse"] * 2} | rope(50.0),
    ),
    "solar_open": Case(
        "Solar Open",
        "SolarOpenForCausalLM",
        LLAMA | MIXED | {"head_dim": 8, "norm_topk_prob": False, "attention_bias": True} | rope(50.0),
    ),
    "qwen3_5": Case(
        "Qwen3.5, every layer attends",
        "Qwen3_5ForCausalLM",
        LLAMA
        | {"head_dim": 16, "attention_bias": True, "layer_types": ["full_attention"] * 2}
        | rope(50.0, partial_rotary_factor=0.25),
    ),
    "qwen3_next": Case(
        "Qwen3-Next, every layer attends, dense",
        "Qwen3NextForCausalLM",
        LLAMA
        | {"head_dim": 16, "num_experts": 0, "layer_types": ["full_attention"] * 2}
        | rope(50.0, partial_rotary_factor=0.25),
    ),
    "qwen3_5-delta": Case(
        "Qwen3.5",
        "Qwen3_5ForCausalLM",
        STATES | {"head_dim": 16, "attention_bias": True} | rope(50.0, partial_rotary_factor=0.25),
    ),
    "qwen3_next-delta": Case(
        "Qwen3-Next, dense",
        "Qwen3NextForCausalLM",
        STATES
        | {"head_dim": 16, "num_experts": 0, "linear_value_head_dim": 5}
        | rope(50.0, partial_rotary_factor=0.25),
    ),
    "mixtral": Case("Mixtral", "MixtralForCausalLM", LLAMA | ROUTED | {"sliding_window": 7} | rope(50.0)),
    "qwen3_moe": Case(
        "Qwen3-MoE",
        "Qwen3MoeForCausalLM",
        DEEP | NARROW | {"head_dim": 8, "norm_topk_prob": True, "attention_bias": True} | rope(50.0),
    ),
    "qwen3_moe-mixed": Case(
        "Qwen3-MoE, every other layer, one of them dense, window",
        "Qwen3MoeForCausalLM",
        DEEP
        | NARROW
        | {"decoder_sparse_step": 2, "mlp_only_layers": [3], "use_sliding_window": True, "sliding_window": 7},
    ),
    "minimax_m2": Case(
        "MiniMax-M2",
        "MiniMaxM2ForCausalLM",
        LLAMA | ROUTED | {"head_dim": 8, "rotary_dim": 4, "rope_theta": 50.0},
    ),
    "dots1": Case(
        "dots.llm1, windows",
        "Dots1ForCausalLM",
        DEEP | MIXED | {"head_dim": 8, "attention_bias": True, "sliding_window": 7, "max_window_layers": 2},
    ),
    "hy_v3": Case(
        "Hy3",
        "HYV3ForCausalLM",
        DEEP
        | NARROW
        | {"head_dim": 8, "num_shared_experts": 2, "router_scaling_factor": 1.7, "initializer_range": 0.02}
        | rope(50.0),
    ),
    "ernie4_5_moe": Case(
        "ERNIE 4.5, experts in every other layer",
        "Ernie4_5_MoeForCausalLM",
        DEEP
        | {"moe_num_experts": 7, "moe_k": 3, "moe_intermediate_size": 14, "moe_layer_interval": 2}
        | rope(50.0),
    ),
    "qwen2_moe": Case(
        "Qwen2-MoE, windows in some layers, the first dense",
        "Qwen2MoeForCausalLM",
        DEEP
        | NARROW
        | {"shared_expert_intermediate_size": 18, "mlp_only_layers": [0], "num_hidden_layers": 5}
        | {"use_sliding_window": True, "sliding_window": 7, "max_window_layers": 2},
    ),
    "olmoe": Case("OLMoE", "OlmoeForCausalLM", LLAMA | ROUTED | {"attention_bias": True} | rope(50.0)),
    "granitemoe": Case("Granite 3 with experts", "GraniteMoeForCausalLM", LLAMA | LOCAL | FACTORS),
    "granitemoeshared": Case(
        "Granite 3 with experts and a shared one",
        "GraniteMoeSharedForCausalLM",
        LLAMA | LOCAL | FACTORS | {"shared_intermediate_size": 18, "attention_bias": True},
    ),
    "granite4-moe": Case(
        "Granite 4, experts",
        "GraniteMoeHybridForCausalLM",
        GRANITE_4 | LOCAL | {"intermediate_size": 14},
    ),
    "gpt_oss": Case(
        "gpt-oss",
        "GptOssForCausalLM",
        DEEP
        | ROUTED
        | {"head_dim": 8, "sliding_window": 7, "swiglu_limit": 0.5, "swiglu_alpha": 1.3}
        | {"rope_parameters": YARN | {"truncate": False}},
    ),
    "qwen3_5_moe": Case(
        "Qwen3.5-MoE",
        "Qwen3_5MoeForCausalLM",
        STATES
        | NARROW
        | {"head_dim": 16, "shared_expert_intermediate_size": 18}
        | rope(50.0, partial_rotary_factor=0.25),
    ),
    "qwen3_next-moe": Case(
        "Qwen3-Next, two layers dense",
        "Qwen3NextForCausalLM",
        STATES
        | NARROW
        | {"head_dim": 16, "shared_expert_intermediate_size": 18, "mlp_only_layers": [1, 2]}
        | {"norm_topk_prob": False}
        | rope(50.0, partial_rotary_factor=0.25),
    ),
    "kimi_linear": Case("Kimi Linear", "KimiLinearForCausalLM", KIMI),
    "olmo_hybrid": Case("OLMo hybrid", "OlmoHybridForCausalLM", STATES | rope(50.0)),
    "olmo_hybrid-nope": Case(
        "OLMo hybrid, no positions, usual strength",
        "OlmoHybridForCausalLM",
        STATES | {"linear_allow_neg_eigval": False, "attention_bias": True} | rope(None),
    ),
    "laguna": Case(
        "Laguna",
        "LagunaForCausalLM",
        DEEP
        | {
            "head_dim": 8,
            "sliding_window": 7,
            "layer_types": ["sliding_attention", "full_attention"] * 2,
            "num_attention_heads_per_layer": [4, 6, 4, 6],
            "mlp_layer_types": ["dense"] + ["sparse"] * 3,
            "shared_expert_intermediate_size": 9,
            "moe_routed_scaling_factor": 1.7,
        }
        | NARROW
        | of_kinds({"rope_theta": 50.0}, YARN | {"partial_rotary_factor": 0.5}),
    ),
    "laguna-headless": Case(
        "Laguna, a gate for each number",
        "LagunaModel",
        LLAMA | {"head_dim": 8, "gating": "per-element", "mlp_layer_types": ["dense"] * 2},
    ),
}
ADDED = {
    "qwen3_5_moe": 1.0,
    "qwen3_next-moe": 1.0,
    "gemma": 1.0,
    "gemma2": 1.0,
    "gemma2-headless": 1.0,
    "gemma3": 1.0,
    "qwen3_5": 1.0,
    "qwen3_next": 1.0,
    "qwen3_5-delta": 1.0,
    "qwen3_next-delta": 1.0,
}
"""What our gains have more than those of the files."""
SAVED_AS = {"mistral": "llama", "seed_oss": "qwen2", "phi3": "llama", "phi3-window": "mistral"}
SAVED_AS |= {"qwen3_next": "qwen3_5_text", "qwen3_next-delta": "qwen3_5_text", "hy_v3": "dots1"}
"""Cases that are saved as another family, which has all that they have."""
MIXTURES = (
    *("mixtral", "qwen2_moe", "qwen3_moe", "qwen3_moe-mixed", "olmoe", "gpt_oss"),
    *("granitemoe", "granitemoeshared", "granite4-moe", "qwen3_5_moe", "qwen3_next-moe"),
    *("deepseek_v3-yarn", "deepseek_v2", "deepseek_v32-yarn", "glm_moe_dsa", "glm4_moe", "glm4_moe_lite"),
    "deepseek_v4",
    *("solar_open", "minimax_m2", "dots1", "hy_v3", "ernie4_5_moe", "laguna", "kimi_linear"),
)
IN_MEMORY = (*(case for case in MIXTURES if case != "gpt_oss"), "olmo_hybrid", "olmo_hybrid-nope")
"""Cases of which transformers changes names, or joins weights, when it opens a file."""
OTHER_FILES = (*IN_MEMORY, "phi3", "phi3-window", "qwen3_next-delta")
"""Cases of which our file has other names than that of transformers, or matrices one by one."""
PADDED_AT_END = ("deepseek_v4",)
"""Cases whose texts can be padded on the right only: at the left, transformers takes padding for tokens."""
every_case = pytest.mark.parametrize("case", CASES)
both_rooms = pytest.mark.parametrize("room", ["scratch", "nn"])

# Standard deviations that give logits of order one: 0.2 is 24^-½, and T5 scales what enters its tied head by it.
# T5 does not divide q·k by anything, and its table of positions must outweigh q·k to be seen.
SIZE = 0.2
T5_SIZES = {"shared": 1.0, "relative": 1.0}


def make(case, dtype=torch.float32, attention="eager", sizes=None, **changes):
    """Returns a model of transformers with random weights, in evaluation mode.

    `sizes` gives standard deviations of matrices, by part of their names; all others have `SIZE`. `changes` are
    settings of the config.
    """
    _, architecture, settings = CASES[case]
    kind = getattr(transformers, architecture)
    config = kind.config_class(**IDS | (T5_START if case.startswith("t5") else {}) | settings | changes)
    config._attn_implementation = attention if kind._supports_sdpa else "eager"
    config._experts_implementation = "eager"  # any other computes in float32 at most
    model = kind(config)
    generator = torch.Generator().manual_seed(0)
    if case == "t5-v1.1":  # its checkpoints have a head of their own, though transformers' config ties it
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    sizes = T5_SIZES if sizes is None and case.startswith("t5") else sizes or {}
    with torch.no_grad():
        for name, weight in model.named_parameters():
            is_gain = weight.ndim == 1 and name.endswith("weight")
            size = next((size for part, size in sizes.items() if part in name), SIZE)
            weight.normal_(1.0 - ADDED.get(case, 0.0) if is_gain else 0.0, size, generator=generator)
        for name, buffer in model.named_buffers():
            if "correction_bias" in name:  # learned, though by no gradient
                buffer.normal_(0.0, size, generator=generator)
            elif "tid2eid" in name:
                drawn = torch.rand(len(buffer), config.n_routed_experts, generator=generator)
                buffer.copy_(drawn.argsort(dim=-1)[:, : buffer.shape[-1]])
    return model.to(dtype).eval()


def file_of(case, **changes):
    return IDS | CASES[case].settings | {"model_type": CASES[case].model_type} | changes


def assert_as_many_weights(given):
    """Asserts that a file is read and written, and has as many weights as transformers builds for it."""
    assert unknown_keys(given) == []
    config = config_from_hf(given)
    own = {key: value for key, value in given.items() if key != "model_type"}
    with torch.device("meta"):
        theirs = transformers.AutoModelForCausalLM.from_config(
            transformers.AutoConfig.for_model(given["model_type"], **own)
        )
    assert config.parameter_count().total == sum(weight.numel() for weight in theirs.parameters())
    assert config_from_hf(config_to_hf(config)) == config


class _DoubleTorch:
    """The module torch, except that its float32 is float64."""

    float = float32 = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


@contextmanager
def all_in_double():
    """Makes transformers compute RMSNorm, rotary angles and LLaMA's softmax in float64 instead of float32.

    Only the type of the numbers changes. A model must also be built in this context, for its frequencies. Gemma's √D
    and Ministral 3's logarithm follow torch's own default.
    """
    for case in CASES.values():
        getattr(transformers, case.architecture)  # is imported now, and is among the modules
    with pytest.MonkeyPatch.context() as patch:
        models = [module for name, module in sys.modules.items() if "transformers.models" in name]
        for module in (modeling_rope_utils, *models):
            if getattr(module, "torch", None) is torch:
                patch.setattr(module, "torch", _DoubleTorch())
        patch.setattr(torch.Tensor, "float", torch.Tensor.double)
        torch.set_default_dtype(torch.float64)
        try:
            yield
        finally:
            torch.set_default_dtype(torch.float32)


def batch(case, padded, seed=1):
    """Returns inputs for three texts as NumPy arrays: ids, a source for T5, and a mask if padded (True = real)."""
    rng = np.random.default_rng(seed)
    B, T, S = 3, 33, 29
    given = {"ids": rng.integers(0, VOCABULARY, (B, T))}
    short = np.array([0, 5, 11])[:, None]
    if case.startswith("t5"):
        given["source"] = rng.integers(0, VOCABULARY, (B, S))
        if padded:
            given["source_mask"] = np.arange(S) < S - short
    elif case.startswith("bert"):
        given["segments"] = (np.arange(T) >= np.array([[9], [14], [20]])).astype(np.int64)
        if padded:
            given["mask"] = np.arange(T) < T - short
    elif padded and case in PADDED_AT_END:
        given["mask"] = np.arange(T) < T - short
        given["position_ids"] = np.minimum(np.arange(T), T - 1 - short)
    elif padded:  # a decoder's, on the left: the end of the text is where it goes on
        given["mask"] = np.arange(T) >= short
        given["position_ids"] = np.maximum(np.arange(T) - short, 0)
    return given


THEIR_NAMES = {
    "ids": "input_ids",
    "mask": "attention_mask",
    "segments": "token_type_ids",
    "position_ids": "position_ids",
}
THEIR_T5_NAMES = {"ids": "decoder_input_ids", "source": "input_ids", "source_mask": "attention_mask"}


def ask_theirs(case, model, given):
    """Returns the output of their model: logits, or final states if it has no head; also a pooler's output."""
    names = THEIR_T5_NAMES if case.startswith("t5") else THEIR_NAMES
    given = {names[name]: torch.from_numpy(array) for name, array in given.items()}
    given = {name: x.long() if x.dtype == torch.bool else x for name, x in given.items()}
    output = model(**given)
    logits = next(
        getattr(output, name)
        for name in ("logits", "prediction_logits", "last_hidden_state")
        if hasattr(output, name)
    )
    pooled = None
    if case in ("bert", "bert-pretraining"):
        pooled = model.base_model(**given).pooler_output
    return logits, pooled


def ask_ours(room, model, given):
    """Returns the output of our model, given the arrays of its room."""
    if room == "nn":
        given = {name: torch.from_numpy(array) for name, array in given.items()}
    logits = model(**given)
    pooled = None
    if model.config.pooler:
        pooled = model.pool(model.hidden(**given))
    return logits, pooled


def numpy(array):
    return (
        array.detach().float().numpy() if getattr(array, "dtype", None) == torch.bfloat16 else _numpy(array)
    )


def _numpy(array):
    return array.detach().numpy() if isinstance(array, torch.Tensor) else array


def real(given, logits):
    """Returns the logits at real positions: at padding, the two sides may differ."""
    return logits if "mask" not in given else logits[given["mask"]]
