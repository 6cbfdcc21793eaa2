"""Phi-3: a LLaMA whose files have queries, keys and values in one matrix, and gate and up in another.

Models for long texts (longrope), and those that rotate only a part of each head, are refused.
"""

from glassformer.huggingface.families.format import linear
from glassformer.huggingface.families.llama import MISTRAL, windows
from glassformer.huggingface.families.rope import Rope
from glassformer.huggingface.keys import Key

PHI3 = MISTRAL.derive(
    model_type="phi3",
    architectures=("Phi3ForCausalLM", "Phi3Model"),
    fields={"n_kv_heads": Key("num_key_value_heads", None), "d_head": None, "norm_eps": 1e-5},
    rope=Rope(scalings=("default",)),  # a Phi-3 takes "su" and "yarn" for longrope
    kinds=windows(None, alike=True),
    without_effect={
        "original_max_position_embeddings": "concerns longrope, which is refused",
        "resid_pdrop": "concerns training only",
    },
    names={
        "decoder.blocks.#.attention.W_q": linear("model.layers.#.self_attn.qkv_proj", 0),
        "decoder.blocks.#.attention.W_k": linear("model.layers.#.self_attn.qkv_proj", 1),
        "decoder.blocks.#.attention.W_v": linear("model.layers.#.self_attn.qkv_proj", 2),
        "decoder.blocks.#.feedforward.W_gate": linear("model.layers.#.mlp.gate_up_proj", 0),
        "decoder.blocks.#.feedforward.W_up": linear("model.layers.#.mlp.gate_up_proj", 1),
    },
)
