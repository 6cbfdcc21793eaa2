"""GLM-4: half of each head rotates, in pairs side by side; its second version also has norms after the sublayers."""

from glassformer.huggingface.families.format import PartOf, linear
from glassformer.huggingface.families.llama import LLAMA, NO_FEEDFORWARD_BIASES
from glassformer.huggingface.families.rope import Rope
from glassformer.huggingface.keys import Key

GLM = LLAMA.derive(
    model_type="glm",
    architectures=("GlmForCausalLM", "GlmModel"),
    fields={
        "n_kv_heads": 2,
        "d_head": 128,
        "norm_eps": 1.5625e-07,
        "attention_bias": Key("attention_bias", True, words={True: "qkv", False: "none"}),
    },
    always={"rope_layout": "interleaved", "feedforward_bias": False},
    rope=Rope(share=0.5),
    must_be=(*LLAMA.must_be, NO_FEEDFORWARD_BIASES),
    claims=None,
    names={
        "decoder.blocks.#.feedforward.W_gate": linear("model.layers.#.mlp.gate_up_proj", 0),
        "decoder.blocks.#.feedforward.W_up": linear("model.layers.#.mlp.gate_up_proj", 1),
    },
)
GLM4 = GLM.derive(
    model_type="glm4",
    architectures=("Glm4ForCausalLM", "Glm4Model"),
    parts={"residual": PartOf("Residual", {"placement": "sandwich"})},
    names={
        "decoder.blocks.#.attention.norm_output": "model.layers.#.post_self_attn_layernorm",
        "decoder.blocks.#.feedforward.norm_output": "model.layers.#.post_mlp_layernorm",
    },
)
