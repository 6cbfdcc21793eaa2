"""Tests files with layers of Mamba-2 as they are published, what is refused of them, and one layer alone."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers

from glassformer.config import ModelConfig
from glassformer.huggingface import attention_from_hf, config_from_hf, config_to_hf, load
from glassformer.layers import LinearAttention, Mamba2

from .models import CASES, IDS, all_in_double, assert_as_many_weights, both_rooms, make

CODESTRAL = {
    "architectures": ["Mamba2ForCausalLM"], "bos_token_id": 0, "chunk_size": 256, "conv_kernel": 4, "eos_token_id": 0,
    "expand": 2, "head_dim": 64, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.1,
    "intermediate_size": 8192, "layer_norm_epsilon": 1e-05, "model_type": "mamba2", "n_groups": 8,
    "norm_before_gate": True, "num_heads": 128, "num_hidden_layers": 64, "pad_token_id": 0,
    "rescale_prenorm_residual": False, "residual_in_fp32": True, "rms_norm": True, "state_size": 128,
    "tie_word_embeddings": False, "time_step_floor": 0.0001, "time_step_limit": [0.0, math.inf], "time_step_max": 0.1,
    "time_step_min": 0.001, "time_step_rank": 256, "torch_dtype": "bfloat16", "transformers_version": "4.44.0",
    "use_bias": False, "use_cache": True, "use_conv_bias": True, "vocab_size": 32768,
}  # fmt: skip
GRANITE = {
    "architectures": ["GraniteMoeHybridForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
    "attention_multiplier": 0.015625, "bos_token_id": 100257, "embedding_multiplier": 12, "eos_token_id": 100257,
    "hidden_act": "silu", "hidden_size": 2048, "init_method": "mup", "initializer_range": 0.1,
    "intermediate_size": 8192, "layer_types": (["mamba"] * 5 + ["attention"] + ["mamba"] * 4) * 4,
    "logits_scaling": 8, "mamba_chunk_size": 256, "mamba_conv_bias": True, "mamba_d_conv": 4, "mamba_d_head": 64,
    "mamba_d_state": 128, "mamba_expand": 2, "mamba_n_groups": 1, "mamba_n_heads": 64, "mamba_proj_bias": False,
    "max_position_embeddings": 131072, "model_type": "granitemoehybrid", "normalization_function": "rmsnorm",
    "num_attention_heads": 32, "num_experts_per_tok": 0, "num_hidden_layers": 40, "num_key_value_heads": 8,
    "num_local_experts": 0, "output_router_logits": False, "pad_token_id": 100256, "position_embedding_type": "nope",
    "residual_multiplier": 0.22, "rms_norm_eps": 1e-05, "rope_scaling": None, "rope_theta": 10000,
    "router_aux_loss_coef": 0.01, "shared_intermediate_size": 8192, "tie_word_embeddings": True,
    "torch_dtype": "bfloat16", "transformers_version": "4.56.0", "use_cache": True, "vocab_size": 100352,
}  # fmt: skip
MICRO = GRANITE | {  # Granite 4.0 micro, without a state
    "hidden_size": 2560, "layer_types": ["attention"] * 40, "num_attention_heads": 40, "mamba_n_heads": 128,
    "mamba_d_head": "auto", "position_embedding_type": "rope", "rope_theta": 10_000_000,
}  # fmt: skip


@pytest.mark.parametrize(
    "given", [CODESTRAL, GRANITE, MICRO], ids=["Mamba-2", "Granite 4.0 H", "Granite 4.0"]
)
def test_a_published_file_says_as_many_weights_as_transformers_builds(given):
    assert_as_many_weights(given)


def test_what_a_file_of_mamba_does_not_say():
    config = config_from_hf(CODESTRAL)
    assert (config.n_heads, config.n_kv_heads, config.d_head, config.context_length) == (128, 8, 64, 2**20)
    assert config_from_hf(CODESTRAL | {"max_position_embeddings": 300}).context_length == 300
    assert config.positions == "none"


def test_granite_rotates_only_if_the_file_says_so():
    assert config_from_hf(GRANITE).layer(5).attention.rotation is None
    rotated = config_from_hf(GRANITE | {"position_embedding_type": "rope"})
    assert rotated.layer(5).attention.rotation.base == 10_000.0
    assert rotated.layer(4).attention.rotation is None
    assert config_from_hf(config_to_hf(rotated)) == rotated


REFUSED = [
    (CODESTRAL, {"use_bias": True}, "^use_bias=True is not supported: no matrix"),
    (CODESTRAL, {"rms_norm": False}, "^rms_norm=False is not supported"),
    (CODESTRAL, {"hidden_act": "gelu"}, "^hidden_act='gelu' is not supported: .*SiLU"),
    (CODESTRAL, {"time_step_limit": [0.0, 0.5]}, r"^time_step_limit=\[0.0, 0.5\] is not supported"),
    (CODESTRAL, {"time_step_limit": [0.1, math.inf]}, r"^time_step_limit=\[0.1, inf\] is not supported"),
    (CODESTRAL, {"num_heads": 64}, r"^expand \* hidden_size=8192 contradicts num_heads \* head_dim=4096"),
    (CODESTRAL, {"n_groups": 3}, "^num_heads=128 is not divisible by n_groups=3"),
    (CODESTRAL, {"layer_types": ["full_attention"] * 64}, "^layer_types=.*every layer of this family has a state"),
    (GRANITE, {"num_local_experts": 72}, "^num_experts_per_tok=0 must be at least 1"),
    (GRANITE, {"mamba_proj_bias": True}, "^mamba_proj_bias=True is not supported"),
    (GRANITE, {"hidden_act": "gelu"}, "^hidden_act='gelu' is not supported: .*SiLU"),
    (GRANITE, {"time_step_limit": [0.0, 1.0]}, "^time_step_limit="),
    (GRANITE, {"mamba_d_head": 32}, r"^mamba_expand \* hidden_size=4096 contradicts mamba_n_heads"),
    (GRANITE, {"mamba_n_groups": 7}, "^mamba_n_heads=64 is not divisible by mamba_n_groups=7"),
    (GRANITE, {"layer_types": ["conv"] * 40}, "^layer_types=.*known are linear_attention, full_attention, mamba"),
    (GRANITE, {"normalization_function": "layernorm"}, "^normalization_function='layernorm'"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "changes", "why"), REFUSED)
def test_what_is_not_built_is_refused_by_name(given, changes, why):
    with pytest.raises(ValueError, match=why):
        config_from_hf(given | changes)


def test_another_activation_is_read_where_no_layer_has_a_state():
    assert config_from_hf(MICRO | {"hidden_act": "gelu"}).feedforward == "geglu"


@both_rooms
def test_a_file_may_have_infinity_for_no_limit_and_nowhere_else(tmp_path, room):
    make("mamba2").save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    given = json.loads(path.read_text()) | {"time_step_limit": [0.0, math.inf]}
    path.write_text(json.dumps(given))
    assert "Infinity]" in path.read_text()
    assert load(tmp_path, room=room).config.n_layers == 3
    path.write_text(json.dumps(given | {"time_step_limit": [0.0, -math.inf]}))
    with pytest.raises(ValueError, match=r"time_step_limit\[1\]=-inf must be finite"):
        load(tmp_path, room=room)
    path.write_text(json.dumps(given | {"layer_norm_epsilon": math.inf}))
    with pytest.raises(ValueError, match="layer_norm_epsilon=inf must be finite"):
        load(tmp_path, room=room)


@both_rooms
@torch.no_grad()
def test_layers_of_a_model_are_loaded_alone(room):
    settings = IDS | CASES["granite4"].settings | {"num_local_experts": 4, "num_experts_per_tok": 2}
    with all_in_double():
        config = transformers.GraniteMoeHybridConfig(**settings)
        config._attn_implementation = config._experts_implementation = "eager"
        theirs = transformers.GraniteMoeHybridModel(config).double().eval()
        for name, weight in theirs.named_parameters():
            weight.normal_(1.0 if name.endswith("norm.weight") else 0.0, 0.3)
        x = torch.randn(2, 19, 24)
        future = torch.full((19, 19), -torch.inf).triu(1)[None, None]
        expected = {1: theirs.layers[1].mamba(x), 2: theirs.layers[2].self_attn(x, future)[0]}
        expected = {index: 0.4 * y for index, y in expected.items()}  # the factor of the residual sum
    given = config.to_dict() | {"architectures": ["GraniteMoeHybridModel"]}
    for index, answer in expected.items():
        layer = attention_from_hf(given, theirs.state_dict(), index, room=room, dtype="float64")
        ours = layer(x.numpy() if room == "scratch" else x)
        np.testing.assert_allclose(np.asarray(ours), answer.numpy(), rtol=0, atol=1e-13)


STATE = Mamba2(n_heads=6, n_key_heads=2, d_key=5, d_value=8)
OURS = ModelConfig(
    vocab_size=11, context_length=40, d_model=24, n_layers=3, n_heads=4, positions="none", norm="rmsnorm",
    attention_bias="none", feedforward="swiglu", feedforward_bias=False, head="untied",
    kinds={"state": {"form": STATE}, "full": {"n_heads": 3, "positions": "rope"}}, order="state full",
)  # fmt: skip


def test_models_of_ours_are_written_with_the_heads_that_they_use():
    given = config_to_hf(OURS)
    assert given["model_type"] == "granitemoehybrid"
    assert (given["num_attention_heads"], given["mamba_n_heads"], given["mamba_expand"]) == (3, 6, 2)
    alone = OURS.replace(kinds={"all": {"form": STATE}}, order=None)
    assert config_to_hf(alone.replace(feedforward="none"))["model_type"] == "mamba2"
    assert config_to_hf(alone)["model_type"] == "granitemoehybrid"
    wide = replace(STATE, d_value=5)  # 6 · 5 is no multiple of 24
    plain = LinearAttention(n_heads=6, n_key_heads=2, d_key=5, d_value=8, decay="none", gate="sigmoid")
    for form in (wide, plain):
        with pytest.raises(ValueError, match="of transformers has no "):
            config_to_hf(OURS.replace(kinds={"all": {"form": form}}, order=None))
