"""DeepSeek-V2, V3, which is also Kimi K2, and V3.2: latent attention, experts and, in V3.2, an indexer.

GLM's families and Kimi Linear read them from here.
"""

from functools import partial
from typing import Any

from glassformer.huggingface.families import latent
from glassformer.huggingface.families.experts import (
    TRAINING,
    after_first,
    either,
    listed,
    mixture,
    named,
    packed,
)
from glassformer.huggingface.families.format import Sparse, Where
from glassformer.huggingface.families.llama import (
    ALWAYS_DECODERS,
    LLAMA,
    NO_BIASES,
    NO_FEEDFORWARD_BIASES,
    RULES,
    wide_as_its_heads,
)
from glassformer.huggingface.keys import NEEDED, Key, Rule, each_of, with_default

# Experts, and layers for drafts

FIRST = "first_k_dense_replace"
BIASED: dict[str, Any] = {"scores": "sigmoid", "choice_bias": True}
"""Scores and a choice as in DeepSeek-V3."""
ROUTED = {
    "n_groups": Key("n_group", 1),
    "top_groups": Key("topk_group", 1),
    "renormalize": either("norm_topk_prob", True),
    "scale": Key("routed_scaling_factor", 1.0),
    "n_shared": Key("n_shared_experts", 1),
}


def routed(n_experts: Any, top_k: Any, width: int, where: Where, **others: Any) -> Sparse:
    """Returns the table of experts like those of DeepSeek-V3; numbers are what a family has if its file does not say.

    The `others` are such defaults for the keys in `ROUTED`, or keys that take their place.
    """
    keys = ROUTED | {ours: with_default(ROUTED[ours], other) for ours, other in others.items()}
    every = with_default(Key("n_routed_experts"), n_experts)
    return mixture(every, top_k, width, where, group_best=2, sum_eps=1e-20, **BIASED, **keys)


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
        "n_kv_heads": 128,
        "d_head": None,
        "rope_layout": Key("rope_interleave", True, words={True: "interleaved", False: "half"}),
    },
    always={"attention_bias": "none", "feedforward_bias": False},
    rope=latent.ROPE,
    layers=latent.latent_layers(128),
    sparse=routed(256, 8, 2048, after_first(FIRST, 3), scale=2.5, n_groups=8, top_groups=4),
    said={"rope_base": "rope_theta", "d_query_latent": "q_lora_rank"},
    must_be=(*RULES, NO_BIASES, NO_FEEDFORWARD_BIASES, *ROUTING),
    also=("qk_nope_head_dim", *latent.SIZES.values(), "q_lora_rank"),
    aliases=ALIASES | {"num_mtp_layers": "num_nextn_predict_layers"},
    without_effect={
        **WITHOUT_EFFECT,
        "max_window_layers": None,
        "head_dim": "the rotated part of a head, as qk_rope_head_dim; transformers overwrites it",
        "qk_head_dim": "the width of a head; transformers computes it",
    },
    write=latent.write_latent,
    claims=latent.is_latent,
    names={**latent.OF_LATENT, **OF_EXPERTS},
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
    layers=latent.latent_layers(128, "half"),
    sparse=routed(256, 8, 2048, listed(3, first=FIRST), scale=2.5, n_groups=8, top_groups=4),
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
    also=(*V3.also, *latent.INDEX.values()),
    aliases=ALIASES | {"num_experts": "n_routed_experts"},
    claims=partial(latent.is_latent, index_layout="half"),
)
V2 = V3.derive(
    model_type="deepseek_v2",
    architectures=("DeepseekV2ForCausalLM", "DeepseekV2Model"),
    fields={"n_kv_heads": Key("num_key_value_heads", None)},
    always={"rope_layout": "interleaved"},
    layers=latent.latent_layers(None),
    sparse=mixture(
        *(Key("n_routed_experts", 64), NEEDED, 1407, after_first(FIRST, 0)),
        n_shared=Key("n_shared_experts", 2),
        n_groups=Key("n_group", None),
        top_groups=Key("topk_group", None),
        group_best=Key("topk_method", "greedy", words={"greedy": 0, "group_limited_greedy": 1}),
        renormalize=False,
        scale=Key("routed_scaling_factor", 1.0),
    ),
    must_be=(
        *(rule for rule in V3.must_be if rule not in ROUTING[:2]),
        ("scoring_func", ("softmax", None), "a softmax makes the weights of experts in this family"),
        ("norm_topk_prob", (False, None), "weights of experts are not divided by their sum in this family"),
    ),
    aliases={"num_experts": "n_routed_experts"},
    claims=lambda config: latent.is_latent(config) and wide_as_its_heads(config),
    names={CHOICE_BIAS: None},
)
