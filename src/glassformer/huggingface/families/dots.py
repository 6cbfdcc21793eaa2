"""dots.llm1, Hy3 and MiniMax-M2: a LLaMA with norms of queries and keys, and experts like those of DeepSeek-V3."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from glassformer import _checks as checks
from glassformer.huggingface.families.deepseek import (
    ALIASES,
    CHOICE_BIAS,
    DRAFTS,
    FIRST,
    MLP,
    OF_EXPERTS,
    PACKED,
    ROUTING,
    WITHOUT_EFFECT,
    routed,
)
from glassformer.huggingface.families.experts import after_first, has_experts, listed, named, packed
from glassformer.huggingface.families.format import Format, Sparse
from glassformer.huggingface.families.llama import LLAMA, NO_FEEDFORWARD_BIASES, RULES, llama_with, windows
from glassformer.huggingface.families.rope import Rope
from glassformer.huggingface.keys import NEEDED, Key, contradiction, each_of

DOTS1 = replace(
    LLAMA,
    model_type="dots1",
    architectures=("Dots1ForCausalLM", "Dots1Model"),
    fields=llama_with({"n_kv_heads": Key("num_key_value_heads", 32), "feedforward_bias": None}),
    always={**LLAMA.always, "qk_norm": True, "feedforward_bias": False},
    kinds=windows(first=Key("max_window_layers", 62)),
    sparse=routed(NEEDED, NEEDED, 1408, after_first(FIRST, 0), n_shared=NEEDED, renormalize=False),
    must_be=(*RULES, NO_FEEDFORWARD_BIASES, *ROUTING),
    aliases=ALIASES,
    without_effect=WITHOUT_EFFECT,
    claims=has_experts,
    layout=replace(LLAMA.layout, names={**LLAMA.layout.names, **OF_EXPERTS}, packed=PACKED, drafts=DRAFTS),
)
HY_V3 = replace(
    DOTS1,
    model_type="hy_v3",
    architectures=("HYV3ForCausalLM", "HYV3Model"),
    fields=llama_with(
        {
            "n_kv_heads": Key("num_key_value_heads", 8),
            "d_head": Key("head_dim", 128),
            "norm_eps": Key("rms_norm_eps", 1e-5),
        },
        DOTS1,
    ),
    rope=Rope(base=11_158_840.0),
    kinds=None,
    sparse=Sparse(
        experts={
            "n_experts": Key("num_experts", 192),
            "top_k": Key("num_experts_per_tok", 8),
            "scores": "sigmoid",
            "choice_bias": True,
            "sum_eps": 1e-20,
            "scale": Key("router_scaling_factor", 2.826),
        },
        d_ff=Key("moe_intermediate_size", 1536),
        n_shared=Key("num_shared_experts", 1),
        where=listed(1),
    ),
    must_be=(*LLAMA.must_be, NO_FEEDFORWARD_BIASES),
    aliases={"num_local_experts": "num_experts"},
    without_effect={
        **WITHOUT_EFFECT,
        FIRST: "mlp_layer_types says it; without that, the first layer is dense",
        "enable_moe_fp32_combine": "says in what type experts are added up: here, in that of the model",
    },
    layout=replace(
        DOTS1.layout,
        names={
            **LLAMA.layout.names,
            **named(MLP, "router.gate", shared="shared_mlp"),
            CHOICE_BIAS: f"{MLP}.expert_bias",
        },
        # In memory
        others=(
            (".mlp.gate.", ".mlp.router.gate."),
            (".shared_experts.", ".shared_mlp."),
            (".e_score_correction_bias", ".expert_bias"),
        ),
    ),
)


def share(form: Format, given: Mapping[str, Any], _: Any) -> dict[str, Any]:
    """Returns the share of a head that rotates, if a file has the number of what rotates."""
    n_rotated, settings = given.get("rotary_dim"), Rope().settings(given)
    d_head = given.get("head_dim", form.fields["d_head"].default)
    if n_rotated is None or d_head is None:
        return {}
    checks.whole("rotary_dim", n_rotated)
    checks.whole("head_dim", d_head)
    said = settings.get("partial_rotary_factor", given.get("partial_rotary_factor"))
    if said not in (None, n_rotated / d_head):
        raise contradiction("rotary_dim", n_rotated, "partial_rotary_factor", said)
    return {"rope_share": n_rotated / d_head}


BLOCK = "model.layers.#.block_sparse_moe"
MINIMAX_M2 = replace(
    LLAMA,
    model_type="minimax_m2",
    architectures=("MiniMaxM2ForCausalLM", "MiniMaxM2Model"),
    fields=llama_with(
        {
            "n_kv_heads": Key("num_key_value_heads", 8),
            "d_head": Key("head_dim", 128),
            "attention_bias": None,
            "feedforward_bias": None,
        }
    ),
    always={**LLAMA.always, "qk_norm": "width", "attention_bias": "none", "feedforward_bias": False},
    rope=Rope(base=5e6, share=1.0),
    sparse=Sparse(
        experts={
            "n_experts": Key("num_local_experts", 256),
            "top_k": Key("num_experts_per_tok", 8),
            "scores": "sigmoid",
            "choice_bias": True,
        }
    ),
    must_be=(
        *LLAMA.must_be,
        NO_FEEDFORWARD_BIASES,
        ("attention_bias", (False, None), "no matrix of attention has biases in this family"),
        ("scoring_func", ("sigmoid", None), "a sigmoid makes the weights of experts in this family"),
        ("use_routing_bias", (True, None), "a learned bias takes part in the choice in this family"),
        ("use_qk_norm", (True, None), "queries and keys are always normed in this family"),
        ("qk_norm_type", ("per_layer", None), "all heads of queries are normed together in this family"),
        ("attn_type_list", (1, None), "no layer of this family has a state"),
        ("shared_intermediate_size", (0, None), "this family has no shared expert"),
    ),
    also=("rotary_dim",),
    aliases={**LLAMA.aliases, "num_experts": "num_local_experts"},
    without_effect={
        **WITHOUT_EFFECT,
        **each_of(
            "counts more layers, which predict the tokens after the next one and are no part of these models",
            "use_mtp num_mtp_modules mtp_transformer_layers",
        ),
    },
    read=share,
    claims=has_experts,
    layout=replace(
        LLAMA.layout,
        names={
            **LLAMA.layout.names,
            **named(BLOCK, W_gate="w1", W_up="w3", W_down="w2"),
            CHOICE_BIAS: f"{BLOCK}.e_score_correction_bias",
        },
        packed=packed(f"{BLOCK}.experts.gate_up_proj", f"{BLOCK}.experts.down_proj"),
        others=((".mlp.", ".block_sparse_moe."),),
        drafts=DRAFTS,
    ),
)
