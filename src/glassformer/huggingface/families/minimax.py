"""MiniMax-M2: a norm over all queries and keys, a part of each head that rotates, and experts without a shared one."""

from collections.abc import Mapping
from typing import Any

from glassformer import _checks as checks
from glassformer.huggingface.families.deepseek import BIASED, CHOICE_BIAS, DRAFTS, WITHOUT_EFFECT
from glassformer.huggingface.families.experts import has_experts, mixture, named, packed
from glassformer.huggingface.families.format import Format
from glassformer.huggingface.families.llama import LLAMA, NO_BIASES, NO_FEEDFORWARD_BIASES
from glassformer.huggingface.families.rope import Rope
from glassformer.huggingface.keys import Key, contradiction, each_of


def share(form: Format, given: Mapping[str, Any], _: Any) -> dict[str, Any]:
    """Returns the share of a head that rotates, if a file has the number of what rotates."""
    n_rotated, settings = given.get("rotary_dim"), Rope().settings(given)
    d_head = given.get("head_dim", form.fields["d_head"].default)
    if n_rotated is None or d_head is None:
        return {}
    checks.whole("rotary_dim", n_rotated)
    checks.whole("head_dim", d_head)
    said = settings.get("partial_rotary_factor", given.get("partial_rotary_factor"))
    if said not in (None, n_rotated / d_head):
        raise contradiction("rotary_dim", n_rotated, "partial_rotary_factor", said)
    return {"rope_share": n_rotated / d_head}


BLOCK = "model.layers.#.block_sparse_moe"
MINIMAX_M2 = LLAMA.derive(
    model_type="minimax_m2",
    architectures=("MiniMaxM2ForCausalLM", "MiniMaxM2Model"),
    fields={"n_kv_heads": 8, "d_head": 128},
    always={"qk_norm": "width", "attention_bias": "none", "feedforward_bias": False},
    rope=Rope(base=5e6, share=1.0),
    sparse=mixture(Key("num_local_experts", 256), 8, **BIASED),
    must_be=(
        *LLAMA.must_be,
        NO_BIASES,
        NO_FEEDFORWARD_BIASES,
        ("scoring_func", ("sigmoid", None), "a sigmoid makes the weights of experts in this family"),
        ("use_routing_bias", (True, None), "a learned bias takes part in the choice in this family"),
        ("use_qk_norm", (True, None), "queries and keys are always normed in this family"),
        ("qk_norm_type", ("per_layer", None), "all heads of queries are normed together in this family"),
        ("attn_type_list", (1, None), "no layer of this family has a state"),
        ("shared_intermediate_size", (0, None), "this family has no shared expert"),
    ),
    also=("rotary_dim",),
    aliases={**LLAMA.aliases, "num_experts": "num_local_experts"},
    without_effect={
        **WITHOUT_EFFECT,
        "max_window_layers": None,
        **each_of(
            "counts more layers, which predict the tokens after the next one and are no part of these models",
            "use_mtp num_mtp_modules mtp_transformer_layers",
        ),
    },
    read=share,
    claims=has_experts,
    names={
        **named(BLOCK, W_gate="w1", W_up="w3", W_down="w2"),
        CHOICE_BIAS: f"{BLOCK}.e_score_correction_bias",
    },
    packed=packed(f"{BLOCK}.experts"),
    others=((".mlp.", ".block_sparse_moe."),),
    drafts=DRAFTS,
)
