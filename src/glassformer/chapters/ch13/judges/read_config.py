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

_LLAMA_3_8B = {
    "model_type": "llama", "vocab_size": 128_256, "hidden_size": 4096, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14_336,
}  # fmt: skip
_LLAMA_2_7B = {
    "model_type": "llama", "vocab_size": 32_000, "hidden_size": 4096, "num_hidden_layers": 32,
    "num_attention_heads": 32, "intermediate_size": 11_008,
}  # fmt: skip
_QWEN3 = {
    "model_type": "qwen3", "vocab_size": 151_936, "hidden_size": 1024, "num_hidden_layers": 28, "head_dim": 128,
    "num_attention_heads": 16, "num_key_value_heads": 8, "intermediate_size": 3072,
}  # fmt: skip

fields.case(
    "LLaMA-3 8B: four query heads share one key/value head",
    _LLAMA_3_8B,
    want=(128, 4, 131_072),
    what="LLaMA-3 8B's file",
)
fields.case(
    "no num_key_value_heads: each query head has its own keys and values",
    _LLAMA_2_7B,
    want=(128, 1, 524_288),
    what="LLaMA-2 7B's file",
)
fields.case(
    "a head_dim that is not hidden_size / heads", _QWEN3, want=(128, 2, 114_688), what="Qwen3 0.6B's file"
)
fields.case(
    "null means the same as a missing field", _LLAMA_2_7B | {"num_key_value_heads": None, "head_dim": None},
    want=(128, 1, 524_288), what="a file with null in it",
)  # fmt: skip


def _fields(head=True, default=lambda H: H, factor=4, layers=True, asking=False, turned=False, hidden=False):
    def wrong(config):
        H = config["num_attention_heads"]
        G = config.get("num_key_value_heads") or default(H)
        K = (config.get("head_dim") if head else None) or config["hidden_size"] // H
        shared = G if turned else H // G
        width = config["hidden_size"] if hidden else (H if asking else G) * K
        return K, shared, factor * (config["num_hidden_layers"] if layers else 1) * width

    return wrong


fields.mistake("head_dim", _fields(head=False))
fields.mistake("one for all", _fields(default=lambda H: 1))
fields.mistake("keys alone", _fields(factor=2))
fields.mistake("float32", _fields(factor=8))
fields.mistake("bits", _fields(factor=32))
fields.mistake("one block", _fields(layers=False))
fields.mistake("heads that ask", _fields(asking=True))
fields.mistake("width of the stream", _fields(hidden=True))
fields.mistake("how many answer", _fields(turned=True))


@fields.mistake("not in the file")
def _(config):
    return config["head_dim"]


@fields.mistake("not in the file")
def _(config):
    return read_config(config | {"num_key_value_heads": config["num_key_value_heads"]})
