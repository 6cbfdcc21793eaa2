"""Laguna: experts, a softplus gate for each head or number, windows, and numbers of heads that differ by layer."""

from collections.abc import Mapping
from typing import Any

from glassformer import _checks as checks
from glassformer.config import ModelConfig
from glassformer.huggingface.families.deepseek import BIASED, CHOICE_BIAS, MLP, PACKED
from glassformer.huggingface.families.experts import TRAINING, listed, mixture, named
from glassformer.huggingface.families.format import flat_kinds, linear, needed, words_of_layers
from glassformer.huggingface.families.llama import LLAMA, NO_FEEDFORWARD_BIASES, RULES
from glassformer.huggingface.families.rope import OfKind, Rope
from glassformer.huggingface.keys import Key, contradiction, unsupported
from glassformer.layers import OutputGate

WINDOWED, FULL = "sliding_attention", "full_attention"
ROPE = Rope(
    kinds={"windowed": OfKind(WINDOWED, None, 1e4, False), "full": OfKind(FULL, None, 5e5, False)},
    default={FULL: {"rope_theta": 5e5, "partial_rotary_factor": 0.5}},
    share=1.0,
)
GATINGS = {True: "head", "per-head": "head", "per-element": "element"}


def layers(given: Mapping[str, Any], n_layers: int) -> list[tuple[str, dict[str, Any]]]:
    """Returns the kind of each layer and what it has."""
    words = words_of_layers(given, n_layers, "layer_types", (WINDOWED, FULL), lambda i: FULL)
    n_heads = given.get("num_attention_heads_per_layer") or [needed(given, "num_attention_heads")] * n_layers
    if not isinstance(n_heads, list) or len(n_heads) != n_layers:
        raise contradiction("num_hidden_layers", n_layers, "num_attention_heads_per_layer", n_heads)
    gating = given.get("gating", True)
    if type(gating) not in (bool, str) or gating not in GATINGS:
        raise unsupported(given, "gating", "known are True, per-head, per-element")
    rope, gate = ROPE.read(given), OutputGate(per=GATINGS[gating], function="softplus")
    window = needed({"sliding_window": 512, **given}, "sliding_window")
    own = {WINDOWED: {"sliding_window": window, **rope["windowed"]}, FULL: rope["full"]}
    names = {WINDOWED: "windowed", FULL: "full"}
    found = []
    for word, heads in zip(words, n_heads, strict=True):
        checks.whole("num_attention_heads_per_layer", heads)
        alike = len({h for w, h in zip(words, n_heads, strict=True) if w == word}) == 1
        name = names[word] if alike else f"{names[word]}_{heads}"
        found.append((name, {"n_heads": heads, "gate": gate, **own[word]}))
    return found


def has_softplus(config: ModelConfig) -> bool:
    """Claims models whose gates are those of a Laguna."""
    gates = [layer.attention.gate for layer, _ in config.layers(config.n_layers).values()]
    return all(gate is not None and gate == gates[0] and gate.function == "softplus" for gate in gates)


def write(config: ModelConfig) -> dict[str, Any]:
    """Returns what a file has beyond the tables."""
    flat, parts = flat_kinds(config)
    kinds = [config.kind(i) for i in range(config.n_layers)]
    words = {name: FULL if own.sliding_window is None else WINDOWED for name, own in flat.items()}
    rope = {words[name]: ROPE.settings_of(own) for name, own in flat.items()}
    windows = [own.sliding_window for own in flat.values() if own.sliding_window is not None]
    return {
        "layer_types": [words[name] for name in kinds],
        "num_attention_heads_per_layer": [flat[name].n_heads for name in kinds],
        "gating": True if next(iter(parts.values()))["gate"].per == "head" else "per-element",
        "sliding_window": windows[0] if windows else 512,
        "rope_parameters": rope,
    }


LAGUNA = LLAMA.derive(
    model_type="laguna",
    architectures=("LagunaForCausalLM", "LagunaModel"),
    fields={"n_kv_heads": 8, "d_head": 128},
    always={"qk_norm": True, "attention_bias": "none", "feedforward_bias": False},
    rope=ROPE,
    layers=layers,
    sparse=mixture(
        *(Key("num_experts", 256), 8, 512, listed(1)),
        scale=Key("moe_routed_scaling_factor", 1.0),
        d_shared=Key("shared_expert_intermediate_size", 512),
        **BIASED,
    ),
    must_be=(
        *RULES,
        NO_FEEDFORWARD_BIASES,
        ("attention_bias", (False,), "where queries have biases, the gate has them here, too"),
        ("partial_rotary_factor", (None,), "rope_parameters says it for each kind of layer"),
        ("rope_scaling", (None,), "rope_parameters says it for each kind of layer"),
        ("rope_theta", (None,), "rope_parameters says it for each kind of layer"),
        ("moe_apply_router_weight_on_input", (False, None), "a weight multiplies what an expert returns"),
        ("moe_router_logit_softcapping", (0, None), "the router's scores have no cap here"),
    ),
    also=("layer_types", "sliding_window", "num_attention_heads_per_layer", "gating"),
    without_effect=TRAINING,
    write=write,
    claims=has_softplus,
    names={
        "decoder.blocks.#.attention.gate.W": linear("model.layers.#.self_attn.g_proj"),
        **named(MLP, shared="shared_expert"),
        CHOICE_BIAS: f"{MLP}.experts.e_score_correction_bias",
    },
    packed=PACKED,
    # In memory
    others=((".shared_experts.", ".shared_expert."), (".gate.e_score", ".experts.e_score")),
)
