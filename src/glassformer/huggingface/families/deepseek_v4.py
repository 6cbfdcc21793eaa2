"""DeepSeek-V4: attention to a window and to compressed tokens. Streams and experts of whole models are not read yet.

The names of weights are those of a model in memory; files have others. A layer with a compressor has a base and a
stretching of its own.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from glassformer import _checks as checks
from glassformer.huggingface.families.format import (
    Place,
    always,
    claims_none,
    linear,
    needed,
    words_of_layers,
)
from glassformer.huggingface.families.llama import LLAMA, NO_BIASES, NO_FEEDFORWARD_BIASES, RULES, llama_with
from glassformer.huggingface.families.rope import OfKind, Rope
from glassformer.huggingface.keys import Key, contradiction, each_of, unsupported
from glassformer.layers import CompressedAttention, Indexer

WINDOW, CHOSEN, ALL = "sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"
NAMES = {WINDOW: "window", CHOSEN: "chosen", ALL: "all"}
RATIOS = {0: WINDOW, 4: CHOSEN, 128: ALL}
RATES = {CHOSEN: ("compress_rate_csa", 4), ALL: ("compress_rate_hca", 128)}
ROPE = Rope(
    kinds={
        "main": OfKind("main", "rope_theta", 10_000.0, False),
        "compress": OfKind("compress", "compress_rope_theta", 160_000.0, True),
    }
)
SIZES = {
    "d_query_latent": ("q_lora_rank", 1024),
    "n_groups": ("o_groups", 8),
    "d_group": ("o_lora_rank", 1024),
}
OF_INDEXER = {
    "n_heads": ("index_n_heads", 64),
    "d_head": ("index_head_dim", 128),
    "top_k": ("index_topk", 512),
}


def _value(given: Mapping[str, Any], name: str, default: Any) -> Any:
    return needed({name: default, **given}, name)


def layers(given: Mapping[str, Any], n_layers: int) -> list[tuple[str, dict[str, Any]]]:
    """Returns the kind of each layer and what it has."""
    words, ratios = list(NAMES), given.get("compress_ratios")
    if ratios is not None and given.get("layer_types") is None:
        if (
            not isinstance(ratios, list)
            or len(ratios) < n_layers
            or any(ratio not in RATIOS for ratio in ratios)
        ):
            raise unsupported(given, "compress_ratios", "it must have 0, 4 or 128 for each layer")
        given = {**given, "layer_types": [RATIOS[ratio] for ratio in ratios[:n_layers]]}
    listed = words_of_layers(
        given, n_layers, "layer_types", words, lambda i: CHOSEN if i > 1 and i % 2 else ALL
    )
    rates = {word: usual for word, (_, usual) in RATES.items()} if given.get("compress_rates") is None else {}
    rates |= given.get("compress_rates") or {}
    rates |= {word: given[key] for word, (key, _) in RATES.items() if given.get(key) is not None}
    if set(rates) != set(RATES):
        raise unsupported(given, "compress_rates", f"it must have {CHOSEN} and {ALL}")
    sizes = {ours: _value(given, *key) for ours, key in SIZES.items()} | {"d_rotated": _rotated(given)}
    index = Indexer(**{ours: _value(given, *key) for ours, key in OF_INDEXER.items()}, layout="interleaved")
    window, rope = {"sliding_window": _value(given, "sliding_window", 128)}, ROPE.read(_in_kinds(given))
    compressed = window | rope["compress"]
    own: dict[str, dict[str, Any]] = {
        WINDOW: window | rope["main"] | {"form": CompressedAttention(**sizes)},
        CHOSEN: compressed
        | {"form": CompressedAttention(**sizes, compress=rates[CHOSEN], overlapping=True, indexer=index)},
        ALL: compressed | {"form": CompressedAttention(**sizes, compress=rates[ALL])},
    }
    return [(NAMES[word], own[word]) for word in listed]


def _rotated(given: Mapping[str, Any]) -> int:
    """Returns how many features of a head are rotated."""
    width, share = given.get("head_dim", 512), given.get("partial_rotary_factor")
    checks.whole("head_dim", width)
    wide = given.get("qk_rope_head_dim")
    if share is None:
        return int(width / 8) if wide is None else wide
    checks.positive("partial_rotary_factor", share)
    if wide not in (None, int(width * share)):
        raise contradiction("partial_rotary_factor", share, "qk_rope_head_dim", wide)
    return int(width * share)


def _in_kinds(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the file with settings for both kinds: if there is one object, it is that of layers with a compressor."""
    settings = given.get("rope_scaling") or given.get("rope_parameters") or {}
    nested = isinstance(settings, dict) and "main" in settings
    if not isinstance(settings, dict):
        raise unsupported(given, "rope_parameters", "it must be an object")
    each = settings if nested else {"compress": {k: v for k, v in settings.items() if k != "rope_theta"}}
    for own in each.values():
        share = own.get("partial_rotary_factor") if isinstance(own, dict) else None
        if share is not None:
            checks.positive("partial_rotary_factor", share)
            if int(given.get("head_dim", 512) * share) != _rotated(given):
                raise contradiction(
                    "partial_rotary_factor", share, "the rotated part of a head", _rotated(given)
                )
    each = {
        word: {k: v for k, v in own.items() if k != "partial_rotary_factor"} if isinstance(own, dict) else own
        for word, own in each.items()
    }
    if not nested and each["compress"].get("rope_type", each["compress"].get("type")) == "yarn":
        each["compress"].setdefault("attention_factor", 1.0)
    outside = {"partial_rotary_factor", "rope_scaling"}
    return {k: v for k, v in given.items() if k not in outside} | {"rope_parameters": each}


def _compressor(ours: str, theirs: str) -> dict[str, Place | str]:
    return {
        f"{ours}.W_kv": linear(f"{theirs}.kv_proj"),
        f"{ours}.W_gate": linear(f"{theirs}.gate_proj"),
        ours: theirs,  # position_bias
        f"{ours}.norm": f"{theirs}.kv_norm",
    }


OURS, THEIRS = "decoder.blocks.#.attention", "model.layers.#.self_attn"
DEEPSEEK_V4 = replace(
    LLAMA,
    model_type="deepseek_v4",
    architectures=("DeepseekV4ForCausalLM", "DeepseekV4Model"),
    fields=llama_with(
        {
            "n_kv_heads": Key("num_key_value_heads", 1),
            "d_head": Key("head_dim", 512),
            "d_ff": Key("moe_intermediate_size", 2048),
            "attention_bias": None,
            "feedforward_bias": None,
        }
    ),
    always={
        **LLAMA.always,
        "rope_layout": "interleaved",
        "attention_bias": "none",
        "feedforward_bias": False,
    },
    rope=ROPE,
    layers=layers,
    must_be=(
        *RULES,
        NO_BIASES,
        NO_FEEDFORWARD_BIASES,
        (
            "num_key_value_heads",
            (1,),
            "all heads of this family read the same keys, which are also the values",
        ),
    ),
    lacks=(
        always("hc_mult", 4, "the streams of whole models are not read yet"),
        always("n_routed_experts", 256, "the experts of whole models are not read yet"),
    ),
    also=(
        *("layer_types", "compress_ratios", "compress_rates", "compress_rate_csa", "compress_rate_hca"),
        *(name for name, _ in (*SIZES.values(), *OF_INDEXER.values())),
        *("sliding_window", "qk_rope_head_dim", "partial_rotary_factor"),
    ),
    aliases={"num_local_experts": "n_routed_experts", "intermediate_size": "moe_intermediate_size"},
    without_effect={
        **LLAMA.without_effect,
        **each_of(
            "belongs to the streams and the experts, for which a whole model is refused",
            "hc_sinkhorn_iters hc_eps mlp_layer_types num_hash_layers num_experts_per_tok n_shared_experts "
            "scoring_func norm_topk_prob routed_scaling_factor swiglu_limit output_router_logits router_aux_loss_coef "
            "router_jitter_noise topk_method expert_dtype",
        ),
        "num_nextn_predict_layers": "belongs to layers that predict several tokens, which are left out",
    },
    claims=claims_none,
    layout=replace(
        LLAMA.layout,
        names={
            **{name: place for name, place in LLAMA.layout.names.items() if ".attention." not in name},
            OURS: THEIRS,  # sinks
            f"{OURS}.W_q_down": linear(f"{THEIRS}.q_a_proj"),
            f"{OURS}.norm_q": f"{THEIRS}.q_a_norm",
            f"{OURS}.W_q_up": linear(f"{THEIRS}.q_b_proj"),
            f"{OURS}.W_kv": linear(f"{THEIRS}.kv_proj"),
            f"{OURS}.norm_kv": f"{THEIRS}.kv_norm",
            f"{OURS}.W_o_down": Place(f"{THEIRS}.o_a_proj", grouped=True),
            f"{OURS}.W_o_up": linear(f"{THEIRS}.o_b_proj"),
            f"{OURS}.indexer.W_q": linear(f"{THEIRS}.compressor.indexer.q_b_proj"),
            f"{OURS}.indexer.W_w": linear(f"{THEIRS}.compressor.indexer.scorer.weights_proj"),
            **_compressor(f"{OURS}.compressor", f"{THEIRS}.compressor"),
            **_compressor(f"{OURS}.indexer.compressor", f"{THEIRS}.compressor.indexer"),
        },
    ),
)
