"""Granite 4: Granite's four factors, and layers of Mamba-2 among those that attend.

Without experts, the feed-forward network that all tokens share is the only one.
"""

from collections.abc import Mapping
from typing import Any

from glassformer.config import ModelConfig
from glassformer.huggingface.families.format import Sparse, flag, flat_kinds, words_of_layers
from glassformer.huggingface.families.granite import EXPERTS, GRANITE, GRANITE_MOE, shared_as
from glassformer.huggingface.families.llama import NO_FEEDFORWARD_BIASES, RULES
from glassformer.huggingface.families.mamba2 import NO_LIMITS, SILU, STEPS, layer_names, state_of
from glassformer.huggingface.families.rope import Rope
from glassformer.huggingface.keys import Key, unsupported
from glassformer.layers import Mamba2

STATE, FULL = "linear_attention", "full_attention"
NAMES = {STATE: "state", FULL: "full", "mamba": "state", "attention": "full"}  # the last two in older files
SIZES = {
    "n_heads": Key("mamba_n_heads", 128),
    "n_key_heads": Key("mamba_n_groups", 1),
    "d_key": Key("mamba_d_state", 256),
    "d_value": Key("mamba_d_head", "auto"),
    "taps": Key("mamba_d_conv", 4),
}
EXPAND = Key("mamba_expand", 2)
OF_HEADS = ("n_heads", "n_kv_heads", "d_head", "attention_scale")
ROPE = Rope()


def layers(given: Mapping[str, Any], n_layers: int) -> list[tuple[str, dict[str, Any]]]:
    """Returns the kind of each layer and what it has: without a list, all have a state."""
    words = words_of_layers(given, n_layers, "layer_types", NAMES, lambda i: STATE)
    positions: dict[str, Any] = {"positions": "none"}
    if given.get("position_embedding_type") == "rope":
        positions = {"positions": "rope", **ROPE.read(given)[""]}
    own = {"full": positions, "state": dict(positions)}
    if "state" in {NAMES[word] for word in words}:
        if given.get("hidden_act", "silu") not in SILU:
            raise unsupported(
                given, "hidden_act", "convolutions and gates of layers with a state have SiLU here"
            )
        more = {"convolution_bias": flag(given, "mamba_conv_bias", True)}
        eps = given.get("rms_norm_eps", 1e-6)
        own["state"] |= {"form": state_of(given, SIZES, EXPAND, output_eps=eps, **more)}
        own["state"] |= {"attention_bias": "none"} if given.get("attention_bias") else {}
    return [(NAMES[word], own[NAMES[word]]) for word in words]


def is_hybrid(config: ModelConfig) -> bool:
    """Claims models of which some layers are those of Mamba-2, and all others attend."""
    forms = {layer.attention.form for layer, _ in config.layers(config.n_layers).values()} - {None}
    return bool(forms) and all(isinstance(form, Mamba2) for form in forms)


def write(config: ModelConfig) -> dict[str, Any]:
    """Returns what a file has beyond the tables."""
    flat, parts = flat_kinds(config)
    form = next(own["form"] for own in parts.values() if own.get("form") is not None)
    given = {key.name: getattr(form, ours) for ours, key in SIZES.items()}
    each = [config.layer(i).attention.has_state for i in range(config.n_layers)]
    given |= {
        "mamba_conv_bias": form.convolution_bias,
        "mamba_expand": form.n_heads * form.d_value // config.d_model,
        "layer_types": [STATE if has_state else FULL for has_state in each],
        "attention_bias": False,
        "position_embedding_type": None,
    }
    attends = next((flat[name] for name, own in parts.items() if own.get("form") is None), None)
    if attends is not None:
        given |= {GRANITE_HYBRID.fields[ours].name: getattr(attends, ours) for ours in OF_HEADS}
        given["attention_bias"] = attends.attention_bias == "all"
        if attends.positions == "rope":
            given |= {"position_embedding_type": "rope", **ROPE.write({"": attends})}
    return given


GRANITE_HYBRID = GRANITE_MOE.derive(
    model_type="granitemoehybrid",
    architectures=("GraniteMoeHybridForCausalLM", "GraniteMoeHybridModel"),
    fields={"d_head": Key("head_dim", None), "d_ff": Key("shared_intermediate_size", 1024)},
    always={"positions": None},
    rope=ROPE,
    layers=layers,
    must_be=(
        *(*RULES, NO_FEEDFORWARD_BIASES, NO_LIMITS),
        ("mamba_proj_bias", (False, None), "no matrix of a layer with a state has a bias here"),
        ("normalization_function", ("rmsnorm", None), "every norm of this family is an RMSNorm"),
    ),
    sparse=Sparse(
        experts={**EXPERTS, "d_shared": Key("shared_intermediate_size", 1024)},
        d_ff=Key("intermediate_size", 11008),
    ),
    also=(
        *GRANITE.also,
        *(key.name for key in (EXPAND, *SIZES.values())),
        *("layer_types", "mamba_conv_bias", "position_embedding_type"),
    ),
    aliases={**GRANITE.aliases, "layers_block_type": "layer_types"},
    without_effect={
        **STEPS,
        "max_window_layers": None,
        "mamba_chunk_size": "says in what pieces a text is computed, with the same result",
        "init_method": "says how weights are drawn, before training",
    },
    said={**GRANITE.said, "output_eps": "rms_norm_eps"},
    write=write,
    claims=is_hybrid,
    names=shared_as("feedforward"),
    states=layer_names("model.layers.#.mamba"),
)
