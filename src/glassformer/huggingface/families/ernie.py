"""ERNIE 4.5: a LLaMA whose rotated pairs lie side by side, with or without experts."""

from collections.abc import Mapping
from typing import Any

from glassformer import _checks as checks
from glassformer.config import ModelConfig
from glassformer.huggingface.families.deepseek import CHOICE_BIAS, MLP, PACKED, WITHOUT_EFFECT
from glassformer.huggingface.families.experts import mixture, named
from glassformer.huggingface.families.format import Place, Where, few
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
        "n_kv_heads": 2,
        "d_head": 128,
        "norm_eps": 1e-5,
        "attention_bias": Key("use_bias", False, words={True: "all", False: "none"}),
        "feedforward_bias": Key("use_bias", False, words={True: True, False: False}),
    },
    always={"rope_layout": "interleaved"},
    rope=Rope(base=500_000.0),
    tied=True,
    claims=rotates_pairs,
)


NAMES = ("moe_layer_start_index", "moe_layer_end_index", "moe_layer_interval")


def _read_interval(given: Mapping[str, Any], n_layers: int) -> list[bool] | bool:
    start, end, every = (given.get(*key) for key in zip(NAMES, (1, -1, 1), strict=True))
    for name, value, least in zip(NAMES, (start, end, every), (0, -1, 1), strict=True):
        checks.whole(name, value, at_least=least)
    last = n_layers - 1 if end == -1 else end
    return [start <= i <= last and (i + 1) % every == 0 for i in few(n_layers)]


def _write_interval(each: list[bool]) -> dict[str, Any]:
    found = [i for i, sparse in enumerate(each) if sparse] or [len(each)]
    every = found[1] - found[0] if len(found) > 1 else 1
    return dict(zip(NAMES, (found[0], found[-1], every), strict=True))


INTERVAL = Where(NAMES, _read_interval, _write_interval)


ERNIE4_5_MOE = ERNIE4_5.derive(
    model_type="ernie4_5_moe",
    architectures=("Ernie4_5_MoeForCausalLM", "Ernie4_5_MoeModel"),
    fields={"n_kv_heads": 4, "d_head": Key("head_dim", None)},
    always={"attention_bias": "none", "feedforward_bias": False},
    sparse=mixture(
        *(Key("moe_num_experts", 64), Key("moe_k", 6), 1536, INTERVAL),
        n_shared=Key("moe_num_shared_experts", 2),
        choice_bias=True,
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
