"""Mixtral and Qwen's mixtures: a Mistral or a Qwen whose feed-forward networks are experts, in some layers or all."""

from dataclasses import replace

from glassformer.huggingface.families.experts import STEPS, TRAINING, either, has_experts, named, packed
from glassformer.huggingface.families.format import Sparse
from glassformer.huggingface.families.llama import (
    ALWAYS_DECODERS,
    ATTENTION_BIAS,
    MISTRAL,
    NO_FEEDFORWARD_BIASES,
    QWEN2,
    QWEN3,
    RULES,
    llama_with,
    windows,
)
from glassformer.huggingface.families.rope import Rope
from glassformer.huggingface.keys import Key

MIXTRAL = replace(
    MISTRAL,
    model_type="mixtral",
    architectures=("MixtralForCausalLM", "MixtralModel"),
    fields=llama_with({"norm_eps": Key("rms_norm_eps", 1e-5)}, MISTRAL),
    rope=Rope(base=1e6),
    kinds=windows(None, alike=True),
    sparse=Sparse(
        experts={"n_experts": Key("num_local_experts", 8), "top_k": Key("num_experts_per_tok", 2)},
    ),
    aliases={**MISTRAL.aliases, "num_experts": "num_local_experts"},
    without_effect={**MISTRAL.without_effect, **TRAINING},
    claims=has_experts,
    layout=replace(
        MISTRAL.layout,
        names={
            **MISTRAL.layout.names,
            **named("model.layers.#.block_sparse_moe", W_gate="w1", W_up="w3", W_down="w2"),
        },
        packed=packed(
            "model.layers.#.block_sparse_moe.experts.gate_up_proj",
            "model.layers.#.block_sparse_moe.experts.down_proj",
        ),
        others=((".mlp.", ".block_sparse_moe."),),
    ),
)
MLP = "model.layers.#.mlp"
OF_QWEN = {
    "n_experts": Key("num_experts", 60),
    "top_k": Key("num_experts_per_tok", 4),
    "renormalize": either("norm_topk_prob", False),
}
QWEN3_MOE = replace(
    QWEN3,
    model_type="qwen3_moe",
    architectures=("Qwen3MoeForCausalLM", "Qwen3MoeModel"),
    fields=llama_with({"n_kv_heads": Key("num_key_value_heads", 4), "d_head": Key("head_dim", None)}, QWEN3),
    kinds=windows(alike=True, switch=Key("use_sliding_window", False)),
    sparse=Sparse(
        experts=OF_QWEN | {"n_experts": Key("num_experts", 128), "top_k": Key("num_experts_per_tok", 8)},
        d_ff=Key("moe_intermediate_size", 768),
        where=STEPS,
    ),
    aliases={**QWEN3.aliases, "num_local_experts": "num_experts"},
    without_effect={
        **QWEN3.without_effect,
        **TRAINING,
        "max_window_layers": "transformers does not read it: if there is a window, all layers have it",
    },
    claims=has_experts,
    layout=replace(
        QWEN3.layout,
        names={**QWEN3.layout.names, **named(MLP)},
        packed=packed(f"{MLP}.experts.gate_up_proj", f"{MLP}.experts.down_proj"),
    ),
)
