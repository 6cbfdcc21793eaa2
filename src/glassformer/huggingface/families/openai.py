"""gpt-oss: sinks, biases everywhere, windows in every other layer. Its experts are not built: only attention is."""

from dataclasses import replace

from glassformer.huggingface.families.format import PartOf, always, claims_none
from glassformer.huggingface.families.llama import LLAMA, NO_FEEDFORWARD_BIASES, RULES, llama_with, windows
from glassformer.huggingface.families.rope import Rope
from glassformer.huggingface.keys import Key, each_of

GPT_OSS = replace(
    LLAMA,
    model_type="gpt_oss",
    architectures=("GptOssForCausalLM", "GptOssModel"),
    fields=llama_with(
        {
            "n_kv_heads": Key("num_key_value_heads", 8),
            "d_head": Key("head_dim", 64),
            "norm_eps": Key("rms_norm_eps", 1e-5),
            "attention_bias": Key("attention_bias", True, words={True: "all", False: "none"}),
            "feedforward_bias": None,
        }
    ),
    rope=Rope(
        base=150_000.0,
        default={
            "rope_type": "yarn",
            "factor": 32.0,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "truncate": False,
            "original_max_position_embeddings": 4096,
        },
    ),
    kinds=windows(128, every=2),
    parts={"sinks": PartOf("Sinks", {})},
    must_be=(*RULES, NO_FEEDFORWARD_BIASES),
    lacks=(always("num_local_experts", 128, "every layer of a gpt-oss has experts, which are not built"),),
    aliases={**LLAMA.aliases, "num_experts": "num_local_experts"},
    without_effect={
        **LLAMA.without_effect,
        **each_of(
            "belongs to the experts, for which a whole model is refused",
            "num_experts_per_tok experts_per_token swiglu_alpha swiglu_limit router_aux_loss_coef output_router_logits",
        ),
        "initial_context_length": "the settings of the rotation say the same",
    },
    claims=claims_none,
    layout=replace(
        LLAMA.layout,
        names={**LLAMA.layout.names, "decoder.blocks.#.attention": "model.layers.#.self_attn"},  # with sinks
    ),
)
