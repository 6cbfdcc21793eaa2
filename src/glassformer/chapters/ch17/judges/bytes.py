"""Judges "The cache of a hybrid" (chapter 17): bytes of what all layers keep, from a config.json."""

from collections.abc import Mapping
from typing import Any

from glassformer.exercises.catalogue import exercise


def hybrid_bytes(config: Mapping[str, Any], length: int) -> int:
    """Returns how many bytes are kept after `length` positions of one text, with states in float32."""
    kinds = config.get("layer_types")
    if not kinds:
        every = config["full_attention_interval"]
        n_layers = config["num_hidden_layers"]
        kinds = ["linear_attention" if (i + 1) % every else "full_attention" for i in range(n_layers)]
    n_full = kinds.count("full_attention")
    n_states = len(kinds) - n_full
    full = 2 * config["num_key_value_heads"] * config["head_dim"] * length

    keys = config["linear_num_key_heads"] * config["linear_key_head_dim"]
    values = config["linear_num_value_heads"] * config["linear_value_head_dim"]
    state = config["linear_num_value_heads"] * config["linear_key_head_dim"] * config["linear_value_head_dim"]
    inputs = (config["linear_conv_kernel_dim"] - 1) * (2 * keys + values)
    return 2 * n_full * full + n_states * (4 * state + 2 * inputs)


hybrid = exercise("state.bytes", hybrid_bytes)

_L, _F = "linear_attention", "full_attention"
_SMALL = {
    "num_hidden_layers": 3, "layer_types": [_L, _L, _F], "num_attention_heads": 8, "num_key_value_heads": 2,
    "head_dim": 10, "linear_num_key_heads": 3, "linear_key_head_dim": 5, "linear_num_value_heads": 9,
    "linear_value_head_dim": 7, "linear_conv_kernel_dim": 4,
}  # fmt: skip
_QWEN3_NEXT = {
    "full_attention_interval": 4, "head_dim": 256, "hidden_size": 2048, "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
    "linear_value_head_dim": 128, "num_attention_heads": 16, "num_hidden_layers": 48,
    "num_key_value_heads": 2,
}  # fmt: skip

# What is wanted, by hand: a full layer keeps 2 · 2 · 10 numbers for each position, 80 bytes. A state has 9 · 5 · 7
# numbers, 1260 bytes, and its convolution keeps 3 · (15 + 15 + 63), 558 bytes. The number of the published file is
# that of `inside.cache_bytes(anatomy.read(file), length, bytes_per_number=2)`
hybrid.case(
    "full attention alone: 80 bytes for each position of a layer",
    _SMALL | {"layer_types": [_F] * 3}, 11, want=2640, what="three full layers after 11 positions",
)  # fmt: skip
hybrid.case(
    "a state of 9 · 5 · 7 numbers, and three inputs of 15 + 15 + 63",
    _SMALL | {"layer_types": [_L], "num_hidden_layers": 1}, 11, want=1818, what="one layer with a state",
)  # fmt: skip
hybrid.also(
    _SMALL | {"layer_types": [_L], "num_hidden_layers": 1, "linear_conv_kernel_dim": 2}, 11, want=1446,
    what="one layer with a state and a convolution of two taps",
)  # fmt: skip
hybrid.case("two layers with a state and a full one: 2 · 1818 + 11 · 80", _SMALL, 11, want=4516)
hybrid.also(_SMALL, 1, want=3716)
_every = _SMALL | {"layer_types": None, "num_hidden_layers": 7, "full_attention_interval": 3}
hybrid.case(
    "without layer_types: every third of seven layers is full, so layers 2 and 5",
    _every, 11, want=10_850, what="seven layers, of which every third is full",
)  # fmt: skip
hybrid.also(
    {name: value for name, value in _every.items() if name != "layer_types"} | {"full_attention_interval": 4},
    11, want=11_788, what="seven layers, of which every fourth is full",
)  # fmt: skip
hybrid.also(
    _SMALL | {"full_attention_interval": 2, "layer_types": [_F, _L, _F]}, 11, want=3578,
    what="a file with layer_types and an interval that differs",
)  # fmt: skip
hybrid.case(
    "Qwen3-Next 80B-A3B", _QWEN3_NEXT, 100_000, want=2_534_866_944, what="Qwen3-Next's file at 100,000"
)
