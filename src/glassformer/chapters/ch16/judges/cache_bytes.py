"""Judges "The cache of a file of 2026" (chapter 16): bytes of the cache, from a config.json."""

from collections.abc import Mapping
from typing import Any

from glassformer.exercises.catalogue import exercise


def cache_bytes(config: Mapping[str, Any], length: int) -> int:
    """Returns how many bytes the cache takes in bfloat16 after `length` positions of one text."""
    get, n_layers, H = config.get, config["num_hidden_layers"], config["num_attention_heads"]
    G, K = get("num_key_value_heads") or H, get("head_dim") or config["hidden_size"] // H
    if get("kv_lora_rank"):
        full = config["kv_lora_rank"] + config["qk_rope_head_dim"]
    else:
        full = 2 * (get("num_global_key_value_heads") or G) * (get("global_head_dim") or K)
    full += get("index_head_dim") or 0
    kinds = get("layer_types") or ["full_attention"] * n_layers
    numbers = 0
    for kind in kinds[: n_layers - (get("num_kv_shared_layers") or 0)]:
        if kind == "sliding_attention":
            numbers += 2 * G * K * min(length, config["sliding_window"] - 1)
        else:
            numbers += full * length
    return 2 * numbers


room = exercise("long.cache_bytes", cache_bytes)

_S, _F = "sliding_attention", "full_attention"
_SMALL = {
    "hidden_size": 24, "num_hidden_layers": 4, "num_attention_heads": 6, "num_key_value_heads": 2,
    "head_dim": 5,
}  # fmt: skip
_ABSENT = (
    *("layer_types", "sliding_window", "kv_lora_rank", "qk_rope_head_dim", "index_head_dim"),
    *("num_global_key_value_heads", "global_head_dim", "num_kv_shared_layers"),
)
_WINDOWS = _SMALL | {"layer_types": [_S, _S, _S, _F], "sliding_window": 4}
_WIDER = _WINDOWS | {"num_global_key_value_heads": 1, "global_head_dim": 8}
_LATENT = _SMALL | {"kv_lora_rank": 11, "qk_rope_head_dim": 3}
_SHARING = _WINDOWS | {
    "num_hidden_layers": 6, "layer_types": [_S, _S, _F, _S, _S, _F], "num_kv_shared_layers": 2,
}  # fmt: skip

_GPT_OSS = {
    "hidden_size": 2880, "num_hidden_layers": 36, "num_attention_heads": 64, "num_key_value_heads": 8,
    "head_dim": 64, "sliding_window": 128, "layer_types": [_S, _F] * 18,
}  # fmt: skip
_DEEPSEEK_V3 = {
    "hidden_size": 7168, "num_hidden_layers": 61, "num_attention_heads": 128, "num_key_value_heads": 128,
    "kv_lora_rank": 512, "qk_rope_head_dim": 64,
}  # fmt: skip
_GEMMA_4_31B = {
    "hidden_size": 5376, "num_hidden_layers": 60, "num_attention_heads": 32, "num_key_value_heads": 16,
    "head_dim": 256, "num_global_key_value_heads": 4, "global_head_dim": 512, "sliding_window": 1024,
    "layer_types": ([_S] * 5 + [_F]) * 10, "num_kv_shared_layers": 0, "attention_k_eq_v": True,
}  # fmt: skip
_GEMMA_4_E2B = {
    "hidden_size": 1536, "num_hidden_layers": 35, "num_attention_heads": 8, "num_key_value_heads": 1,
    "head_dim": 256, "num_global_key_value_heads": None, "global_head_dim": 512, "sliding_window": 512,
    "layer_types": ([_S] * 4 + [_F]) * 7, "num_kv_shared_layers": 20,
}  # fmt: skip

# What is wanted: by hand, numbers × 2 bytes. Of published files, what `anatomy` reads from them
room.case("four layers, two key/value heads of 5, seven positions: 4 · 20 · 7 numbers", _SMALL, 7, want=1120)
room.also(_SMALL | dict.fromkeys(_ABSENT), 7, want=1120, what="the same file with null for all that it lacks")
room.also({"hidden_size": 24, "num_hidden_layers": 4, "num_attention_heads": 6}, 7, want=2688)
room.also(_SMALL | {"head_dim": None}, 7, want=896, what="the same file without head_dim")
room.case(
    "three windows of 4: after nine positions, 3 + 3 + 3 + 9 of them, 20 numbers each", _WINDOWS, 9, want=720
)
room.also(_WINDOWS, 2, want=320)
room.also(_SMALL | {"sliding_window": 4}, 9, want=1440, what="a file without layer_types")
room.case(
    "latents: 11 + 3 numbers for each layer and position", _LATENT, 7, want=784,
    what="a file with latents of 11 numbers and 3 that are rotated",
)  # fmt: skip
_INDEXER = {"index_head_dim": 9, "index_n_heads": 5}
room.case("an indexer: 9 numbers more", _LATENT | _INDEXER, 7, want=1288, what="latents and an indexer")
room.also(_WINDOWS | _INDEXER, 9, want=882, what="windows and an indexer")  # 3 · 3 · 20 + 9 · 29
room.also(_WINDOWS | _LATENT | _INDEXER, 9, want=774, what="windows, latents and an indexer")
room.case(
    "full layers with one head of 8: 3 · 3 · 20 + 9 · 16 numbers", _WIDER, 9, want=648,
    what="a file whose full layers have one key/value head of 8",
)  # fmt: skip
room.also(
    _WIDER | {"num_global_key_value_heads": None}, 9, want=936,
    what="a file whose full layers have heads of 8",
)  # fmt: skip
room.case(
    "the last two of six layers reuse what earlier ones keep: 3 + 3 + 9 + 3 positions", _SHARING, 9, want=720,
    what="a file whose last two layers keep nothing of their own",
)  # fmt: skip
_what = "six layers, of which none reuses anything"
room.also(_SHARING | {"num_kv_shared_layers": 0}, 9, want=1200, what=_what)
room.also(_SHARING | _INDEXER, 9, want=882, what="two layers that reuse, and an indexer")
room.case("gpt-oss-120b", _GPT_OSS, 100_000, want=3_691_081_728, what="gpt-oss-120b's file at 100,000")
room.case("DeepSeek-V3", _DEEPSEEK_V3, 100_000, want=7_027_200_000, what="DeepSeek-V3's file at 100,000")
room.also(
    _DEEPSEEK_V3 | {"index_head_dim": 128}, 100_000, want=8_588_800_000,
    what="DeepSeek-V3.2's file at 100,000",
)  # fmt: skip
room.case("Gemma 4 31B", _GEMMA_4_31B, 100_000, want=9_030_041_600, what="Gemma 4 31B's file at 100,000")
room.case("Gemma 4 E2B", _GEMMA_4_E2B, 100_000, want=620_679_168, what="Gemma 4 E2B's file at 100,000")
