"""Gemma: gains stored without their 1, and embeddings times √D. Gemma 2 and 3: norms on both sides, and windows.

From Gemma 2 on, post_attention_layernorm is the norm after attention, which in a LLaMA is the norm before the
feed-forward. Gemma 2 has soft caps.
"""

from glassformer.huggingface.families.format import GATES, PartOf, Place
from glassformer.huggingface.families.llama import (
    GAINS_WITHOUT_ONE,
    LLAMA,
    NO_FEEDFORWARD_BIASES,
    RULES,
    windows,
)
from glassformer.huggingface.families.rope import OfKind, Rope
from glassformer.huggingface.keys import Key

TANH = "gelu_pytorch_tanh"
ALWAYS = (
    NO_FEEDFORWARD_BIASES,
    ("use_bidirectional_attention", (False, None), "a query sees only itself and what comes before it"),
)
GEMMA = LLAMA.derive(
    model_type="gemma",
    architectures=("GemmaForCausalLM", "GemmaModel"),
    fields={
        "n_kv_heads": 16,
        "d_head": 256,
        # Files that say "gelu" mean its approximation, as transformers knows
        "feedforward": Key("hidden_act", TANH, words=GATES | {"gelu": "geglu_tanh"}),
        "embedding_scale": Key("hidden_size", power=0.5),
    },
    always={"feedforward_bias": False},
    must_be=(*LLAMA.must_be, *ALWAYS, ("hidden_activation", (TANH, None), "hidden_act names the activation")),
    tied=True,
    claims=None,
    names=GAINS_WITHOUT_ONE,
)
NORMS = {
    "attention.norm_output": "post_attention_layernorm",
    "norm_feedforward": "pre_feedforward_layernorm",
    "feedforward.norm_output": "post_feedforward_layernorm",
}
GEMMA2 = GEMMA.derive(
    model_type="gemma2",
    architectures=("Gemma2ForCausalLM", "Gemma2Model"),
    fields={
        "n_kv_heads": 4,
        "feedforward": Key("hidden_activation", TANH, words=GATES),
        "attention_scale": Key("query_pre_attn_scalar", 256, power=-0.5),
        "logit_cap": Key("final_logit_softcapping", 30.0),
    },
    kinds=windows(every=2),
    parts={
        "residual": PartOf("Residual", {"placement": "sandwich"}),
        "scores": PartOf("SoftCap", {"cap": Key("attn_logit_softcapping", 50.0)}),
    },
    must_be=(*RULES, *ALWAYS),
    also=("attention_multiplier",),
    without_effect={
        "hidden_act": "another name, which transformers does not read",
        "cache_implementation": "says how transformers stores keys and values",
    },
    claims=LLAMA.claims,
    names={
        **{
            f"decoder.blocks.#.{ours}": Place(f"model.layers.#.{theirs}", added=1.0)
            for ours, theirs in NORMS.items()
        }
    },
)
GEMMA3 = GEMMA2.derive(
    model_type="gemma3_text",
    architectures=("Gemma3ForCausalLM", "Gemma3TextModel"),
    fields={
        # The files of models that read images leave out what is usual
        "vocab_size": 262_208,
        "context_length": 131_072,
        "n_heads": 8,
        "logit_cap": Key("final_logit_softcapping", None),
    },
    always={"qk_norm": True},
    rope=Rope(
        kinds={
            "windowed": OfKind("sliding_attention", "rope_local_base_freq", 10_000.0, False),
            "full": OfKind("full_attention", "rope_theta", 1_000_000.0, True),
        }
    ),
    kinds=windows(every=Key("sliding_window_pattern", 6)),
    parts=GEMMA2.parts | {"scores": PartOf("SoftCap", {"cap": Key("attn_logit_softcapping", None)})},
    without_effect={"_sliding_window_pattern": "layer_types say the same"},
)
