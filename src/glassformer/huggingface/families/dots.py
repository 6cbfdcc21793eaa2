"""dots.llm1 and Hy3: a LLaMA with norms of queries and keys, and experts like those of DeepSeek-V3."""

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
from glassformer.huggingface.families.experts import after_first, has_experts, listed, named
from glassformer.huggingface.families.format import Sparse
from glassformer.huggingface.families.llama import LLAMA, NO_FEEDFORWARD_BIASES, RULES, windows
from glassformer.huggingface.families.rope import Rope
from glassformer.huggingface.keys import NEEDED, Key

DOTS1 = LLAMA.derive(
    model_type="dots1",
    architectures=("Dots1ForCausalLM", "Dots1Model"),
    fields={"n_kv_heads": Key("num_key_value_heads", 32)},
    always={"qk_norm": True, "feedforward_bias": False},
    kinds=windows(first=Key("max_window_layers", 62)),
    sparse=routed(NEEDED, NEEDED, 1408, after_first(FIRST, 0), n_shared=NEEDED, renormalize=False),
    must_be=(*RULES, NO_FEEDFORWARD_BIASES, *ROUTING),
    aliases=ALIASES,
    without_effect={**WITHOUT_EFFECT, "max_window_layers": None},
    claims=has_experts,
    names=OF_EXPERTS,
    packed=PACKED,
    drafts=DRAFTS,
)
HY_V3 = DOTS1.derive(
    model_type="hy_v3",
    architectures=("HYV3ForCausalLM", "HYV3Model"),
    fields={
        "n_kv_heads": Key("num_key_value_heads", 8),
        "d_head": Key("head_dim", 128),
        "norm_eps": Key("rms_norm_eps", 1e-5),
    },
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
    names={**named(MLP, "router.gate", shared="shared_mlp"), CHOICE_BIAS: f"{MLP}.expert_bias"},
    # In memory
    others=(
        (".mlp.gate.", ".mlp.router.gate."),
        (".shared_experts.", ".shared_mlp."),
        (".e_score_correction_bias", ".expert_bias"),
    ),
)
