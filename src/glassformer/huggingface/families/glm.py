"""GLM-4.5: a LLaMA that rotates half of each head, with DeepSeek-V3's experts; Solar Open is one without dense layers.

GLM-4.7-Flash is a small DeepSeek-V3, and GLM-5 a DeepSeek-V3.2 with layers that share an indexer's choice.
"""

from functools import partial

from glassformer.config import ModelConfig
from glassformer.huggingface.families import deepseek
from glassformer.huggingface.families.experts import after_first, has_experts, listed
from glassformer.huggingface.families.format import EVERYWHERE
from glassformer.huggingface.families.latent import is_latent, latent_layers
from glassformer.huggingface.families.llama import LLAMA, NO_FEEDFORWARD_BIASES
from glassformer.huggingface.families.rope import Rope
from glassformer.huggingface.keys import Key


def rotates_a_part(config: ModelConfig) -> bool:
    """Returns whether a part of each head is left as it is."""
    return config.rope_share < 1 and not config.rope_proportional


GLM4_MOE = LLAMA.derive(
    model_type="glm4_moe",
    architectures=("Glm4MoeForCausalLM", "Glm4MoeModel"),
    fields={
        "n_kv_heads": 8,
        "norm_eps": 1e-5,
        "attention_bias": Key("attention_bias", False, words={True: "qkv", False: "none"}),
        "qk_norm": Key("use_qk_norm", False, words={True: True, False: False}),
    },
    always={"feedforward_bias": False},
    rope=Rope(share=0.5),
    sparse=deepseek.routed(128, 8, 1408, after_first(deepseek.FIRST, 1)),
    must_be=(*LLAMA.must_be, NO_FEEDFORWARD_BIASES, *deepseek.ROUTING),
    aliases=deepseek.V3.aliases,
    without_effect={**deepseek.WITHOUT_EFFECT, "max_window_layers": None},
    claims=rotates_a_part,
    names=deepseek.OF_EXPERTS,
    packed=deepseek.PACKED,
    drafts=deepseek.DRAFTS,
)
SOLAR_OPEN = GLM4_MOE.derive(
    model_type="solar_open",
    architectures=("SolarOpenForCausalLM", "SolarOpenModel"),
    fields={"d_head": 128, "d_ff": None, "qk_norm": None},
    rope=Rope(base=1e6, share=1.0),
    sparse=deepseek.routed(128, 8, 1280, EVERYWHERE),
    must_be=(*GLM4_MOE.must_be, ("use_qk_norm", (False, None), "this family norms no queries and keys")),
    aliases=deepseek.ALIASES,
    without_effect={
        **deepseek.WITHOUT_EFFECT,
        **dict.fromkeys(("first_k_dense_replace", "intermediate_size"), "every layer has experts"),
    },
    claims=has_experts,
)
GLM4_MOE_LITE = deepseek.V3.derive(
    model_type="glm4_moe_lite",
    architectures=("Glm4MoeLiteForCausalLM", "Glm4MoeLiteModel"),
    fields={"n_kv_heads": 20, "norm_eps": 1e-5},
    layers=latent_layers(20),
    sparse=deepseek.routed(64, 4, 1536, listed(1), scale=1.8),
    aliases={**deepseek.ALIASES, "head_dim": "qk_rope_head_dim"},
    without_effect={
        "first_k_dense_replace": "mlp_layer_types says it; without that, the first layer is dense"
    },
)
GLM_MOE_DSA = deepseek.V32.derive(
    model_type="glm_moe_dsa",
    architectures=("GlmMoeDsaForCausalLM", "GlmMoeDsaModel"),
    fields={"n_kv_heads": 64, "norm_eps": 1e-5},
    layers=latent_layers(64, "interleaved", shares=True),
    sparse=deepseek.routed(256, 8, 2048, listed(3, first=deepseek.FIRST), scale=2.5),
    must_be=(
        *deepseek.V3.must_be,
        deepseek.INDEXED,
        deepseek.INTERLEAVED,
        ("indexer_rope_interleave", (True, None), "the indexer's pairs lie side by side in this family"),
    ),
    also=(
        *deepseek.V32.also,
        "indexer_types",
        "index_topk_pattern",
        "index_topk_freq",
        "index_skip_topk_offset",
    ),
    claims=partial(is_latent, index_layout="interleaved"),
)
