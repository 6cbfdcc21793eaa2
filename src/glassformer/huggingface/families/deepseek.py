"""DeepSeek-V2, V3, which is also Kimi K2, and V3.2: latent attention, experts and, in V3.2, an indexer.

GLM's families and Kimi Linear read them from here.
"""

from functools import partial
from typing import Any

from glassformer.huggingface.families.experts import TRAINING, after_first, either, listed, named, packed
from glassformer.huggingface.families.format import Sparse, Where
from glassformer.huggingface.families.latent import (
    INDEX,
    OF_LATENT,
    ROPE,
    SIZES,
    is_latent,
    latent_layers,
    write_latent,
)
from glassformer.huggingface.families.llama import (
    ALWAYS_DECODERS,
    LLAMA,
    NO_BIASES,
    NO_FEEDFORWARD_BIASES,
    RULES,
    wide_as_its_heads,
)
from glassformer.huggingface.keys import Key, Rule, each_of

# Experts, and layers for drafts

FIRST = "first_k_dense_replace"


def routed(
    n_experts: Any,
    top_k: Any,
    width: int,
    where: Where,
    *,
    n_shared: Any = 1,
    groups: tuple[int, int] = (1, 1),
    renormalize: bool = True,
    scale: float = 1.0,
) -> Sparse:
    """Returns the table of experts like those of DeepSeek-V3: what a family has if its file does not say."""
    return Sparse(
        experts={
            "n_experts": Key("n_routed_experts", n_experts),
            "top_k": Key("num_experts_per_tok", top_k),
            "n_groups": Key("n_group", groups[0]),
            "top_groups": Key("topk_group", groups[1]),
            "group_best": 2,
            "scores": "sigmoid",
            "choice_bias": True,
            "renormalize": either("norm_topk_prob", renormalize),
            "sum_eps": 1e-20,
            "scale": Key("routed_scaling_factor", scale),
        },
        d_ff=Key("moe_intermediate_size", width),
        n_shared=Key("n_shared_experts", n_shared),
        where=where,
    )


MLP = "model.layers.#.mlp"
CHOICE_BIAS = "decoder.blocks.#.feedforward.router.choice_bias"
OF_EXPERTS = {**named(MLP, shared="shared_experts"), CHOICE_BIAS: f"{MLP}.gate.e_score_correction_bias"}
PACKED = packed(f"{MLP}.experts")
ROUTING: tuple[Rule, ...] = (
    ("scoring_func", ("sigmoid", None), "a sigmoid makes the weights of experts in this family"),
    ("topk_method", ("noaux_tc", None), "a learned bias takes part in the choice in this family"),
    ("moe_layer_freq", (1, None), "all layers behind the dense ones have experts"),
)
WITHOUT_EFFECT = {
    **ALWAYS_DECODERS,
    **TRAINING,
    **each_of("concerns training only", "seq_aux aux_loss_alpha"),
    "moe_router_dtype": "says in what type the router computes: here, in float32 at least",
    "ep_size": "says how experts are distributed over devices",
    **each_of(
        "counts more layers, which predict the tokens after the next one and are no part of these models",
        "num_nextn_predict_layers index_share_for_mtp_iteration",
    ),
}
ALIASES = {"num_local_experts": "n_routed_experts"}
DRAFTS = r"^model\.layers\.\d+\.(?=eh_proj\.)"
"""Begins the name of a weight that only a layer for drafts (multi-token prediction) has: it joins two vectors."""


# Families

V3 = LLAMA.derive(
    model_type="deepseek_v3",
    architectures=("DeepseekV3ForCausalLM", "DeepseekV3Model"),
    fields={
        "n_kv_heads": Key("num_key_value_heads", 128),
        "d_head": None,
        "rope_layout": Key("rope_interleave", True, words={True: "interleaved", False: "half"}),
    },
    always={"attention_bias": "none", "feedforward_bias": False},
    rope=ROPE,
    layers=latent_layers(128),
    sparse=routed(256, 8, 2048, after_first(FIRST, 3), scale=2.5, groups=(8, 4)),
    said={"rope_base": "rope_theta", "d_query_latent": "q_lora_rank"},
    must_be=(*RULES, NO_BIASES, NO_FEEDFORWARD_BIASES, *ROUTING),
    also=("qk_nope_head_dim", *SIZES.values(), "q_lora_rank"),
    aliases=ALIASES | {"num_mtp_layers": "num_nextn_predict_layers"},
    without_effect={
        **WITHOUT_EFFECT,
        "max_window_layers": None,
        "head_dim": "the rotated part of a head, as qk_rope_head_dim; transformers overwrites it",
        "qk_head_dim": "the width of a head; transformers computes it",
    },
    write=write_latent,
    claims=is_latent,
    names={**OF_LATENT, **OF_EXPERTS},
    packed=PACKED,
    drafts=DRAFTS,
)
INDEXED = (
    "layer_types",
    ("indexed_attention", "deepseek_sparse_attention", None),
    "every layer has an indexer",
)
INTERLEAVED = ("rope_interleave", (True, None), "the two numbers of a pair lie side by side in this family")
V32 = V3.derive(
    model_type="deepseek_v32",
    architectures=("DeepseekV32ForCausalLM", "DeepseekV32Model"),
    always={"rope_layout": "interleaved"},
    layers=latent_layers(128, "half"),
    sparse=routed(256, 8, 2048, listed(3, first=FIRST), scale=2.5, groups=(8, 4)),
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
    also=(*V3.also, *INDEX.values()),
    aliases=ALIASES | {"num_experts": "n_routed_experts"},
    claims=partial(is_latent, index_layout="half"),
)
V2 = V3.derive(
    model_type="deepseek_v2",
    architectures=("DeepseekV2ForCausalLM", "DeepseekV2Model"),
    fields={"n_kv_heads": Key("num_key_value_heads", None)},
    always={"rope_layout": "interleaved"},
    layers=latent_layers(None),
    sparse=Sparse(
        experts={
            "n_experts": Key("n_routed_experts", 64),
            "top_k": Key("num_experts_per_tok"),
            "n_groups": Key("n_group", None),
            "top_groups": Key("topk_group", None),
            "group_best": Key("topk_method", "greedy", words={"greedy": 0, "group_limited_greedy": 1}),
            "renormalize": False,
            "scale": Key("routed_scaling_factor", 1.0),
        },
        d_ff=Key("moe_intermediate_size", 1407),
        n_shared=Key("n_shared_experts", 2),
        where=after_first(FIRST, 0),
    ),
    must_be=(
        *(rule for rule in V3.must_be if rule not in ROUTING[:2]),
        ("scoring_func", ("softmax", None), "a softmax makes the weights of experts in this family"),
        ("norm_topk_prob", (False, None), "weights of experts are not divided by their sum in this family"),
    ),
    aliases={"num_experts": "n_routed_experts"},
    claims=lambda config: is_latent(config) and wide_as_its_heads(config),
    names={CHOICE_BIAS: None},
)
