"""The formulas with which counting.js counts the parameters of any configuration, taken from `parameter_count`."""

import itertools
from functools import cache
from typing import Any

from glassformer.config import CHOICES, ModelConfig
from glassformer.layers import NORM_WEIGHTS, QK_NORMS
from glassformer.parameters import Part

# The largest allowed size, for which the parameter count is still an exact whole number in JavaScript.
LIMITS = {
    "vocab_size": 10_000_000,
    "context_length": 10_000_000,
    "d_model": 100_000,
    "n_layers": 1000,
    "n_decoder_layers": 1000,
    "n_heads": 1000,
    "n_kv_heads": 1000,
    "d_head": 1000,
    "d_ff": 1_000_000,
}
FOLLOWS = ("n_decoder_layers", "n_kv_heads", "d_head", "d_ff")  # derived from other sizes if not given
OPTIONS: dict[str, tuple[Any, ...]] = {
    **{name: CHOICES[name] for name in ("family", "positions", "norm_placement")},
    "norm": tuple(name for name in CHOICES["norm"] if name not in NORM_WEIGHTS or name == "rmsnorm"),
    # Layers without a network are those of chapter 17; activations that learn, and norms without weights, of chapter 18
    "feedforward": tuple(name for name in CHOICES["feedforward"] if name not in ("none", "xielu")),
    **{name: CHOICES[name] for name in ("attention_bias", "head")},
    **{name: (False, True) for name in ("feedforward_bias", "qk_norm", "embedding_norm")},
    **{name: (False, True) for name in ("head_bias", "head_transform", "pooler")},
    "n_segments": (0, 1, 2, 3, 4),
    "t5_n_buckets": (8, 16, 32, 64),
}
FIELDS = (*LIMITS, *OPTIONS)
"""The fields of a configuration on which a count depends."""

# The formulas for queries and keys depend on sizes: whether H·K is D, and whether G is H or 1.
RELATIONS: dict[str, dict[str, dict[str, int]]] = {
    "queries": {"D": {}, "HK": {"d_head": 8}},
    "keys": {"all": {}, "one": {"n_kv_heads": 1}, "some": {"n_kv_heads": 2}},
}
_SIZES = {"vocab_size": 5, "context_length": 7, "d_model": 24, "n_heads": 4}  # any sizes that fit will do

# The choices on which the formula of each part depends, besides the family. The order is that of the table.
DEPENDS = {
    "token embedding": (),
    "positions": ("positions", "t5_n_buckets"),
    "segments": ("n_segments",),
    "embedding norm": ("embedding_norm", "norm"),
    "attention": ("attention_bias", "qk_norm", "queries", "keys"),
    "cross-attention": ("attention_bias", "qk_norm", "queries", "keys"),
    "feed-forward": ("feedforward", "feedforward_bias"),
    "norms": ("norm",),
    "final norm": ("norm_placement", "norm"),
    "pooler": ("pooler",),
    "head": ("head", "head_bias", "head_transform", "norm"),
}


def key(values: Any) -> str:
    """Writes a list of choices as a key for looking up formulas; JavaScript writes it in the same way."""
    return " ".join(str(value).lower() if isinstance(value, bool) else str(value) for value in values)


@cache
def formulas() -> dict[str, dict[str, Any]]:
    """Returns the formula of every part, and how often the part occurs, for all choices that it depends on.

    All formulas come from `ModelConfig.parameter_count`, their only source. `times` has three numbers: one
    for the whole model, one for each block (of the encoder), and one for each block of the decoder.
    """
    found: dict[str, dict[str, Any]] = {}
    for name, fields in DEPENDS.items():
        names = ("family", *fields)
        entries = {}
        for values in itertools.product(*(_values(field) for field in names)):
            entry = _entry(name, dict(zip(names, values, strict=True)))
            if entry is not None:
                entries[key(values)] = entry
        found[name] = {"fields": names, "entries": entries}
    return found


def _values(field: str) -> tuple[Any, ...]:
    """Returns the values that a field can have in a file, which are more than a view offers."""
    return (*(RELATIONS.get(field) or OPTIONS[field]), *(QK_NORMS if field == "qk_norm" else ()))


def _entry(name: str, choices: dict[str, Any]) -> dict[str, Any] | None:
    """Returns a part's formula and how often it occurs, or None if there is no such model or part."""
    fields = dict(_SIZES)
    for field, value in choices.items():
        fields |= RELATIONS[field][value] if field in RELATIONS else {field: value}
    two_stacks = choices["family"] == "encoder-decoder"
    try:
        one, deeper, *longer = (
            _part(name, fields | {"n_layers": n} | ({"n_decoder_layers": m} if two_stacks else {}))
            for n, m in [(1, 1), (2, 1), (1, 2)][: 3 if two_stacks else 2]
        )
    except ValueError:
        return None
    if one is None or deeper is None:
        return None
    block = deeper.times - one.times
    crossing = longer[0].times - one.times if longer and longer[0] else 0
    entry = {"times": [one.times - block - crossing, block, crossing], "terms": dict(one.formula)}
    return entry | ({} if one.formula else {"note": one.note})


def _part(name: str, fields: dict[str, Any]) -> Part | None:
    return next((part for part in ModelConfig(**fields).parameter_count().parts if part.name == name), None)
