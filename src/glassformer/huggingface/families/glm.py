"""GLM-4.5: a LLaMA that rotates half of each head. GLM-5: DeepSeek-V3.2 with layers that share an indexer's choice.

Models whose layers are all dense are read; experts are refused.
"""

from dataclasses import replace
from functools import partial

from glassformer.config import ModelConfig
from glassformer.huggingface.families.deepseek import (
    ALIASES,
    DRAFTS,
    INDEXED,
    INTERLEAVED,
    V3,
    V32,
    WITHOUT_EXPERTS,
    is_latent,
    read_dense,
    read_latent,
)
from glassformer.huggingface.families.llama import LLAMA, NO_FEEDFORWARD_BIASES, llama_with
from glassformer.huggingface.families.rope import Rope
from glassformer.huggingface.keys import Key


def rotates_a_part(config: ModelConfig) -> bool:
    """Returns whether a part of each head is left as it is."""
    return config.rope_share < 1 and not config.rope_proportional


def all_dense(config: ModelConfig) -> dict[str, int]:
    """Returns how a file says that no layer has experts."""
    return {"first_k_dense_replace": config.n_layers}


GLM4_MOE = replace(
    LLAMA,
    model_type="glm4_moe",
    architectures=("Glm4MoeForCausalLM", "Glm4MoeModel"),
    fields=llama_with(
        {
            "n_kv_heads": Key("num_key_value_heads", 8),
            "norm_eps": Key("rms_norm_eps", 1e-5),
            "attention_bias": Key("attention_bias", False, words={True: "qkv", False: "none"}),
            "qk_norm": Key("use_qk_norm", False, words={True: True, False: False}),
            "feedforward_bias": None,
        }
    ),
    always={**LLAMA.always, "feedforward_bias": False},
    rope=Rope(share=0.5),
    must_be=(*LLAMA.must_be, NO_FEEDFORWARD_BIASES),
    also=("first_k_dense_replace",),
    aliases=V3.aliases,
    without_effect=WITHOUT_EXPERTS,
    read=partial(read_dense, usual=1),
    write=all_dense,
    claims=rotates_a_part,
    layout=replace(LLAMA.layout, drafts=DRAFTS),
)
GLM_MOE_DSA = replace(
    V32,
    model_type="glm_moe_dsa",
    architectures=("GlmMoeDsaForCausalLM", "GlmMoeDsaModel"),
    fields=llama_with(
        {"n_kv_heads": Key("num_key_value_heads", 64), "norm_eps": Key("rms_norm_eps", 1e-5)}, V32
    ),
    must_be=(
        *V3.must_be,
        INDEXED,
        INTERLEAVED,
        ("indexer_rope_interleave", (True, None), "the indexer's pairs lie side by side in this family"),
    ),
    also=(*V32.also, "indexer_types", "index_topk_pattern", "index_topk_freq", "index_skip_topk_offset"),
    aliases=ALIASES,
    read=partial(read_latent, index_layout="interleaved"),
    claims=partial(is_latent, index_layout="interleaved"),
)
