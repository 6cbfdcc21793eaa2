"""DeepSeek-V3, which is also Kimi K2, and V3.2: latent attention and, in V3.2, an indexer. GLM-5 reads them from here.

Models whose layers are all dense are read; experts are refused.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any

from glassformer import _checks as checks
from glassformer.config import ModelConfig
from glassformer.huggingface.families.format import Format, Layout, linear, needed
from glassformer.huggingface.families.llama import (
    ALWAYS_DECODERS,
    LLAMA,
    NO_BIASES,
    NO_FEEDFORWARD_BIASES,
    RULES,
    llama_with,
)
from glassformer.huggingface.families.rope import Rope
from glassformer.huggingface.keys import Key, contradiction, each_of, unsupported
from glassformer.layers import Indexer, LatentAttention

# Experts, of which these models must have none, and layers for drafts

WITHOUT_EXPERTS = {
    **ALWAYS_DECODERS,
    **each_of(
        "concerns experts, which no layer has",
        "n_routed_experts n_shared_experts num_experts num_experts_per_tok moe_intermediate_size moe_layer_freq "
        "moe_router_dtype n_group topk_group topk_method norm_topk_prob routed_scaling_factor scoring_func seq_aux "
        "aux_loss_alpha router_aux_loss_coef output_router_logits ep_size",
    ),
    **each_of(
        "counts more layers, which predict the tokens after the next one and are no part of these models",
        "num_nextn_predict_layers index_share_for_mtp_iteration",
    ),
}
ALIASES = {"num_local_experts": "n_routed_experts"}
DRAFTS = r"^model\.layers\.\d+\.(?=eh_proj\.)"
"""Begins the name of a weight that only a layer for drafts (multi-token prediction) has: it joins two vectors."""


def read_dense(_: Format, given: Mapping[str, Any], __: Any, *, usual: int = 3) -> dict[str, Any]:
    """Checks that no layer has experts; a file that does not say has them after the `usual` number of layers."""
    n_layers, name = needed(given, "num_hidden_layers"), "first_k_dense_replace"
    checks.whole("num_hidden_layers", n_layers)
    listed = given.get("mlp_layer_types")
    if listed is not None:
        name, value = "mlp_layer_types", listed
        if not isinstance(listed, list):
            raise unsupported(given, name, "it must be a list with a word for each layer")
        if len(listed) != n_layers:
            raise contradiction("num_hidden_layers", n_layers, "the length of mlp_layer_types", len(listed))
        n_dense = next((i for i, word in enumerate(listed) if word != "dense"), n_layers)
    else:
        value = n_dense = given.get(name, usual)
        checks.whole(name, n_dense, at_least=0)
    if n_dense < n_layers:
        raise unsupported({name: value}, name, f"experts are not built yet; layer {n_dense} has some")
    return {}


# Latent attention

SIZES = {"d_latent": "kv_lora_rank", "d_rotated": "qk_rope_head_dim", "d_value": "v_head_dim"}
INDEX = {"n_heads": "index_n_heads", "d_head": "index_head_dim", "top_k": "index_topk"}
OF_LATENT = {
    "W_q_down": linear("model.layers.#.self_attn.q_a_proj"),
    "norm_q": "model.layers.#.self_attn.q_a_layernorm",
    "W_q_up": linear("model.layers.#.self_attn.q_b_proj"),
    "W_kv_down": linear("model.layers.#.self_attn.kv_a_proj_with_mqa"),
    "norm_kv": "model.layers.#.self_attn.kv_a_layernorm",
    "W_kv_up": linear("model.layers.#.self_attn.kv_b_proj"),
    "indexer.W_q": linear("model.layers.#.self_attn.indexer.wq_b"),
    "indexer.W_k": linear("model.layers.#.self_attn.indexer.wk"),
    "indexer.norm_k": "model.layers.#.self_attn.indexer.k_norm",
    "indexer.W_w": linear("model.layers.#.self_attn.indexer.weights_proj"),
}
LISTED = 10_000
"""How many layers at most are counted out, where a file gives a rule for them."""
NOT_LATENT = (".attention.W_k", ".attention.W_v", ".attention.norm_k")


def read_latent(
    form: Format, given: Mapping[str, Any], state: Any, *, index_layout: str | None = None
) -> dict[str, Any]:
    """Returns the width of a head, the scale of scores, and the kinds of layers, with indexers of that layout."""
    read_dense(form, given, state)
    latent, d_head = latent_of(form, given)
    checks.even("qk_rope_head_dim", latent.d_rotated)
    if given["q_lora_rank"] is None and index_layout is not None:
        raise ValueError("q_lora_rank is missing")
    found: dict[str, Any] = {"d_head": d_head}
    rope = Rope().settings(given)
    if rope.get("mscale_all_dim") and rope.get("rope_type", rope.get("type", "default")) != "default":
        for name in ("mscale_all_dim", "factor"):
            checks.not_negative(name, rope[name])
        found["attention_scale"] = _scale(d_head, rope["mscale_all_dim"], rope["factor"])
    if index_layout is None:
        return found | {"kinds": {"every": {"form": latent}}}
    indexer = Indexer(**{ours: needed(given, theirs) for ours, theirs in INDEX.items()}, layout=index_layout)
    if indexer.d_head < latent.d_rotated:
        raise contradiction("index_head_dim", indexer.d_head, "qk_rope_head_dim", latent.d_rotated)
    kinds = {"full": {"form": replace(latent, indexer=indexer)}}
    words = _words(form, given)
    if words is None:
        return found | {"kinds": kinds}
    kinds["shared"] = {"form": replace(latent, borrows_choice=True)}
    order = " ".join(f"{word}*{len(list(run))}" for word, run in groupby(words))
    return found | {"kinds": kinds, "order": order}


def latent_of(form: Format, given: Mapping[str, Any]) -> tuple[LatentAttention, int]:
    """Returns latent attention, and the width of its heads, each of which has keys and values."""
    n_heads = needed(given, "num_attention_heads")
    n_kv_heads = given.get("num_key_value_heads", form.fields["n_kv_heads"].default)
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


def _words(form: Format, given: Mapping[str, Any]) -> list[str] | None:
    """Returns for each layer whether it has an indexer or shares the choice of another; None if all have one."""
    if "indexer_types" not in form.keys:
        return None
    n_layers, name = given["num_hidden_layers"], "indexer_types"
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
        if every == 1:
            return None
        if n_layers > LISTED:
            raise unsupported(given, "num_hidden_layers", "this many layers must be listed in indexer_types")
        words = ["shared" if max(i - start + 1, 0) % every else "full" for i in range(n_layers)]
    if not isinstance(words, list) or any(word not in ("full", "shared") for word in words):
        raise unsupported(given, name, "known are full and shared")
    if len(words) != n_layers:
        raise contradiction("num_hidden_layers", n_layers, f"the length of {name}", len(words))
    if words[0] == "shared":
        raise unsupported(given, name, "no layer is before the first one, whose choice it could share")
    return [str(word) for word in words] if "shared" in words else None


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
    latent: Any = config.layer(0).attention.form
    given = {theirs: getattr(latent, ours) for ours, theirs in SIZES.items()}
    given |= {"q_lora_rank": latent.d_query_latent, "head_dim": latent.d_rotated}
    given |= {"qk_nope_head_dim": config.d_head - latent.d_rotated, "first_k_dense_replace": config.n_layers}
    if latent.indexer is not None:
        given |= {theirs: getattr(latent.indexer, ours) for ours, theirs in INDEX.items()}
    if any(kind["form"].borrows_choice for kind in (config.kinds or {}).values()):
        layers: Any = (config.layer(i).attention.form for i in range(config.n_layers))
        given["indexer_types"] = ["shared" if form.borrows_choice else "full" for form in layers]
    rope = Rope().write({"": config})
    longer = 0.1 * math.log(max(config.rope_interpolation, 1.0))
    scale = config.attention_scale
    if rope["rope_scaling"] is not None and longer > 0 and scale != 1 / math.sqrt(config.d_head):
        exact = (math.sqrt(scale * math.sqrt(config.d_head)) - 1.0) / longer
        tried = (round(exact, digits) for digits in range(1, 16))
        same = (one for one in tried if _scale(config.d_head, one, config.rope_interpolation) == scale)
        rope["rope_parameters"]["mscale_all_dim"] = next(same, exact)
    return given | rope


# Families

V3 = Format(
    model_type="deepseek_v3",
    architectures=("DeepseekV3ForCausalLM", "DeepseekV3Model"),
    fields=llama_with(
        {
            "n_kv_heads": Key("num_key_value_heads", 128),
            "d_head": None,
            "attention_bias": None,
            "feedforward_bias": None,
            "rope_layout": Key("rope_interleave", True, words={True: "interleaved", False: "half"}),
        }
    ),
    always={**LLAMA.always, "attention_bias": "none", "feedforward_bias": False},
    rope=Rope(),
    said={"rope_base": "rope_theta", "d_query_latent": "q_lora_rank"},
    must_be=(*RULES, NO_BIASES, NO_FEEDFORWARD_BIASES),
    also=("qk_nope_head_dim", *SIZES.values(), "q_lora_rank", "first_k_dense_replace"),
    aliases=ALIASES | {"num_mtp_layers": "num_nextn_predict_layers"},
    without_effect={
        **WITHOUT_EXPERTS,
        "head_dim": "the rotated part of a head, as qk_rope_head_dim; transformers overwrites it",
        "qk_head_dim": "the width of a head; transformers computes it",
    },
    written=LLAMA.written,
    read=read_latent,
    write=write_latent,
    claims=is_latent,
    layout=Layout(
        names={
            **{ours: name for ours, name in LLAMA.layout.names.items() if not ours.endswith(NOT_LATENT)},
            **{f"decoder.blocks.#.attention.{ours}": OF_LATENT[ours] for ours in OF_LATENT},
        },
        prefix=LLAMA.layout.prefix,
        copies=LLAMA.layout.copies,
        ignored=LLAMA.layout.ignored,
        drafts=DRAFTS,
    ),
)
INDEXED = (
    "layer_types",
    ("indexed_attention", "deepseek_sparse_attention", None),
    "every layer has an indexer",
)
INTERLEAVED = ("rope_interleave", (True, None), "the two numbers of a pair lie side by side in this family")
V32 = replace(
    V3,
    model_type="deepseek_v32",
    architectures=("DeepseekV32ForCausalLM", "DeepseekV32Model"),
    fields=llama_with({"rope_layout": None}, V3),
    always={**V3.always, "rope_layout": "interleaved"},
    must_be=(
        *V3.must_be,
        INDEXED,
        INTERLEAVED,
        (
            "indexer_rope_interleave",
            (False, None),
            "the indexer's pairs lie half its width apart in this family",
        ),
    ),
    said={**V3.said, "top_k": "index_topk"},
    also=(*V3.also, *INDEX.values(), "mlp_layer_types"),
    aliases=ALIASES,
    read=partial(read_latent, index_layout="half"),
    claims=partial(is_latent, index_layout="half"),
)
