"""Qwen3-Next and 3.5: a gate on the output, gains stored without their 1, and a rotation of a quarter of each head.

In each head of q_proj, the numbers for the gate follow those for the query. Layers with the delta rule are not built.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from glassformer import _checks as checks
from glassformer.config import ModelConfig
from glassformer.huggingface.families.format import NO_WINDOW, Lack, PartOf, Place, needed, words_of_layers
from glassformer.huggingface.families.llama import (
    ALWAYS_DECODERS,
    LLAMA,
    NO_FEEDFORWARD_BIASES,
    QWEN3,
    RULES,
    llama_with,
)
from glassformer.huggingface.families.rope import Rope
from glassformer.huggingface.keys import Key, each_of


def layer_types(given: Mapping[str, Any]) -> list[str]:
    """Returns the word of each layer: without a list, every fourth attends."""
    n_layers, every = needed(given, "num_hidden_layers"), given.get("full_attention_interval", 4)
    checks.whole("num_hidden_layers", n_layers)
    checks.whole("full_attention_interval", every)
    words = ("linear_attention", "full_attention")
    return words_of_layers(given, n_layers, "layer_types", words, lambda i: words[(i + 1) % every == 0])


def n_experts(given: Mapping[str, Any]) -> int:
    """Returns how many experts there are, if any layer has them."""
    found, every = given.get("num_experts", 512), given.get("decoder_sparse_step", 1)
    dense = given.get("mlp_only_layers") or ()
    n_layers = needed(given, "num_hidden_layers")
    checks.whole("num_hidden_layers", n_layers)
    checks.whole("decoder_sparse_step", every)
    sparse = any(i not in dense for i in range(every - 1, n_layers, every))
    return found if sparse else 0


def has_gate(config: ModelConfig) -> bool:
    """Claims models whose attention has a gate."""
    return config.layer(0).attention.gate is not None


ATTENDS = Lack(
    "layer_types",
    ("full_attention",),
    "the delta rule, which some layers have in place of attention, is not built",
    says=layer_types,
    of_layer=True,
)
QWEN3_5 = replace(
    QWEN3,
    model_type="qwen3_5_text",
    architectures=("Qwen3_5ForCausalLM", "Qwen3_5TextModel"),
    fields=llama_with({"n_kv_heads": Key("num_key_value_heads", 4), "d_head": Key("head_dim", 256)}, QWEN3),
    # The three positions of a token that mrope has are equal in a text
    rope=Rope(share=0.25, more=("mrope_section", "mrope_interleaved")),
    kinds=None,
    parts={"gate": PartOf("OutputGate", {"per": "element"})},
    must_be=(
        *RULES,
        NO_FEEDFORWARD_BIASES,
        *NO_WINDOW[:2],
        ("attn_output_gate", (True,), "the attention of this family always has its gate"),
    ),
    lacks=(ATTENDS,),
    also=(*QWEN3.also, "full_attention_interval"),
    without_effect={
        **ALWAYS_DECODERS,
        **each_of(
            "belongs to the delta rule, for which a whole model is refused",
            "linear_conv_kernel_dim linear_key_head_dim linear_value_head_dim linear_num_key_heads "
            "linear_num_value_heads mamba_ssm_dtype",
        ),
        **each_of(
            "belongs to layers that predict several tokens, which are left out",
            "mtp_num_hidden_layers mtp_use_dedicated_embeddings",
        ),
        "mlp_only_layers": "this family has no experts, so every layer is one of them",
    },
    write=lambda config: {"layer_types": ["full_attention"] * config.n_layers},
    claims=has_gate,
    layout=replace(
        LLAMA.layout,
        names={
            ours: Place(str(theirs), added=1.0) if "norm" in ours else theirs
            for ours, theirs in LLAMA.layout.names.items()
        }
        | {
            f"decoder.blocks.#.attention.{ours}": Place(
                "model.layers.#.self_attn.q_proj", transposed=True, part=part, per_head=True
            )
            for part, ours in enumerate(("W_q", "gate.W"))
        },
        ignored=LLAMA.layout.ignored + r"|^(model\.)?(mtp|model\.visual)\.",
    ),
)
QWEN3_NEXT = replace(
    QWEN3_5,
    model_type="qwen3_next",
    architectures=("Qwen3NextForCausalLM", "Qwen3NextModel"),
    fields=llama_with({"n_kv_heads": Key("num_key_value_heads", 2)}, QWEN3_5),
    rope=Rope(share=0.25),
    lacks=(ATTENDS, Lack("num_experts", (0,), "experts are not built", says=n_experts)),
    without_effect={
        **QWEN3_5.without_effect,
        **each_of(
            "belongs to the experts, for which a whole model is refused",
            "decoder_sparse_step moe_intermediate_size shared_expert_intermediate_size num_experts_per_tok "
            "norm_topk_prob output_router_logits router_aux_loss_coef mlp_only_layers",
        ),
    },
)
