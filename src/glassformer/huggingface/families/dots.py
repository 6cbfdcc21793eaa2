"""dots.llm1 and Hy3: a LLaMA with norms of queries and keys, and experts like those of DeepSeek-V3."""

from glassformer.huggingface.families import deepseek
from glassformer.huggingface.families.experts import after_first, has_experts, listed, mixture, named
from glassformer.huggingface.families.llama import LLAMA, NO_FEEDFORWARD_BIASES, RULES, windows
from glassformer.huggingface.families.rope import Rope
from glassformer.huggingface.keys import NEEDED, Key

DOTS1 = LLAMA.derive(
    model_type="dots1",
    architectures=("Dots1ForCausalLM", "Dots1Model"),
    fields={"n_kv_heads": 32},
    always={"qk_norm": True, "feedforward_bias": False},
    kinds=windows(first=Key("max_window_layers", 62)),
    sparse=deepseek.routed(
        NEEDED, NEEDED, 1408, after_first(deepseek.FIRST, 0), n_shared=NEEDED, renormalize=False
    ),
    must_be=(*RULES, NO_FEEDFORWARD_BIASES, *deepseek.ROUTING),
    aliases=deepseek.ALIASES,
    without_effect={**deepseek.WITHOUT_EFFECT, "max_window_layers": None},
    claims=has_experts,
    names=deepseek.OF_EXPERTS,
    packed=deepseek.PACKED,
    drafts=deepseek.DRAFTS,
)
HY_V3 = DOTS1.derive(
    model_type="hy_v3",
    architectures=("HYV3ForCausalLM", "HYV3Model"),
    fields={"n_kv_heads": 8, "d_head": 128, "norm_eps": 1e-5},
    rope=Rope(base=11_158_840.0),
    kinds=None,
    sparse=mixture(
        *(Key("num_experts", 192), 8, 1536, listed(1)),
        n_shared=Key("num_shared_experts", 1),
        scale=Key("router_scaling_factor", 2.826),
        sum_eps=1e-20,
        **deepseek.BIASED,
    ),
    must_be=(*LLAMA.must_be, NO_FEEDFORWARD_BIASES),
    aliases={"num_local_experts": "num_experts"},
    without_effect={
        **deepseek.WITHOUT_EFFECT,
        deepseek.FIRST: "mlp_layer_types says it; without that, the first layer is dense",
        "enable_moe_fp32_combine": "says in what type experts are added up: here, in that of the model",
    },
    names={
        **named(deepseek.MLP, "router.gate", shared="shared_mlp"),
        deepseek.CHOICE_BIAS: f"{deepseek.MLP}.expert_bias",
    },
    # In memory
    others=(
        (".mlp.gate.", ".mlp.router.gate."),
        (".shared_experts.", ".shared_mlp."),
        (".e_score_correction_bias", ".expert_bias"),
    ),
)
