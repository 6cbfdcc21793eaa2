"""gpt-oss: sinks, biases everywhere, windows in every other layer, and experts whose gates are limited."""

from glassformer.huggingface.families.experts import TRAINING, has_experts, mixture, packed
from glassformer.huggingface.families.format import PartOf, linear
from glassformer.huggingface.families.llama import LLAMA, NO_FEEDFORWARD_BIASES, RULES, windows
from glassformer.huggingface.families.rope import Rope
from glassformer.huggingface.keys import Key

GPT_OSS = LLAMA.derive(
    model_type="gpt_oss",
    architectures=("GptOssForCausalLM", "GptOssModel"),
    fields={
        "n_kv_heads": 8,
        "d_head": 64,
        "norm_eps": 1e-5,
        "attention_bias": Key("attention_bias", True, words={True: "all", False: "none"}),
    },
    always={"feedforward": "swiglu", "feedforward_bias": True},
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
    sparse=mixture(
        *(Key("num_local_experts", 128), 4),
        scores="chosen",
        router_bias=True,
        limit=Key("swiglu_limit", 7.0),
        offset=1.0,
        sharpness=Key("swiglu_alpha", 1.702),
    ),
    aliases={**LLAMA.aliases, "num_experts": "num_local_experts", "experts_per_token": "num_experts_per_tok"},
    without_effect={
        **TRAINING,
        "hidden_act": "transformers does not read it: gates always have the function that it names",
        "initial_context_length": "the settings of the rotation say the same",
    },
    claims=has_experts,
    names={
        "decoder.blocks.#.attention": "model.layers.#.self_attn",  # with sinks
        "decoder.blocks.#.feedforward.router.W": linear("model.layers.#.mlp.router"),
        **packed("model.layers.#.mlp.experts", how="columns"),
    },
)
