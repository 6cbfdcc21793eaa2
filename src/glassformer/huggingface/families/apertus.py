"""Apertus: a LLaMA with norms of queries and keys, and without gates: its activation learns two numbers."""

from glassformer.huggingface.families.format import ACTIVATION_WORDS
from glassformer.huggingface.families.llama import LLAMA, NO_FEEDFORWARD_BIASES
from glassformer.huggingface.families.rope import Rope
from glassformer.huggingface.keys import Key

APERTUS = LLAMA.derive(
    model_type="apertus",
    architectures=("ApertusForCausalLM", "ApertusModel"),
    fields={
        "norm_eps": 1e-5,
        "feedforward": Key("hidden_act", "xielu", words={"xielu": "xielu", **ACTIVATION_WORDS}),
    },
    always={"qk_norm": True, "feedforward_bias": False},
    rope=Rope(
        base=12_000_000.0,
        default={
            "rope_type": "llama3",
            "factor": 8.0,
            "original_max_position_embeddings": 8192,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
        },
    ),
    must_be=(
        *LLAMA.must_be,
        NO_FEEDFORWARD_BIASES,
        ("qk_norm", (True, None), "queries and keys always have norms in this family"),
        ("post_norm", (False, None), "norms come before the sublayers in this family"),
    ),
    without_effect={"hidden_dropout": "concerns training only"},
    claims=None,
    names={
        "decoder.blocks.#.norm_attention": "model.layers.#.attention_layernorm",
        "decoder.blocks.#.norm_feedforward": "model.layers.#.feedforward_layernorm",
        "decoder.blocks.#.feedforward.activate": "model.layers.#.mlp.act_fn",
    },
    ignored=rf"{LLAMA.layout.ignored}|\bact_fn\.(beta|eps)$",
    constants={"act_fn.alpha_p": {"act_fn.beta": 0.5, "act_fn.eps": -1e-6}},
)
