"""How files of LLaMA's relatives describe their rotary positions: a base, and a kind of stretching."""

import math
from collections.abc import Mapping
from typing import Any

from glassformer import _checks as checks
from glassformer.config import ROPE_BASE, ModelConfig
from glassformer.huggingface.families.format import NEEDED
from glassformer.huggingface.keys import contradiction, unsupported

ROPE = ("rope_parameters", "rope_scaling", "rope_theta", "original_max_position_embeddings")
"""The keys of a file that are read here."""

# How each kind of rotary positions names our fields, and its default for each
SCALINGS: dict[str, dict[str, tuple[str, Any]]] = {
    "default": {},
    "linear": {"rope_interpolation": ("factor", NEEDED)},
    "llama3": {
        "rope_interpolation": ("factor", NEEDED),
        "rope_slow": ("low_freq_factor", NEEDED),
        "rope_fast": ("high_freq_factor", NEEDED),
        "rope_original_context": ("original_max_position_embeddings", None),
    },
    "yarn": {
        "rope_interpolation": ("factor", NEEDED),
        "rope_slow": ("beta_slow", 1.0),
        "rope_fast": ("beta_fast", 32.0),
        "rope_original_context": ("original_max_position_embeddings", None),
        "rope_attention_factor": ("attention_factor", None),
    },
}
RAMP = {"rope_slow", "rope_fast", "rope_original_context"}


def read_rope(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the base of the rotary positions and how they are stretched.

    Since transformers 5, everything is in rope_parameters; before, rope_scaling had the settings that are not
    standard. A file with both must say the same twice.
    """
    places = [name for name in ("rope_scaling", "rope_parameters") if given.get(name)] or ["rope_parameters"]
    found = [_rope_in(given, place) for place in places]
    if found[0] != found[-1]:
        raise contradiction(*(each for place in places for each in (place, given[place])))
    return found[0]


def write_rope(config: ModelConfig) -> dict[str, Any]:
    """Returns the same in a file's words, where transformers 5 looks for it and where transformers 4 does."""
    scaling = config.rope_scaling
    if scaling == "linear" and config.rope_interpolation == 1:
        scaling = "default"
    rope = {"rope_type": scaling, "rope_theta": config.rope_base}
    rope |= {theirs: getattr(config, ours) for ours, (theirs, _) in SCALINGS[scaling].items()}
    return {
        "rope_parameters": rope,
        "rope_theta": config.rope_base,
        "rope_scaling": None if scaling == "default" else rope,
    }


def _rope_in(given: Mapping[str, Any], where: str) -> dict[str, Any]:
    rope = given.get(where) or {}
    if not isinstance(rope, dict) or any(isinstance(entry, dict) for entry in rope.values()):
        raise unsupported(given, where, "it must be one object, for all layers")
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind not in tuple(SCALINGS):
        raise unsupported(given, where, f"known are {', '.join(SCALINGS)}")
    if rope.get("type") not in (None, kind):
        raise contradiction("rope_type", kind, "type", rope["type"])
    if rope.get("partial_rotary_factor") not in (None, 1):
        raise unsupported(given, where, "every head is rotated as a whole")
    outside = ["rope_theta"] + (["original_max_position_embeddings"] if kind in ("llama3", "yarn") else [])
    for name in outside:
        inner, outer = rope.get(name), given.get(name)
        if inner is not None and outer is not None and inner != outer:
            raise contradiction(name, outer, f"{where}.{name}", inner)
    found = {"rope_base": rope.get("rope_theta", given.get("rope_theta", ROPE_BASE))}
    if kind != "default":
        found["rope_scaling"] = kind
    for ours, (theirs, default) in SCALINGS[kind].items():
        value = rope.get(theirs)
        if value is None and default == NEEDED:
            raise unsupported(given, where, f"{kind} positions need a {theirs}, which is missing")
        found[ours] = default if value is None else value
    if "rope_original_context" in found and "original_max_position_embeddings" in given:
        found["rope_original_context"] = given["original_max_position_embeddings"]  # as in transformers
    if kind == "yarn":
        if rope.get("truncate", True) is not True:
            raise unsupported(given, where, "the ramp begins and ends at a whole pair")
        if found["rope_attention_factor"] is None:
            found["rope_attention_factor"] = _attention_factor(rope)
    return found


def _attention_factor(rope: Mapping[str, Any]) -> float | None:
    """Returns the factor that two other numbers give, as in DeepSeek's files; None: it is the usual one."""
    above, below = rope.get("mscale"), rope.get("mscale_all_dim")
    if not (above and below):
        return None
    for name, value in (("factor", rope["factor"]), ("mscale", above), ("mscale_all_dim", below)):
        checks.not_negative(name, value)
    longer = math.log(max(rope["factor"], 1))
    return (0.1 * above * longer + 1.0) / (0.1 * below * longer + 1.0)
