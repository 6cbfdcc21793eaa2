"""OLMo 2 and 3: norms only after each sublayer, and over all queries and keys; in OLMo 3, also windows.

The norm after attention is called post_attention_layernorm, which in a LLaMA is the norm before the feed-forward.
"""

from dataclasses import replace

from glassformer.huggingface.families.format import PartOf
from glassformer.huggingface.families.llama import LLAMA, NO_FEEDFORWARD_BIASES, RULES, llama_with, windows
from glassformer.huggingface.families.rope import OfKind, Rope
from glassformer.huggingface.keys import Key

OLMO2 = replace(
    LLAMA,
    model_type="olmo2",
    architectures=("Olmo2ForCausalLM", "Olmo2Model"),
    fields=llama_with({"d_head": None, "norm_eps": Key("rms_norm_eps", 1e-5), "feedforward_bias": None}),
    always={**LLAMA.always, "qk_norm": "width", "feedforward_bias": False},
    parts={"residual": PartOf("Residual", {"placement": "output"})},
    must_be=(*LLAMA.must_be, NO_FEEDFORWARD_BIASES),
    layout=replace(
        LLAMA.layout,
        names={
            **{
                ours: place
                for ours, place in LLAMA.layout.names.items()
                if not ours.endswith((".norm_attention", ".norm_feedforward"))
            },
            "decoder.blocks.#.attention.norm_output": "model.layers.#.post_attention_layernorm",
            "decoder.blocks.#.feedforward.norm_output": "model.layers.#.post_feedforward_layernorm",
        },
    ),
)
OLMO3 = replace(
    OLMO2,
    model_type="olmo3",
    architectures=("Olmo3ForCausalLM", "Olmo3Model"),
    # Only the full layers are stretched, and only they have the base that stands outside of rope_parameters.
    rope=Rope(
        kinds={
            "windowed": OfKind("sliding_attention", None, 500_000.0, False),
            "full": OfKind("full_attention", "rope_theta", 500_000.0, True),
        }
    ),
    kinds=windows(every=4),
    must_be=(*RULES, NO_FEEDFORWARD_BIASES),
)
