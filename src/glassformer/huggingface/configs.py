"""Translates configurations field by field, from a config.json to a `ModelConfig` and back, by `families`."""

import re
from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Any

from glassformer import _checks as checks
from glassformer.config import Derived, ModelConfig
from glassformer.huggingface.families import FORMATS, family_of
from glassformer.huggingface.families.format import NEEDED, Format, needed
from glassformer.huggingface.families.rope import RAMP, SCALINGS
from glassformer.huggingface.files import Weights
from glassformer.huggingface.keys import (
    ALL,
    ROPE_KEYS,
    RULES,
    SCALES,
    WITHOUT_EFFECT,
    Rule,
    check_known,
    check_rules,
    contradiction,
    type_is_missing,
    unsupported,
    without,
)
from glassformer.huggingface.weights import check_sizes, has_own_head

COMMON = ("model_type", "architectures", *(name for name, *_ in RULES), *WITHOUT_EFFECT)
"""The keys that are accounted for in the files of every family."""

FLOATS = [f.name for f in fields(ModelConfig) if f.type in (float, Derived[float])]


def config_from_hf(
    given: Mapping[str, Any], state: Mapping[str, Any] | None = None, *, ignore: Collection[str] = ()
) -> ModelConfig:
    """Returns the model configuration that a config.json describes; the argument is its dictionary.

    The file does not say everything. If the weights are given, as `state` by Hugging Face's names, they
    decide whether a BERT has a pooler or a head, and whether a head that the file calls tied has its own
    weights after all. The keys in `ignore` count as if the file did not have them, and "all" stands for those that
    are not known here, which `unknown_keys` tells.

    Dropout has a single rate here. Dropout inside attention, which the book's models lack, is left out; it
    matters only in training.

    Raises:
        ValueError: a key is missing, unknown, contradicts another, or asks for something that these models do
            not support; the message names it.
        TypeError: `ignore` is not a list of names.
    """
    return with_own_head(described(given, state, ignore), state)


def unknown_keys(given: Mapping[str, Any]) -> list[str]:
    """Returns the keys of a config.json that are on no list of its family; one in an object as "rope_scaling.new"."""
    kind = given.get("model_type")
    if not isinstance(kind, str) or kind not in FORMATS:
        return []
    known = {*COMMON, *FORMATS[kind].keys}
    inner = [
        f"{where}.{key}"
        for where in ("rope_parameters", "rope_scaling")
        if where in known and isinstance(given.get(where), dict)
        for key, value in given[where].items()
        if key not in ROPE_KEYS
        and not isinstance(value, dict)  # an object for each kind of layer is refused anyway
    ]
    return [key for key in given if key not in known] + inner


def described(
    given: Mapping[str, Any], state: Mapping[str, Any] | None = None, ignore: Collection[str] = ()
) -> ModelConfig:
    """Returns the result of `config_from_hf`, except that a head that the file calls tied stays tied."""
    given = without(given, ignore)
    if ALL in ignore:
        given = without(given, unknown_keys(given))
    kind: Any = given.get("model_type")
    if kind not in tuple(FORMATS):
        raise ValueError(type_is_missing(given, tuple(FORMATS)))
    form = FORMATS[kind]
    given = _one_name_each(given, form)
    check_rules(given, (*RULES, *form.must_be, *_scales(given, form)))
    unknown = unknown_keys(given)
    settings: dict[str, Any] = {}
    config = None
    try:
        settings = _as_tables_say(given, form) | form.read(form, given, () if state is None else state)
        for name in FLOATS:
            value = settings.get(name)
            if type(value) is int and abs(value) < checks.LARGEST:
                settings[name] = float(value)  # JSON may contain 10000 for 10000.0
        if not unknown:  # otherwise, they are a better reason than what follows from their absence
            config = ModelConfig(**settings)
            if isinstance(state, Weights):  # their shapes are known before any is read
                check_sizes(config, state.shapes)
    except (ValueError, TypeError) as error:  # in a file, it is the value that is wrong
        scaling = SCALINGS.get(settings.get("rope_scaling", "default"), {})
        raise ValueError(_in_their_words(str(error), form, scaling)) from None
    check_known(given, unknown, ignore)
    assert config is not None  # a file with unknown keys has just been refused
    return config


def _one_name_each(given: Mapping[str, Any], form: Format) -> dict[str, Any]:
    """Returns the file with its usual names for keys that have several, after checking that they agree."""
    found = dict(given)
    for alias, name in form.aliases.items():
        value, other = found.get(alias), found.get(name)
        if value is not None and other is not None and value != other:
            raise contradiction(name, other, alias, value)
        if other is None and value is not None:
            found[name] = value
    return found


def _scales(given: Mapping[str, Any], form: Format) -> list[Rule]:
    """Returns the rules for keys that set the scale of scores: only 1/√K, for heads of K numbers, is computed."""
    width = given.get("head_dim", form.fields.get("d_head", ("", None))[1])
    size, heads = given.get("hidden_size"), given.get("num_attention_heads")
    if width is None and type(size) is int and type(heads) is int and heads > 0:
        width = size // heads
    return [
        (name, (None,), "scores are divided by the square root of a head's width")
        for name, power in SCALES.items()
        if name in form.also
        and not (type(width) is int and width > 0 and _close(given.get(name), width**power))
    ]


def _close(value: Any, other: float) -> bool:
    return type(value) in (int, float) and abs(value / other - 1) <= 1e-6


def with_own_head(config: ModelConfig, state: Mapping[str, Any] | None) -> ModelConfig:
    """Returns the config, changed to an untied head if the weights have their own."""
    if config.head == "tied" and state is not None and has_own_head(config, state):
        config = config.replace(head="untied")
    return config


def config_to_hf(config: ModelConfig) -> dict[str, Any]:
    """Returns a config.json, as a dictionary, that `config_from_hf` and the library transformers understand.

    Raises:
        ValueError: no family has such a model; the message names the fields that prevent it.
        TypeError: `config` is not a ModelConfig.
    """
    checks.instance("config", config, ModelConfig)
    kind = family_of(config)
    form = FORMATS[kind]
    given = {
        "architectures": [form.architectures[-1 if config.head == "none" else 0]],
        "model_type": kind,
        **{name: getattr(config, ours) for ours, (name, _) in form.fields.items()},
        form.activation[0]: form.word(config.feedforward),
        **form.write(form, config),
    }
    # Translate back to see whether anything was lost. LLaMAs have no dropout, and a pooler shows in its
    # weights. Without a ramp between slow and fast pairs, its ends mean nothing.
    back = config_from_hf(given)
    silent = {"dropout", "pooler"} | (RAMP if config.rope_scaling == "linear" else set())
    lost = [
        f"{f.name}={getattr(config, f.name)!r} (it has {getattr(back, f.name)!r})"
        for f in fields(ModelConfig)
        if f.name not in silent and getattr(back, f.name) != getattr(config, f.name)
    ]
    if lost:
        raise ValueError(f"{kind} of transformers has no {', '.join(lost)}")
    return given


def _in_their_words(message: str, form: Format, scaling: Mapping[str, tuple[str, Any]]) -> str:
    """Replaces our field names in a message by the file's names for them."""
    tables = (*form.fields.items(), *scaling.items())
    for ours, theirs in [*((ours, theirs) for ours, (theirs, _) in tables), *form.said.items()]:
        message = re.sub(rf"\b{ours}=", f"{theirs}=", message)
    return message


def _as_tables_say(given: Mapping[str, Any], form: Format) -> dict[str, Any]:
    """Reads the fields that the tables of a family describe."""
    settings = dict(form.always)
    for ours, (theirs, default) in form.fields.items():
        settings[ours] = needed(given, theirs) if default == NEEDED else given.get(theirs, default)
    theirs, default, words = form.activation
    name = given.get(theirs, default)
    if not isinstance(name, str) or name not in words:
        raise unsupported(given, theirs, f"known are {', '.join(words)}")
    return settings | {"feedforward": words[name]}
