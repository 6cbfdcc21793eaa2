"""Judges "Read a config.json" (chapter 13): a head's size, shared heads and bytes of cache, from a config.json."""

from collections.abc import Mapping
from typing import Any

from glassformer.exercises.catalogue import exercise


def read_config(config: Mapping[str, Any]) -> tuple[int, int, int]:
    """Reads from a LLaMA's config.json: a head's size, query heads per key-value head, bytes of cache per token."""
    H = config["num_attention_heads"]
    G = config.get("num_key_value_heads") or H
    K = config.get("head_dim") or config["hidden_size"] // H
    return K, H // G, 2 * config["num_hidden_layers"] * G * K * 2


fields = exercise("real.read_config", read_config, parts=("d_head", "shared", "cache_bytes"))

_LLAMA_2_7B = {
    "model_type": "llama", "vocab_size": 32_000, "hidden_size": 4096, "num_hidden_layers": 32,
    "num_attention_heads": 32, "intermediate_size": 11_008,
}  # fmt: skip
_LLAMA_3_8B = _LLAMA_2_7B | {"vocab_size": 128_256, "num_key_value_heads": 8, "intermediate_size": 14_336}
_QWEN3 = {
    "model_type": "qwen3", "vocab_size": 151_936, "hidden_size": 1024, "num_hidden_layers": 28, "head_dim": 128,
    "num_attention_heads": 16, "num_key_value_heads": 8, "intermediate_size": 3072,
}  # fmt: skip

_NULL = _LLAMA_2_7B | {"num_key_value_heads": None, "head_dim": None}
for _title, _file, _want, _what in (
    ("LLaMA-3 8B: four query heads share one key/value head", _LLAMA_3_8B, (128, 4, 131_072), "LLaMA-3 8B's file"),
    ("no num_key_value_heads: each query head has its own keys and values", _LLAMA_2_7B, (128, 1, 524_288),
     "LLaMA-2 7B's file"),
    ("a head_dim that is not hidden_size / heads", _QWEN3, (128, 2, 114_688), "Qwen3 0.6B's file"),
    ("null means the same as a missing field", _NULL, (128, 1, 524_288), "a file with null in it"),
):  # fmt: skip
    fields.case(_title, _file, want=_want, what=_what)
