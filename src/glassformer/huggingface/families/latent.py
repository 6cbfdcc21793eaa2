"""Latent attention, with or without an indexer, as files of DeepSeek-V3 and its relatives describe it."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from glassformer import _checks as checks
from glassformer.config import ModelConfig
from glassformer.huggingface.families.format import MANY, flat_kinds, linear, needed
from glassformer.huggingface.families.rope import Rope
from glassformer.huggingface.keys import contradiction, unsupported
from glassformer.layers import Indexer, LatentAttention

ROPE = Rope()
SIZES = {"d_latent": "kv_lora_rank", "d_rotated": "qk_rope_head_dim", "d_value": "v_head_dim"}
INDEX = {"n_heads": "index_n_heads", "d_head": "index_head_dim", "top_k": "index_topk"}
OURS, THEIRS = "decoder.blocks.#.attention", "model.layers.#.self_attn"
OF_LATENT = {
    **dict.fromkeys((f"{OURS}.W_k", f"{OURS}.W_v", f"{OURS}.norm_k")),  # in files of a LLaMA only
    f"{OURS}.W_q_down": linear(f"{THEIRS}.q_a_proj"),
    f"{OURS}.norm_q": f"{THEIRS}.q_a_layernorm",
    f"{OURS}.W_q_up": linear(f"{THEIRS}.q_b_proj"),
    f"{OURS}.W_kv_down": linear(f"{THEIRS}.kv_a_proj_with_mqa"),
    f"{OURS}.norm_kv": f"{THEIRS}.kv_a_layernorm",
    f"{OURS}.W_kv_up": linear(f"{THEIRS}.kv_b_proj"),
    f"{OURS}.indexer.W_q": linear(f"{THEIRS}.indexer.wq_b"),
    f"{OURS}.indexer.W_k": linear(f"{THEIRS}.indexer.wk"),
    f"{OURS}.indexer.norm_k": f"{THEIRS}.indexer.k_norm",
    f"{OURS}.indexer.W_w": linear(f"{THEIRS}.indexer.weights_proj"),
}
Layers = Callable[[Mapping[str, Any], int], list[tuple[str, dict[str, Any]]]]


def latent_layers(n_kv_heads: int | None, index_layout: str | None = None, *, shares: bool = False) -> Layers:
    """Returns what reads the kinds of layers of a family: with indexers of that layout, some of which others share.

    Without num_key_value_heads, a file has `n_kv_heads`, or as many as it has heads.
    """

    def layers(given: Mapping[str, Any], n_layers: int) -> list[tuple[str, dict[str, Any]]]:
        latent, d_head = latent_of(given, n_kv_heads)
        checks.even("qk_rope_head_dim", latent.d_rotated)
        own = {"d_head": d_head, **ROPE.read(given)[""]}
        rope = ROPE.settings(given)
        if rope.get("mscale_all_dim") and rope.get("rope_type", rope.get("type", "default")) != "default":
            for name in ("mscale_all_dim", "factor"):
                checks.not_negative(name, rope[name])
            own["attention_scale"] = _scale(d_head, float(rope["mscale_all_dim"]), float(rope["factor"]))
        words = _words(given, n_layers) if shares else None
        if words is None and n_layers > MANY:
            raise unsupported(given, "num_hidden_layers", f"models have at most {MANY:,} layers")
        if index_layout is None:
            return [("every", own | {"form": latent})] * n_layers
        if given["q_lora_rank"] is None:
            raise ValueError("q_lora_rank is missing")
        indexer = Indexer(
            **{ours: needed(given, theirs) for ours, theirs in INDEX.items()}, layout=index_layout
        )
        if indexer.d_head < latent.d_rotated:
            raise contradiction("index_head_dim", indexer.d_head, "qk_rope_head_dim", latent.d_rotated)
        kinds = {
            "full": own | {"form": replace(latent, indexer=indexer)},
            "shared": own | {"form": replace(latent, borrows_choice=True)},
        }
        return [(word, kinds[word]) for word in words or ["full"] * n_layers]

    return layers


def latent_of(given: Mapping[str, Any], usual: int | None) -> tuple[LatentAttention, int]:
    """Returns latent attention, and the width of its heads, each of which has keys and values."""
    n_heads = needed(given, "num_attention_heads")
    n_kv_heads = given.get("num_key_value_heads", usual)
    if n_kv_heads not in (None, n_heads):
        raise contradiction("num_attention_heads", n_heads, "num_key_value_heads", n_kv_heads)
    for name in ("qk_nope_head_dim", *SIZES.values()):
        checks.whole(name, needed(given, name))
    if "q_lora_rank" not in given:
        raise ValueError("q_lora_rank is missing")
    sizes = {ours: given[theirs] for ours, theirs in SIZES.items()}
    latent = LatentAttention(**sizes, d_query_latent=given["q_lora_rank"])
    return latent, given["qk_nope_head_dim"] + given["qk_rope_head_dim"]


def _scale(d_head: int, below: float, factor: float) -> float:
    """Returns the scale of scores: 1/√K, times the square of a factor that stretched positions bring."""
    m = 0.1 * below * math.log(max(factor, 1)) + 1.0
    return d_head**-0.5 * m * m


def _words(given: Mapping[str, Any], n_layers: int) -> list[str] | None:
    """Returns for each layer whether it has an indexer or shares the choice of another; None if all have one."""
    name = "indexer_types"
    words: Any = given.get(name)
    if words is None and (words := given.get("index_topk_pattern")) is not None:
        name = "index_topk_pattern"
        words = (
            [{"F": "full", "S": "shared"}.get(one, one) for one in words] if isinstance(words, str) else words
        )
    if words is None:
        every, start = given.get("index_topk_freq", 1), given.get("index_skip_topk_offset", 2)
        checks.whole("index_topk_freq", every)
        checks.whole("index_skip_topk_offset", start)
        if every == 1 or n_layers > MANY:
            return None
        words = ["shared" if max(i - start + 1, 0) % every else "full" for i in range(n_layers)]
    if not isinstance(words, list) or any(word not in ("full", "shared") for word in words):
        raise unsupported(given, name, "known are full and shared")
    if len(words) != n_layers:
        raise contradiction("num_hidden_layers", n_layers, f"the length of {name}", len(words))
    if words[0] == "shared":
        raise unsupported(given, name, "no layer is before the first one, whose choice it could share")
    return [str(word) for word in words]


def is_latent(config: ModelConfig, index_layout: str | None = None) -> bool:
    """Returns whether all layers have latent attention, with indexers of that layout; None: without indexers."""
    forms = [kind.get("form") for kind in (config.kinds or {"": {}}).values()]
    return all(
        isinstance(form, LatentAttention)
        and (form.borrows_choice or (None if form.indexer is None else form.indexer.layout) == index_layout)
        for form in forms
    )


def write_latent(config: ModelConfig) -> dict[str, Any]:
    """Returns what a file says of latent attention, and its rotary positions with the factor on scores."""
    forms: list[Any] = [config.layer(i).attention.form for i in range(config.n_layers)]
    latent = forms[0]
    given = {theirs: getattr(latent, ours) for ours, theirs in SIZES.items()}
    given |= {"q_lora_rank": latent.d_query_latent, "head_dim": latent.d_rotated}
    given["qk_nope_head_dim"] = config.d_head - latent.d_rotated
    if latent.indexer is not None:
        given |= {theirs: getattr(latent.indexer, ours) for ours, theirs in INDEX.items()}
    if any(form.borrows_choice for form in forms):
        given["indexer_types"] = ["shared" if form.borrows_choice else "full" for form in forms]
    flat = flat_kinds(config)[0][config.kind(0)]
    rope = ROPE.write({"": flat})
    longer = 0.1 * math.log(max(flat.rope_interpolation, 1.0))
    scale = flat.attention_scale
    if rope["rope_scaling"] is not None and longer > 0 and scale != 1 / math.sqrt(flat.d_head):
        exact = (math.sqrt(scale * math.sqrt(flat.d_head)) - 1.0) / longer
        tried = (round(exact, digits) for digits in range(1, 16))
        same = (one for one in tried if _scale(flat.d_head, one, flat.rope_interpolation) == scale)
        rope["rope_parameters"]["mscale_all_dim"] = next(same, exact)
    return given | rope
