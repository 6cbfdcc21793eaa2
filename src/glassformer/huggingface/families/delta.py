"""What families with the delta rule have in common: kinds of layers with a state, and the names of their weights."""

from collections.abc import Mapping
from typing import Any

from glassformer import _checks as checks
from glassformer.config import ModelConfig
from glassformer.huggingface.families.format import Place, flat_kinds, linear, needed
from glassformer.huggingface.keys import unsupported
from glassformer.layers import LinearAttention

LINEAR, FULL = "linear_attention", "full_attention"
WORDS = {LINEAR: "state", FULL: "full"}
"""Their words for the two kinds of layers, and ours."""

OF_STATES: dict[str, Any] = {"attention_bias": "none", "qk_norm": False}
"""What a layer with a state has in place of the model's own."""

SIZES = {
    "taps": "linear_conv_kernel_dim",
    "n_key_heads": "linear_num_key_heads",
    "n_heads": "linear_num_value_heads",
    "d_key": "linear_key_head_dim",
    "d_value": "linear_value_head_dim",
}


def sizes_of(given: Mapping[str, Any], usual: Mapping[str, int]) -> dict[str, Any]:
    """Returns the sizes of a layer with a state; the usual ones if the file does not say."""
    found = {ours: needed({theirs: usual[ours], **given}, theirs) for ours, theirs in SIZES.items()}
    for ours, theirs in SIZES.items():
        checks.whole(theirs, found[ours])
    checks.divisible(SIZES["n_heads"], found["n_heads"], SIZES["n_key_heads"], found["n_key_heads"])
    return found


def check_silu(given: Mapping[str, Any]) -> None:
    """Checks that the activation of the feed-forward networks is also that of our convolutions."""
    if given.get("hidden_act", "silu") not in ("silu", "swish"):
        raise unsupported(given, "hidden_act", "layers with a state have it, too, and ours have silu there")


def kinds_of(config: ModelConfig) -> tuple[list[str], ModelConfig, LinearAttention | None]:
    """Returns the word of each layer, a model whose layers all attend as those that do, and the form of the others."""
    flat, parts = flat_kinds(config)
    forms = {name: parts[name].get("form") for name in flat}
    states = {name: form for name, form in forms.items() if isinstance(form, LinearAttention)}
    words = [LINEAR if config.kind(i) in states else FULL for i in range(config.n_layers)]
    full = next((flat[name] for name in flat if name not in states), flat[config.kind(0)])
    return words, full, next(iter(states.values()), None)


def forms_of(config: ModelConfig) -> list[Any]:
    """Returns the form of each kind of layer; None is that of usual attention."""
    return [layer.attention.form for layer, _ in config.layers(config.n_layers).values()]


def names_of(theirs: str, names: Mapping[str, str]) -> dict[str, Place | str]:
    """Returns the places of a layer's weights, by names that begin with `theirs`; those of our W are matrices."""
    found: dict[str, Place | str] = {
        f"decoder.blocks.#.attention.{ours}": linear(f"{theirs}.{name}")
        if ours.startswith("W_")
        else f"{theirs}.{name}"
        for ours, name in names.items()
    }
    return found | {
        f"decoder.blocks.#.attention.convolution_{letter}": Place(
            f"{theirs}.conv1d", convolution=True, part=part
        )
        for part, letter in enumerate("qkv")
    }


PIECES = {"conv1d": ("q_conv1d", "k_conv1d", "v_conv1d")}
"""In the files of some families, each of queries, keys and values has its convolution."""
