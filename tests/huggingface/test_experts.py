"""Tests what is particular to families with experts: their files, one by one and packed, and what is refused."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from glassformer.huggingface import config_from_hf, config_to_hf, load, save, state_from_hf
from glassformer.huggingface.files import Weights
from glassformer.layers import Experts

from .models import (
    MIXTURES,
    NARROW,
    assert_as_many_weights,
    file_of,
    make,
    numpy,
)
from .test_mamba import GRANITE

# Files


@pytest.mark.parametrize("case", MIXTURES)
def test_experts_are_read_packed_and_one_by_one_and_each_weight_once(tmp_path, case, monkeypatch):
    """A file has the names of a model in memory, of which each holds all experts of a layer, or those of our own."""
    theirs = make(case)
    theirs.save_pretrained(tmp_path)
    one_by_one = load(tmp_path).state_dict()
    save_file(
        {name: numpy(w).copy() for name, w in theirs.state_dict().items()}, tmp_path / "model.safetensors"
    )
    packed = [name for name in load_file(tmp_path / "model.safetensors") if "experts.gate_up_proj" in name]
    assert packed
    reads, read = Counter(), Weights.__getitem__
    monkeypatch.setattr(Weights, "__getitem__", lambda self, name: reads.update([name]) or read(self, name))
    model = load(tmp_path)
    found = model.state_dict()
    assert {n for name, n in reads.items() if "embed" not in name and "lm_head" not in name} == {1}
    assert reads.keys() == theirs.state_dict().keys()
    assert found.keys() == one_by_one.keys()
    for name, values in one_by_one.items():
        np.testing.assert_array_equal(found[name], values)
    save(model, tmp_path / "ours")
    again = load(tmp_path / "ours").state_dict()
    assert all((again[name] == values).all() for name, values in found.items())


@pytest.mark.parametrize("case", ["qwen3_moe", "gpt_oss"])
def test_a_packed_weight_of_another_shape_is_named(tmp_path, case):
    theirs = make(case)
    theirs.save_pretrained(tmp_path)
    state = {name: numpy(w).copy() for name, w in theirs.state_dict().items()}
    name = "model.layers.2.mlp.experts.down_proj"
    state[name] = state[name][:-1]
    save_file(state, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=rf"{name} has shape \(6, .*, but must have \(7, "):
        load(tmp_path)


def test_gate_and_up_alternate_in_a_file_of_gpt_oss():
    theirs = make("gpt_oss")
    config = config_from_hf(theirs.config.to_dict() | {"architectures": ["GptOssForCausalLM"]})
    ours = state_from_hf(config, theirs.state_dict(), model_type="gpt_oss")
    both = theirs.model.layers[2].mlp.experts
    for name, first in (("W_gate", 0), ("W_up", 1)):
        expert = f"decoder.blocks.2.feedforward.experts.3.{name}"
        np.testing.assert_array_equal(ours[f"{expert}.weight"], numpy(both.gate_up_proj)[3, :, first::2])
        np.testing.assert_array_equal(ours[f"{expert}.bias"], numpy(both.gate_up_proj_bias)[3, first::2])


# Settings


def test_which_layers_have_experts():
    given = file_of("qwen3_next-moe", layer_types=None, mlp_only_layers=[0], num_hidden_layers=8)
    config = config_from_hf(given | {"decoder_sparse_step": 3})
    has = [config.layer(i).feedforward.experts is not None for i in range(8)]
    assert has == [False, False, True, False, False, True, False, False]
    assert {config.layer(i).feedforward.d_ff for i in range(8) if not has[i]} == {40}
    assert [config.layer(i).attention.has_state for i in range(8)] == [True, True, True, False] * 2
    assert config_from_hf(config_to_hf(config)) == config
    none = config_from_hf(given | {"num_experts": 0})
    assert [none.layer(i).feedforward.experts for i in range(8)] == [None] * 8
    assert none == config_from_hf(given | {"mlp_only_layers": [*range(8)]})


def test_a_mixtral_of_ours_is_written_as_one():
    config = config_from_hf(file_of("mixtral", sliding_window=None, rms_norm_eps=1e-6))
    experts = config.layer(0).feedforward.experts
    assert experts == Experts(n_experts=7, top_k=3)
    assert config_to_hf(config)["model_type"] == "mixtral"
    balanced = config.replace(kinds={"every": {"experts": replace(experts, balance=0.01)}})
    assert config_to_hf(balanced) == config_to_hf(config)
    other = config.replace(kinds={"every": {"experts": Experts(n_experts=7, top_k=3, weighs="input")}})
    with pytest.raises(ValueError, match="has no experts="):
        config_to_hf(other)


OF_ALL = {
    "attention_dropout": 0.0, "hidden_act": "silu", "initializer_range": 0.02, "output_router_logits": False,
    "router_aux_loss_coef": 0.001, "torch_dtype": "bfloat16", "transformers_version": "4.46.0", "use_cache": True,
}  # fmt: skip
QWEN1_5 = OF_ALL | {
    "architectures": ["Qwen2MoeForCausalLM"], "decoder_sparse_step": 1, "hidden_size": 2048, "intermediate_size": 5632,
    "max_position_embeddings": 8192, "max_window_layers": 21, "model_type": "qwen2_moe", "moe_intermediate_size": 1408,
    "norm_topk_prob": False, "num_attention_heads": 16, "num_experts": 60, "num_experts_per_tok": 4,
    "num_hidden_layers": 24, "num_key_value_heads": 16, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
    "shared_expert_intermediate_size": 5632, "sliding_window": 32768, "tie_word_embeddings": False,
    "use_sliding_window": False, "vocab_size": 151936,
}  # fmt: skip
GRANITE_3 = OF_ALL | {
    "architectures": ["GraniteMoeForCausalLM"], "attention_bias": False, "attention_multiplier": 0.015625,
    "embedding_multiplier": 12.0, "hidden_size": 1024, "intermediate_size": 512, "logits_scaling": 6.0,
    "max_position_embeddings": 4096, "model_type": "granitemoe", "num_attention_heads": 16, "num_experts_per_tok": 8,
    "num_hidden_layers": 24, "num_key_value_heads": 8, "num_local_experts": 32, "residual_multiplier": 0.22,
    "rms_norm_eps": 1e-06, "rope_scaling": None, "rope_theta": 10000, "tie_word_embeddings": True, "vocab_size": 49155,
}  # fmt: skip
GRANITE_4 = GRANITE | {  # Granite 4.0 H Small
    "hidden_size": 4096, "intermediate_size": 768, "shared_intermediate_size": 1536, "num_local_experts": 72,
    "num_experts_per_tok": 10, "mamba_n_heads": 128, "attention_multiplier": 0.0078125, "logits_scaling": 16,
}  # fmt: skip


@pytest.mark.parametrize("given", [QWEN1_5, GRANITE_3, GRANITE_4], ids=lambda given: given["model_type"])
def test_a_published_file_says_as_many_weights_as_transformers_builds(given):
    assert_as_many_weights(given)


REFUSED = [
    ("mixtral", {"num_experts_per_tok": 9}, "num_experts_per_tok=9 must be at most the experts to choose from, 7"),
    ("mixtral", {"num_experts_per_tok": None}, "num_experts_per_tok is missing"),
    ("mixtral", {"num_local_experts": 5}, "num_local_experts=5 contradicts num_experts=7"),
    ("mixtral", {"num_experts": 7.5}, "num_local_experts=7.5"),
    ("mixtral", {"n_shared_experts": 1}, "n_shared_experts=1 is not known"),
    ("qwen3_moe", {"norm_topk_prob": "yes"}, "norm_topk_prob='yes' must be True or False"),
    ("qwen3_moe", {"mlp_only_layers": 3}, "mlp_only_layers=3 is not supported: it must be a list"),
    ("qwen3_moe", {"mlp_only_layers": ["3"]}, "it must be a list of numbers of layers"),
    ("qwen3_moe", {"decoder_sparse_step": 0}, "decoder_sparse_step=0 must be at least 1"),
    ("qwen3_moe", {"decoder_sparse_step": 2, "num_hidden_layers": 10**9}, "is more than 10,000"),
    ("qwen3_moe", {"moe_intermediate_size": None}, "moe_intermediate_size is missing"),
    ("qwen3_moe", {"moe_intermediate_size": -1}, "moe_intermediate_size=-1 must be at least 1"),
    ("qwen2_moe", {"shared_expert_intermediate_size": 0}, "shared expert"),
    ("gpt_oss", {"swiglu_limit": -1.0}, "swiglu_limit=-1.0 must be positive"),
    ("gpt_oss", {"swiglu_limit": None}, "swiglu_limit is missing"),
    ("olmoe", {"clip_qkv": 8.0}, "clip_qkv=8.0 is not supported"),
    ("qwen3_5_moe", {"new": 3}, "new=3 is not known"),
]  # fmt: skip


@pytest.mark.parametrize(("case", "changes", "why"), REFUSED)
def test_what_is_refused(case, changes, why):
    with pytest.raises((ValueError, TypeError), match=why):
        config_from_hf(file_of(case, **changes))


def test_a_deep_file_whose_layers_are_alike_is_read_at_once():
    config = config_from_hf(file_of("qwen3_moe", num_hidden_layers=10**6, **NARROW))
    assert config.layer(999_999).feedforward.experts.n_experts == 7
