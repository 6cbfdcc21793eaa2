"""OLMo hybrid: three layers with the delta rule, normed as a LLaMA's, to one that attends, normed as an OLMo 3's.

A state may be written with up to twice the strength. Published models have no positions: their rope_theta is null.
"""

from collections.abc import Mapping
from typing import Any

from glassformer import _checks as checks
from glassformer.config import ModelConfig
from glassformer.huggingface.families import delta
from glassformer.huggingface.families.format import NO_WINDOW, flag, needed, words_of_layers
from glassformer.huggingface.families.llama import NO_FEEDFORWARD_BIASES, RULES
from glassformer.huggingface.families.olmo import OLMO2
from glassformer.huggingface.families.rope import Rope
from glassformer.huggingface.keys import each_of
from glassformer.layers import LinearAttention, Residual

USUAL = Rope()
NO_POSITIONS = {"rope_type": "default", "rope_theta": None}
O_NORM_EPS = 1e-5  # whatever rms_norm_eps says


def layers(given: Mapping[str, Any], n_layers: int) -> list[tuple[str, dict[str, Any]]]:
    """Returns the kind of each layer and what it has: without a list, every fourth attends, or the last of fewer."""

    def usual(i: int) -> str:
        return delta.FULL if i % 4 == 3 or (n_layers < 4 and i == n_layers - 1) else delta.LINEAR

    words = words_of_layers(given, n_layers, "layer_types", (delta.LINEAR, delta.FULL), usual)
    positions = {"positions": "none"}
    if USUAL.settings(given).get("rope_theta", given.get("rope_theta", USUAL.base)) is not None:
        positions = USUAL.read(given)[""]
    own: dict[str, dict[str, Any]] = {delta.FULL: {"residual": Residual(placement="output"), **positions}}
    if delta.LINEAR in words:
        delta.check_silu(given)
        strength = 2.0 if flag(given, "linear_allow_neg_eigval", True) else 1.0
        form = LinearAttention(**_sizes(given), max_strength=strength, output_eps=O_NORM_EPS)
        own[delta.LINEAR] = {"form": form, **delta.OF_STATES, **positions}
    return [(delta.WORDS[word], own[word]) for word in words]


def _sizes(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the sizes of a layer with a state, which follow from the others if they are null."""
    given = {
        key: value for key, value in given.items() if value is not None or key not in delta.SIZES.values()
    }
    n_heads, width = (needed(given, name) for name in ("num_attention_heads", "hidden_size"))
    n_keys = given.get(delta.SIZES["n_key_heads"], n_heads)
    for name, value in (
        ("num_attention_heads", n_heads),
        ("hidden_size", width),
        (delta.SIZES["n_key_heads"], n_keys),
    ):
        checks.whole(name, value)
    d_key = given.get(delta.SIZES["d_key"], int(0.75 * width / n_keys))
    checks.whole(delta.SIZES["d_key"], d_key)
    usual = {"taps": 4, "n_key_heads": n_heads, "n_heads": n_heads, "d_key": d_key, "d_value": 2 * d_key}
    return delta.sizes_of(given, usual)


def write(config: ModelConfig) -> dict[str, Any]:
    """Returns what a file has beyond the tables."""
    words, full, form = delta.kinds_of(config)
    given = {"layer_types": words, "attention_bias": full.attention_bias == "all"}
    if form is not None:
        given |= {theirs: getattr(form, ours) for ours, theirs in delta.SIZES.items()}
        given["linear_allow_neg_eigval"] = form.max_strength == 2
    if full.positions == "none":
        return given | {"rope_parameters": NO_POSITIONS, "rope_theta": None, "rope_scaling": None}
    return given | USUAL.write({"": full})


OLMO_HYBRID = OLMO2.derive(
    model_type="olmo_hybrid",
    architectures=("OlmoHybridForCausalLM", "OlmoHybridModel"),
    fields={"norm_eps": 1e-6},
    parts={},
    layers=layers,
    must_be=(*RULES, *NO_WINDOW[:2], NO_FEEDFORWARD_BIASES),
    also=(*OLMO2.also, "layer_types", "linear_allow_neg_eigval", *delta.SIZES.values()),
    without_effect={
        **each_of(
            "says how the decays are first set in training",
            "linear_a_log_min linear_a_log_max linear_dt_min linear_dt_max linear_dt_init_floor",
        )
    },
    write=write,
    claims=lambda config: any(isinstance(form, LinearAttention) for form in delta.forms_of(config)),
    names={
        "decoder.blocks.#.norm_attention": "model.layers.#.attention_layer_norm",
        "decoder.blocks.#.norm_feedforward": "model.layers.#.feedforward_layer_norm",
    },
    states=delta.names_of(
        "model.layers.#.linear_attn",
        {
            **{f"W_{c}": f"{c}_proj" for c in "qkvo"},
            **{"W_gate": "g_proj", "W_write": "b_proj", "W_decay": "a_proj"},
            **{"log_rate": "A_log", "decay_bias": "dt_bias", "norm_heads": "o_norm"},
        },
    ),
    pieces=delta.PIECES,
    # In memory, and as transformers saves them, norms have the names of another kind of layer
    others=(
        (".input_layernorm.", ".attention_layer_norm."),
        (".post_attention_layernorm.", ".feedforward_layer_norm."),
        (".feedforward_layer_norm.", ".post_attention_layernorm."),
    ),
)
