"""Mixtral, OLMoE and Qwen's mixtures: feed-forward networks are experts, in all layers or some."""

from glassformer.huggingface.families.experts import (
    STEPS,
    TRAINING,
    either,
    has_experts,
    mixture,
    named,
    packed,
)
from glassformer.huggingface.families.format import linear
from glassformer.huggingface.families.llama import (
    LLAMA,
    MISTRAL,
    NO_FEEDFORWARD_BIASES,
    QWEN2,
    QWEN3,
    windows,
)
from glassformer.huggingface.families.rope import Rope
from glassformer.huggingface.keys import Key

MIXTRAL = MISTRAL.derive(
    model_type="mixtral",
    architectures=("MixtralForCausalLM", "MixtralModel"),
    fields={"norm_eps": 1e-5},
    rope=Rope(base=1e6),
    kinds=windows(None, alike=True),
    sparse=mixture(Key("num_local_experts", 8), 2),
    aliases={**MISTRAL.aliases, "num_experts": "num_local_experts"},
    without_effect=TRAINING,
    claims=has_experts,
    names=named("model.layers.#.block_sparse_moe", W_gate="w1", W_up="w3", W_down="w2"),
    packed=packed("model.layers.#.block_sparse_moe.experts"),
    others=((".mlp.", ".block_sparse_moe."),),
)
MLP = "model.layers.#.mlp"
SHARED = {"d_shared": Key("shared_expert_intermediate_size", 5632), "shared_gate": True}
QWEN2_MOE = QWEN2.derive(
    model_type="qwen2_moe",
    architectures=("Qwen2MoeForCausalLM", "Qwen2MoeModel"),
    fields={"n_kv_heads": 16, "attention_bias": Key("qkv_bias", True, words={True: "qkv", False: "none"})},
    kinds=windows(every=2, until=Key("max_window_layers", 28), switch=Key("use_sliding_window", False)),
    sparse=mixture(
        Key("num_experts", 60), 4, 1408, STEPS, renormalize=either("norm_topk_prob", False), **SHARED
    ),
    without_effect=TRAINING,
    claims=has_experts,
    names={
        **named(MLP, shared="shared_expert"),
        "decoder.blocks.#.feedforward.shared_gate": linear(f"{MLP}.shared_expert_gate"),
    },
    packed=packed(f"{MLP}.experts"),
)
QWEN3_MOE = QWEN3.derive(
    model_type="qwen3_moe",
    architectures=("Qwen3MoeForCausalLM", "Qwen3MoeModel"),
    fields={"n_kv_heads": 4, "d_head": Key("head_dim", None)},
    kinds=windows(alike=True, switch=Key("use_sliding_window", False)),
    sparse=mixture(Key("num_local_experts", 128), 8, 768, STEPS, renormalize=either("norm_topk_prob", False)),
    aliases={**QWEN3.aliases, "num_experts": "num_local_experts"},  # the alias is that of published files
    without_effect={
        **TRAINING,
        "max_window_layers": "transformers does not read it: if there is a window, all layers have it",
    },
    claims=has_experts,
    names=named(MLP),
    packed=packed(f"{MLP}.experts"),
)
OLMOE = LLAMA.derive(
    model_type="olmoe",
    architectures=("OlmoeForCausalLM", "OlmoeModel"),
    fields={"d_head": None, "norm_eps": 1e-5},
    always={"qk_norm": "width", "feedforward_bias": False},
    sparse=mixture(Key("num_experts", 64), 8, renormalize=either("norm_topk_prob", False)),
    must_be=(
        *LLAMA.must_be,
        NO_FEEDFORWARD_BIASES,
        ("clip_qkv", (None,), "queries, keys and values are not kept within limits here"),
    ),
    aliases={**LLAMA.aliases, "num_local_experts": "num_experts"},
    without_effect=TRAINING,
    claims=has_experts,
    names=named(MLP),
    packed=packed(f"{MLP}.experts"),
)
