"""Translates configurations, from a config.json to a `ModelConfig` and back, by the tables of `families`."""

import re
from collections.abc import Collection, Mapping
from copy import deepcopy
from dataclasses import asdict, fields, replace
from functools import lru_cache
from typing import Any

from glassformer import _checks as checks
from glassformer.config import OF_A_LAYER, ModelConfig
from glassformer.huggingface import methods, tables
from glassformer.huggingface.families import FORMATS, OF_SEVERAL_PARTS
from glassformer.huggingface.families.format import Format, Layout, Place
from glassformer.huggingface.families.rope import RAMP, SCALINGS
from glassformer.huggingface.keys import (
    ALL,
    RULES,
    SCALES,
    WITHOUT_EFFECT,
    Key,
    Rule,
    check_known,
    check_rules,
    contradiction,
    each_of,
    type_is_missing,
    without,
)
from glassformer.huggingface.quantized import Decoded
from glassformer.huggingface.weights import check_sizes, has_own_head
from glassformer.layers import Layer

COMMON = (
    "model_type",
    "architectures",
    "quantization_config",
    *(name for name, *_ in RULES),
    *WITHOUT_EFFECT,
)
"""The keys that are accounted for in the files of every family."""


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
    given = of_text(given)
    config = described(given, state, ignore)
    return with_own_head(config, state, layout_of(config, given.get("model_type")))


def unknown_keys(given: Mapping[str, Any]) -> list[str]:
    """Returns the keys of a config.json that are on no list of its family; one in an object as "rope_scaling.new"."""
    given = of_text(given)
    kind = given.get("model_type")
    if not isinstance(kind, str) or kind not in FORMATS:
        return []
    form = FORMATS[kind]
    known = {*COMMON, *form.keys, *(("auto_map",) if _names_only(form, given) else ())}
    inside = () if form.rope is None else form.rope.unknown(given)
    return [*(key for key in given if key not in known), *inside, *methods.unknown(given)]


def _names_only(form: Format, given: Mapping[str, Any]) -> bool:
    """Returns whether `auto_map` gives its own code the names of this family's classes, which compute the same."""
    code = given.get("auto_map")
    models = [name for auto, name in code.items() if "Model" in auto] if isinstance(code, dict) else [""]
    return all(isinstance(name, str) and name.rpartition(".")[2] in form.architectures for name in models)


OF_A_WRAPPER = each_of(
    "belongs to the parts for images and sounds, which are left out",
    "vision_config audio_config image_token_id image_token_index video_token_id audio_token_id "
    "vision_start_token_id vision_end_token_id boi_token_id boi_token_index eoi_token_id eoi_token_index "
    "boa_token_id eoa_token_id eoa_token_index mm_tokens_per_image vision_soft_tokens_per_image "
    "multimodal_projector_bias projector_hidden_act spatial_merge_size vision_feature_layer",
)


OTHER_NAMES = {"kimi_k2": "deepseek_v3"}
"""What files call a family, if transformers has another name for it."""


def of_text(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the file of the part that reads text, with what else holds for it, if other parts are left out.

    Its family has the name that transformers has for it.
    """
    if given.get("model_type") in tuple(OTHER_NAMES):
        return {**given, "model_type": OTHER_NAMES[given["model_type"]]}
    inner: Any = given.get("text_config")
    inside = inner.get("model_type") if isinstance(inner, dict) else None
    if not isinstance(inside, str) or inside not in FORMATS:
        return given
    if inside not in OF_SEVERAL_PARTS.get(str(given.get("model_type")), ()):
        return given
    left_out = ("model_type", "architectures", "text_config", *OF_A_WRAPPER)
    outer = {key: value for key, value in given.items() if key not in left_out}
    tied, other = (one.get("tie_word_embeddings") for one in (outer, inner))
    if None not in (tied, other) and tied != other:
        raise contradiction("tie_word_embeddings", tied, "text_config.tie_word_embeddings", other)
    return {**outer, **inner}


def described(
    given: Mapping[str, Any],
    state: Mapping[str, Any] | None = None,
    ignore: Collection[str] = (),
) -> ModelConfig:
    """Returns the result of `config_from_hf`, except that a head that the file calls tied stays tied."""
    given = without(of_text(given), ignore)
    if ALL in ignore:
        given = without(given, unknown_keys(given))
    kind: Any = given.get("model_type")
    if kind not in tuple(FORMATS):
        raise ValueError(type_is_missing(given, tuple(FORMATS)))
    form = FORMATS[kind]
    methods.block_size(given)
    given = _one_name_each(given, form)
    check_rules(given, (*_rules(form), *form.must_be, *_scales(given, form)))
    unknown = unknown_keys(given)
    settings: dict[str, Any] = {}
    config = None
    try:
        settings = tables.read(form, given)
        if form.read is not None:
            settings |= form.read(form, given, () if state is None else state)
        if not unknown:  # otherwise, they are a better reason than what follows from their absence
            config = ModelConfig(**settings)
            if isinstance(state, Decoded):  # their shapes are known before any is read
                check_sizes(config, state.shapes, layout_of(config, kind))
    except (ValueError, TypeError) as error:  # in a file, it is the value that is wrong
        raise ValueError(_in_their_words(str(error), form, settings)) from None
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


def _rules(form: Format) -> list[Rule]:
    """Returns the rules for the keys that this family does not read."""
    return [rule for rule in RULES if rule[0] not in form.keys]


def _scales(given: Mapping[str, Any], form: Format) -> list[Rule]:
    """Returns the rules for keys that set the scale of scores in other families: here, it must be 1/√K."""
    width = given.get("head_dim", form.fields.get("d_head", Key("", None)).default)
    size, heads = given.get("hidden_size"), given.get("num_attention_heads")
    if width is None and type(size) is int and type(heads) is int and heads > 0:
        width = size // heads
    return [
        (name, (None,), "it belongs to other families, and would change the scale of scores")
        for name, power in SCALES.items()
        if name in form.also
        and not (type(width) is int and width > 0 and _close(given.get(name), width**power))
    ]


def _close(value: Any, other: float) -> bool:
    return type(value) in (int, float) and abs(value / other - 1) <= 1e-6


def with_own_head(config: ModelConfig, state: Mapping[str, Any] | None, layout: Layout) -> ModelConfig:
    """Returns the config, changed to an untied head if the weights have their own."""
    if config.head == "tied" and state is not None and has_own_head(layout, state):
        config = config.replace(head="untied")
    return config


def layout_of(config: ModelConfig, family: str | None = None) -> Layout:
    """Returns the names of a model's weights: in that family's files, or in those that it would be written as."""
    if family is not None:
        checks.one_of("model_type", family, tuple(FORMATS))
    layout = FORMATS[_best(config)[0] if family is None else family].layout
    names = {**layout.names, **(layout.gated if config.gated else {})}
    with_state = any(layer.attention.has_state for layer, _ in config.layers(config.n_layers).values())
    return replace(
        layout,
        names=_in_turns(names, config),
        packed=_in_turns(layout.packed, config),
        states=_in_turns({**names, **layout.states}, config) if with_state else {},
        has_state=lambda index: config.layer(index).attention.has_state,
    )


def _in_turns(names: Mapping[str, Place | str], config: ModelConfig) -> dict[str, Place | str]:
    """Returns names of weights, with the widths in which several of a model take turns in one of theirs."""
    return {
        ours: replace(place, widths=place.turns(config))
        if isinstance(place, Place) and place.turns
        else place
        for ours, place in names.items()
    }


def config_to_hf(config: ModelConfig) -> dict[str, Any]:
    """Returns a config.json, as a dictionary, that `config_from_hf` and the library transformers understand.

    Raises:
        ValueError: no family has such a model; the message names what the family lacks that comes closest.
        TypeError: `config` is not a ModelConfig.
    """
    checks.instance("config", config, ModelConfig)
    kind, given, lost = _best(config)
    if lost:
        raise ValueError(
            f"{kind} of transformers has no {', '.join(lost)}; a model that is trained with what it has can be saved, "
            "such as one of the recipe portable"
        )
    return deepcopy(given)


@lru_cache(maxsize=64)
def _best(config: ModelConfig) -> tuple[str, dict[str, Any], tuple[str, ...]]:
    """Returns the family that loses least of a model, its file, and what is lost: the first of several."""
    best: tuple[str, dict[str, Any], tuple[str, ...]] | None = None
    for kind, form in FORMATS.items():
        if form.claims is not None and not form.claims(config):
            continue
        given = {"model_type": kind} | tables.write(form, config)
        try:
            lost = _lost(config, config_from_hf(given))
        except ValueError:
            continue
        if best is None or len(lost) < len(best[2]):
            best = kind, given, lost
        if not lost:
            break
    assert best is not None  # a GPT-2 can be any decoder, less what it lacks
    return best


def _lost(config: ModelConfig, back: ModelConfig) -> tuple[str, ...]:
    """Returns what a model has that was lost on the way to a file and back.

    LLaMAs have no dropout, and a pooler shows in its weights. Without a ramp between slow and fast pairs, its ends mean
    nothing.
    """
    differ = config.kinds is not None or back.kinds is not None
    silent = {"dropout", "pooler", "kinds", "order", *(OF_A_LAYER if differ else ())}
    silent |= RAMP if config.rope_scaling == "linear" else set()
    lost = [
        f"{f.name}={getattr(config, f.name)!r} (it has {getattr(back, f.name)!r})"
        for f in fields(ModelConfig)
        if f.name not in silent and getattr(back, f.name) != getattr(config, f.name)
    ]
    if differ:
        pairs = ((i, _meant(config.layer(i)), _meant(back.layer(i))) for i in range(config.n_layers))
        index, ours, theirs = next((pair for pair in pairs if pair[1] != pair[2]), (0, {}, {}))
        lost += [
            f"{name}={value!r} in layer {index} (it has {theirs.get(name)!r})"
            for name, value in ours.items()
            if value != theirs.get(name)
        ]
    return tuple(lost)


def _meant(layer: Layer) -> dict[str, Any]:
    """Returns the numbers and choices of a layer by their names, without those that mean nothing."""
    found: dict[str, Any] = {"scores": layer.scores, "stream_scale": layer.stream_scale}
    for part in (layer.attention, layer.feedforward, layer.residual, layer.attention.rotation):
        found |= {} if part is None else asdict(part)
    if found.get("scaling") == "linear":
        found |= {"slow": None, "fast": None, "original_context": None}
    found["attention_scale"] = layer.attention.scale  # what a residual adds has a `scale`, too
    if layer.attention.has_state:  # no keys are kept: the state has heads of its own
        found |= dict.fromkeys(("n_heads", "n_kv_heads", "d_head", "attention_scale"))
    if (
        experts := layer.feedforward.experts
    ) is not None:  # a softmax has the sum 1; how evenly concerns training
        found["experts"] = asdict(experts) | {"balance": 0.0}
        found["experts"] |= {"renormalize": True} if experts.scores == "chosen" else {}
    if layer.n_sublayers == 1:
        found["d_ff"] = None
    return found | {"rotation": layer.attention.rotation is not None}


def _in_their_words(message: str, form: Format, settings: Mapping[str, Any]) -> str:
    """Replaces our field names in a message by the file's names for them."""
    names = {ours: key.name for ours, key in (form.fields | form.part_keys).items()}
    message = re.sub(r"^kinds\['\w+'\]: ", "", message)
    if form.kinds is not None:
        names |= {
            ours: key.name
            for own in form.kinds.own.values()
            for ours, key in own.items()
            if isinstance(key, Key)
        }
    kinds = (settings, *(settings.get("kinds") or {}).values())
    scaling = next((own["rope_scaling"] for own in kinds if "rope_scaling" in own), "default")
    names |= {ours: theirs for ours, (theirs, _) in SCALINGS[scaling].items()}
    for ours, theirs in (names | dict(form.said)).items():
        message = re.sub(rf"\b{ours}=", f"{theirs}=", message)
    return message
