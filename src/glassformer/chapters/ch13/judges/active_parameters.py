"""Judges "What one token uses" (chapter 13): how many parameters one token uses, from a config.json."""

from collections.abc import Mapping
from typing import Any

from glassformer.exercises.catalogue import exercise


def active_parameters(config: Mapping[str, Any]) -> int:
    """Returns how many parameters one token uses in a decoder of the LLaMA kind, with or without experts."""
    D, H = config["hidden_size"], config["num_attention_heads"]
    G = config.get("num_key_value_heads") or H
    K = config.get("head_dim") or D // H
    layer = 2 * D * H * K + 2 * D * G * K + 2 * D
    if config["model_type"].startswith("qwen3"):
        layer += 2 * K
    if config.get("num_experts"):
        layer += D * config["num_experts"]
        layer += 3 * D * config["moe_intermediate_size"] * config["num_experts_per_tok"]
    else:
        layer += 3 * D * config["intermediate_size"]
    row = 0 if config["tie_word_embeddings"] else D
    return row + config["num_hidden_layers"] * layer + D + config["vocab_size"] * D


active = exercise("real.active_parameters", active_parameters)

_SMALL = {
    "model_type": "llama", "vocab_size": 10, "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2,
    "num_key_value_heads": 1, "intermediate_size": 6, "tie_word_embeddings": True,
}  # fmt: skip
_SMOLLM2 = _SMALL | {
    "vocab_size": 49_152, "hidden_size": 576, "num_hidden_layers": 30, "num_attention_heads": 9,
    "num_key_value_heads": 3, "intermediate_size": 1536,
}  # fmt: skip
_LLAMA_2_7B = {
    "model_type": "llama", "vocab_size": 32_000, "hidden_size": 4096, "num_hidden_layers": 32,
    "num_attention_heads": 32, "intermediate_size": 11_008, "tie_word_embeddings": False, "num_experts": None,
}  # fmt: skip
_LLAMA_3_8B = _LLAMA_2_7B | {
    "vocab_size": 128_256, "num_key_value_heads": 8, "intermediate_size": 14_336, "head_dim": None,
}  # fmt: skip
_QWEN3 = {
    "model_type": "qwen3", "vocab_size": 151_936, "hidden_size": 1024, "num_hidden_layers": 28, "head_dim": 128,
    "num_attention_heads": 16, "num_key_value_heads": 8, "intermediate_size": 3072, "tie_word_embeddings": True,
}  # fmt: skip
_EXPERTS = {"num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 3}
_QWEN3_30B = {
    "model_type": "qwen3_moe", "vocab_size": 151_936, "hidden_size": 2048, "num_hidden_layers": 48,
    "head_dim": 128, "num_attention_heads": 32, "num_key_value_heads": 4, "intermediate_size": 6144,
    "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768, "tie_word_embeddings": False,
}  # fmt: skip

# What is wanted was worked out by hand for the small files. The published ones were counted in the library's models
# without numbers (device "meta"), less the experts that are not chosen and the rows of the embedding but one.
for _title, _file, _want, _what in (
    ("one layer, a tied head: a layer of 128, a norm of 4, a head of 40", _SMALL, 172, "a small dense file"),
    ("the same with an untied head: also one row of the embedding", _SMALL | {"tie_word_embeddings": False}, 176,
     "an untied head"),
    ("a head_dim that is not hidden_size / heads", _SMALL | {"head_dim": 5}, 244, "a head_dim of 5"),
    ("SmolLM2 135M, dense and tied: all of its parameters", _SMOLLM2, 134_515_008, "SmolLM2's file"),
    ("LLaMA-3 8B, dense, with an untied head", _LLAMA_3_8B, 7_504_928_768, "LLaMA-3 8B's file"),
    ("no num_key_value_heads: each query head has its own keys and values", _LLAMA_2_7B, 6_607_347_712,
     "LLaMA-2 7B's file"),
    ("two of five experts: a layer of 56 + 20 + 72, a norm of 4, a head of 40", _SMALL | _EXPERTS, 192,
     "two of five experts"),
    ("Qwen3 0.6B: norms of queries and keys", _QWEN3, 596_049_920, "Qwen3 0.6B's file"),
    ("Qwen3 30B: 8 of 128 experts in each of 48 layers", _QWEN3_30B, 3_041_869_824, "Qwen3 30B's file"),
):  # fmt: skip
    active.case(_title, _file, want=_want, what=_what)
