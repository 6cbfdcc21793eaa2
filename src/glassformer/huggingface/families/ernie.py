"""ERNIE 4.5: a LLaMA whose rotated pairs lie side by side, with or without experts."""

from collections.abc import Mapping
from typing import Any

from glassformer import _checks as checks
from glassformer.config import ModelConfig
from glassformer.huggingface.families.deepseek import CHOICE_BIAS, MLP, PACKED, WITHOUT_EFFECT
from glassformer.huggingface.families.experts import named
from glassformer.huggingface.families.format import Place, Sparse, Where, few
from glassformer.huggingface.families.llama import LLAMA
from glassformer.huggingface.families.rope import Rope
from glassformer.huggingface.keys import Key


def rotates_pairs(config: ModelConfig) -> bool:
    """Claims models whose pairs lie side by side."""
    return config.rope_layout == "interleaved"


ERNIE4_5 = LLAMA.derive(
    model_type="ernie4_5",
    architectures=("Ernie4_5ForCausalLM", "Ernie4_5Model"),
    fields={
        "n_kv_heads": Key("num_key_value_heads", 2),
        "d_head": Key("head_dim", 128),
        "norm_eps": Key("rms_norm_eps", 1e-5),
        "attention_bias": Key("use_bias", False, words={True: "all", False: "none"}),
        "feedforward_bias": Key("use_bias", False, words={True: True, False: False}),
    },
    always={"rope_layout": "interleaved"},
    rope=Rope(base=500_000.0),
    tied=True,
    claims=rotates_pairs,
)


def _read_interval(given: Mapping[str, Any], n_layers: int) -> list[bool] | bool:
    start, end = given.get("moe_layer_start_index", 1), given.get("moe_layer_end_index", -1)
    every = given.get("moe_layer_interval", 1)
    checks.whole("moe_layer_start_index", start, at_least=0)
    checks.whole("moe_layer_end_index", end, at_least=-1)
    checks.whole("moe_layer_interval", every)
    last = n_layers - 1 if end == -1 else end
    return [start <= i <= last and (i + 1) % every == 0 for i in few(n_layers)]


def _write_interval(each: list[bool]) -> dict[str, Any]:
    found = [i for i, sparse in enumerate(each) if sparse] or [len(each)]
    every = found[1] - found[0] if len(found) > 1 else 1
    return {"moe_layer_start_index": found[0], "moe_layer_end_index": found[-1], "moe_layer_interval": every}


ERNIE4_5_MOE = ERNIE4_5.derive(
    model_type="ernie4_5_moe",
    architectures=("Ernie4_5_MoeForCausalLM", "Ernie4_5_MoeModel"),
    fields={"n_kv_heads": Key("num_key_value_heads", 4), "d_head": Key("head_dim", None)},
    always={"attention_bias": "none", "feedforward_bias": False},
    sparse=Sparse(
        experts={"n_experts": Key("moe_num_experts", 64), "top_k": Key("moe_k", 6), "choice_bias": True},
        d_ff=Key("moe_intermediate_size", 1536),
        n_shared=Key("moe_num_shared_experts", 2),
        where=Where(
            ("moe_layer_start_index", "moe_layer_end_index", "moe_layer_interval"),
            _read_interval,
            _write_interval,
        ),
    ),
    must_be=(
        *LLAMA.must_be,
        ("use_bias", (False, None), "experts of this family have no biases, though its other matrices could"),
        (
            "moe_norm_min",
            (1e-12,),
            "the sum of the chosen probabilities is never as small as its least value",
        ),
    ),
    aliases={**LLAMA.aliases, "num_experts": "moe_num_experts", "num_experts_per_tok": "moe_k"},
    without_effect=WITHOUT_EFFECT,
    names={
        **named(MLP, shared="shared_experts"),
        CHOICE_BIAS: Place(f"{MLP}.moe_statics.e_score_correction_bias", axes=(1, -1)),
    },
    packed=PACKED,
    others=((".gate.moe_statics.", ".moe_statics."),),  # in memory
    ignored=LLAMA.layout.ignored + r"|\bmtp_",
)
