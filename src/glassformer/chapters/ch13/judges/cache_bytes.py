"""Judges "The cache of a file" (chapter 13): bytes of the cache, from a config.json whose layers may have windows."""

from collections.abc import Mapping
from typing import Any

from glassformer.exercises.catalogue import exercise


def cache_bytes(config: Mapping[str, Any], length: int) -> int:
    """Returns how many bytes the cache takes in bfloat16 after `length` positions of one text."""
    H = config["num_attention_heads"]
    G = config.get("num_key_value_heads") or H
    K = config.get("head_dim") or config["hidden_size"] // H
    window = config.get("sliding_window")
    kinds = config.get("layer_types") or ["full_attention"] * config["num_hidden_layers"]
    positions = 0
    for kind in kinds:
        if kind == "sliding_attention" and window:
            positions += min(length, window - 1)
        else:
            positions += length
    return 2 * G * K * positions * 2


room = exercise("real.cache_bytes", cache_bytes)

_SMALL = {
    "hidden_size": 8, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 5,
}  # fmt: skip
_LLAMA_2_7B = {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32}
_LLAMA_3_8B = _LLAMA_2_7B | {"num_key_value_heads": 8, "head_dim": None, "sliding_window": None}
_WINDOWS = _SMALL | {
    "layer_types": ["sliding_attention", "sliding_attention", "full_attention"], "sliding_window": 4,
}  # fmt: skip
_GEMMA_3_27B = {
    "hidden_size": 5376, "num_hidden_layers": 62, "num_attention_heads": 32, "num_key_value_heads": 16,
    "head_dim": 128, "sliding_window": 1024,
    "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 10 + ["sliding_attention"] * 2,
}  # fmt: skip
_GPT_OSS = {
    "hidden_size": 2880, "num_hidden_layers": 36, "num_attention_heads": 64, "num_key_value_heads": 8,
    "head_dim": 64, "sliding_window": 128, "layer_types": ["sliding_attention", "full_attention"] * 18,
}  # fmt: skip

# What is wanted: by hand, a number of numbers × 2 bytes; small files also as the library's cache holds them
room.case("three layers, two key/value heads of 5, seven positions: 420 numbers", _SMALL, 7, want=840)
room.also(_SMALL, 11, want=1320)
room.case(
    "LLaMA-3 8B: four query heads share one key/value head; head_dim is null", _LLAMA_3_8B, 8192, want=2**30
)
room.case(
    "no num_key_value_heads: each query head has its own keys and values", _LLAMA_2_7B, 4096, want=2**31
)
room.case("two windows of 4, shorter than the text: 3 + 3 + 9 positions", _WINDOWS, 9, want=15 * 40)
room.also(_WINDOWS, 4, want=10 * 40)
room.case("a text shorter than the window: 2 + 2 + 2 positions", _WINDOWS, 2, want=6 * 40)
room.also(_WINDOWS, 3, want=9 * 40)
room.case(
    "sliding_window is null: such a layer keeps everything",
    _WINDOWS | {"sliding_window": None},
    9,
    want=27 * 40,
)
room.case(
    "a window that no layer uses",
    _SMALL | {"sliding_window": 4, "layer_types": ["full_attention"] * 3}, 9, want=27 * 40,
    what="a file whose layers all have full attention",
)  # fmt: skip
room.case(
    "Gemma 3 27B: 52 of 62 layers have a window", _GEMMA_3_27B, 100_000,
    want=8192 * (52 * 1023 + 10 * 100_000), what="Gemma 3 27B's file at 100,000",
)  # fmt: skip
room.also(_GPT_OSS, 100_000, want=3_691_081_728, what="gpt-oss-120b's file at 100,000")
