"""Qwen3-Next and 3.5: three layers with the delta rule to one that attends, and gains stored without their 1.

Attention has a gate on its output, and rotates a quarter of each head. In each head of q_proj, the numbers for the gate
follow those for the query; in in_proj_qkvz and in_proj_ba of Qwen3-Next, all of a key head stand together.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from glassformer import _checks as checks
from glassformer.config import ModelConfig
from glassformer.huggingface.families import delta
from glassformer.huggingface.families.experts import OURS as FEEDFORWARD
from glassformer.huggingface.families.experts import STEPS, TRAINING, either, mixture, named, packed
from glassformer.huggingface.families.format import NO_WINDOW, linear, needed, words_of_layers
from glassformer.huggingface.families.llama import (
    GAINS_WITHOUT_ONE,
    LLAMA,
    NO_FEEDFORWARD_BIASES,
    QWEN3,
    RULES,
)
from glassformer.huggingface.families.rope import Rope
from glassformer.huggingface.keys import Key, each_of
from glassformer.layers import LinearAttention, OutputGate

ROPE = Rope(share=0.25)
USUAL = {"taps": 4, "n_key_heads": 16, "n_heads": 32, "d_key": 128, "d_value": 128}


def layers(given: Mapping[str, Any], n_layers: int) -> list[tuple[str, dict[str, Any]]]:
    """Returns the kind of each layer and what it has: without a list, every fourth attends."""
    every, kinds = given.get("full_attention_interval", 4), (delta.LINEAR, delta.FULL)
    checks.whole("full_attention_interval", every)
    words = words_of_layers(given, n_layers, "layer_types", kinds, lambda i: kinds[(i + 1) % every == 0])
    rope = ROPE.read(given)[""]
    own: dict[str, dict[str, Any]] = {delta.FULL: {"gate": OutputGate(), **rope}}
    if delta.LINEAR in words:
        delta.check_silu(given)
        eps = needed({"rms_norm_eps": 1e-6, **given}, "rms_norm_eps")
        own[delta.LINEAR] = {
            "form": LinearAttention(**delta.sizes_of(given, USUAL), output_eps=eps),
            **delta.OF_STATES,
            **rope,
        }
    return [(delta.WORDS[word], own[word]) for word in words]


def write(config: ModelConfig) -> dict[str, Any]:
    """Returns what a file has beyond the tables."""
    words, full, form = delta.kinds_of(config)
    sizes = {} if form is None else {theirs: getattr(form, ours) for ours, theirs in delta.SIZES.items()}
    return {
        "layer_types": words,
        "attention_bias": full.attention_bias == "all",
        **sizes,
        **ROPE.write({"": full}),
    }


def is_qwen(config: ModelConfig) -> bool:
    """Claims models whose layers have the delta rule, or attention with a gate."""
    gates = [layer.attention.gate is not None for layer, _ in config.layers(config.n_layers).values()]
    each = zip(gates, delta.forms_of(config), strict=True)
    return all(has_gate or isinstance(form, LinearAttention) for has_gate, form in each)


def _form(config: ModelConfig) -> LinearAttention:
    return next(form for form in delta.forms_of(config) if form is not None)


def _of_key_head(config: ModelConfig) -> tuple[int, ...]:
    """Returns how many numbers of queries, keys, values and gates belong to a key head."""
    form = _form(config)
    values = form.n_heads // form.n_key_heads * form.d_value
    return form.d_key, form.d_key, values, values


def _heads_of_key_head(config: ModelConfig) -> tuple[int, ...]:
    """Returns how many heads share a key head, for what is written and for what decays."""
    form = _form(config)
    return (form.n_heads // form.n_key_heads,) * 2


OURS, THEIRS = "decoder.blocks.#.attention", "model.layers.#.linear_attn"
IN_BOTH = {"log_rate": "A_log", "decay_bias": "dt_bias", "norm_heads": "norm", "W_o": "out_proj"}
QWEN3_5 = QWEN3.derive(
    model_type="qwen3_5_text",
    architectures=("Qwen3_5ForCausalLM", "Qwen3_5TextModel"),
    fields={"n_kv_heads": 4, "d_head": 256},
    # The three positions of a token that mrope has are equal in a text
    rope=Rope(share=0.25, more=("mrope_section", "mrope_interleaved")),
    kinds=None,
    layers=layers,
    must_be=(
        *RULES,
        NO_FEEDFORWARD_BIASES,
        *NO_WINDOW[:2],
        ("attn_output_gate", (True,), "the attention of this family always has its gate"),
    ),
    also=(*QWEN3.also, "layer_types", "full_attention_interval", *delta.SIZES.values()),
    without_effect={
        "mamba_ssm_dtype": "says in what type a state is kept: here, in float32 at least",
        **each_of(
            "belongs to layers that predict several tokens, which are left out",
            "mtp_num_hidden_layers mtp_use_dedicated_embeddings",
        ),
        "mlp_only_layers": "this family has no experts, so every layer is one of them",
    },
    write=write,
    claims=is_qwen,
    names={
        **GAINS_WITHOUT_ONE,
        **{
            f"{OURS}.{ours}": replace(
                linear("model.layers.#.self_attn.q_proj", part), turns=lambda config: (config.d_head,) * 2
            )
            for part, ours in enumerate(("W_q", "gate.W"))
        },
    },
    states={
        **delta.names_of(
            THEIRS, IN_BOTH | {"W_gate": "in_proj_z", "W_write": "in_proj_b", "W_decay": "in_proj_a"}
        ),
        **{f"{OURS}.W_{c}": linear(f"{THEIRS}.in_proj_qkv", part) for part, c in enumerate("qkv")},
    },
    ignored=LLAMA.layout.ignored + r"|^(model\.)?mtp\.",
)
MLP = "model.layers.#.mlp"
SHARED = {"d_shared": Key("shared_expert_intermediate_size", 512), "shared_gate": True}
QWEN3_5_MOE = QWEN3_5.derive(
    model_type="qwen3_5_moe_text",
    architectures=("Qwen3_5MoeForCausalLM", "Qwen3_5MoeTextModel"),
    fields={"n_kv_heads": 2, "d_ff": None},
    sparse=mixture(Key("num_experts", 256), 8, 512, **SHARED),
    without_effect={
        **TRAINING,
        **each_of(
            "every layer has experts, whose weights have the sum 1", "intermediate_size mlp_only_layers"
        ),
    },
    names={
        **named(MLP, shared="shared_expert"),
        f"{FEEDFORWARD}.shared_gate": linear(f"{MLP}.shared_expert_gate"),
    },
    packed=packed(f"{MLP}.experts"),
)
QWEN3_NEXT = QWEN3_5_MOE.derive(
    model_type="qwen3_next",
    architectures=("Qwen3NextForCausalLM", "Qwen3NextModel"),
    fields={"d_ff": QWEN3_5.fields["d_ff"]},
    rope=ROPE,
    sparse=mixture(
        Key("num_experts", 512), 10, 512, STEPS, renormalize=either("norm_topk_prob", True), **SHARED
    ),
    without_effect={"intermediate_size": None, "mlp_only_layers": None},
    states={
        **delta.names_of(THEIRS, IN_BOTH),
        **{
            f"{OURS}.{ours}": replace(linear(f"{THEIRS}.{name}", part), turns=turns)
            for name, turns, several in (
                ("in_proj_qkvz", _of_key_head, ("W_q", "W_k", "W_v", "W_gate")),
                ("in_proj_ba", _heads_of_key_head, ("W_write", "W_decay")),
            )
            for part, ours in enumerate(several)
        },
    },
)
