"""Explains a Hugging Face config.json in sentences, counts its parameters, and says whether our code runs it."""

import json
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields
from typing import Any

from traitlets import Dict, Enum, default

from glassformer.config import OF_A_LAYER, ModelConfig
from glassformer.huggingface import config_from_hf, config_to_hf, unknown_keys
from glassformer.huggingface.configs import COMMON
from glassformer.huggingface.families import FORMATS
from glassformer.huggingface.families.format import Format, Kinds
from glassformer.huggingface.families.rope import SCALINGS
from glassformer.huggingface.keys import ROPE_KEYS, RULES, SCALES, WITHOUT_TYPE, Key
from glassformer.huggingface.tables import FLOATS, without_effect
from glassformer.layers import PARTS
from glassformer.parameters import LETTERS
from glassformer.published import PUBLISHED, published
from glassformer.widgets.engine.counting import DEPENDS, LIMITS, formulas
from glassformer.widgets.kit.view import Chapters, Made, Text, View

LONGEST = 20_000  # characters; the longest known file has a tenth of this
RUN = ("gpt2", "bert-base", "t5-base", "llama-3-8b", "llama-3.2-1b", "mistral-7b-v0.1", "qwen3-0.6b")
RUN += ("gemma-3-1b", "olmo-3-7b", "smollm3-3b")
"""The published models that serve as examples."""


def written(name: str) -> dict[str, Any]:
    """Returns the config.json of a published model, as this book writes it."""
    return config_to_hf(published(name).config)


def examples() -> list[tuple[str, str, str]]:
    """Returns (kind, name, text) for each example: configurations that run, and some that our code refuses."""
    mistral, llama, gpt2 = map(written, ("mistral-7b", "llama-3-8b", "gpt2"))
    experts = {"model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "num_local_experts": 8}
    dynamic = llama["rope_parameters"] | {"rope_type": "dynamic", "factor": 2.0}
    longrope = {"type": "longrope", "rope_theta": 10_000.0}
    phi = {"model_type": "phi3", "architectures": ["Phi3ForCausalLM"], "partial_rotary_factor": 0.75}
    phi |= {"original_max_position_embeddings": 4096, "rope_parameters": None, "rope_scaling": longrope}
    refused = {
        "partial rotation": mistral | phi,
        "dynamic stretching": llama | {"rope_parameters": dynamic, "rope_scaling": dynamic},
        "eight experts": mistral | experts | {"num_experts_per_tok": 2},
        "11 heads": gpt2 | {"n_head": 11},
        "a field less": {name: value for name, value in gpt2.items() if name != "n_layer"},
    }
    given = [("runs", name, written(name)) for name in RUN]
    given += [("refused", name, one) for name, one in refused.items()]
    return [(kind, name, json.dumps(one, indent=2)) for kind, name, one in given]


def tables() -> dict[str, Any]:
    """Returns the tables of `huggingface` for the view's JavaScript."""
    return {
        "formats": {kind: _format(form) for kind, form in FORMATS.items()},
        "parts": {name: _part(name, part) for name, part in PARTS.items()},
        "common": COMMON,
        "rules": RULES,
        "ropeKeys": ROPE_KEYS,
        "withoutType": WITHOUT_TYPE,
        "scales": SCALES,
        # A number that is a float in Python is also written as one in JavaScript: 0.0
        "floats": FLOATS,
        "scalings": SCALINGS,
        "ofALayer": OF_A_LAYER,
        "defaults": {f.name: None if f.default is MISSING else f.default for f in fields(ModelConfig)},
        "limits": LIMITS,
        "known": {one.n_parameters: name for name, one in PUBLISHED.items()},
    }


def _format(form: Format) -> dict[str, Any]:
    return {
        "fields": _keys(form.fields),
        "always": form.always,
        "rope": None if form.rope is None else asdict(form.rope),
        "kinds": None if form.kinds is None else _kinds(form.kinds),
        "parts": {place: (part.name, _keys(part.arguments)) for place, part in form.parts.items()},
        "mustBe": form.must_be,
        "said": form.said,
        "also": form.also,
        "aliases": form.aliases,
        "keys": list(dict.fromkeys(form.keys)),
        "tied": form.tied,
        "architectures": form.architectures,
    }


def _kinds(kinds: Kinds) -> dict[str, Any]:
    found = {f.name: _key(getattr(kinds, f.name)) for f in fields(kinds)}
    own = {name: _keys(own) for name, own in kinds.own.items()}
    return found | {"words": list(kinds.words.items()), "own": own}  # pairs, as JavaScript would sort 1 and 0


def _part(name: str, part: Any) -> dict[str, Any]:
    """Describes a part: its defaults, the numbers with which it changes nothing, and its arguments that are numbers."""
    nothing = without_effect(name)
    return {
        "defaults": {f.name: f.default for f in fields(part) if f.default is not MISSING},
        "nothing": None if nothing is None else asdict(nothing),
        "types": {f.name: f.type.__name__ for f in fields(part) if f.type in (float, int)},
    }


def _keys(table: Mapping[str, Any]) -> dict[str, Any]:
    return {ours: _key(value) for ours, value in table.items()}


def _key(value: Any) -> Any:
    """Writes a key as a list, with words for true and false as JSON has them; anything else as it is."""
    if not isinstance(value, Key) or value.words is None:
        return value
    words = {
        str(word).lower() if isinstance(word, bool) else word: ours for word, ours in value.words.items()
    }
    return value._replace(words=words)


class ConfigReader(View, module="config_reader"):
    """Explains a config.json: what each field means, how many parameters result, and whether our code supports it.

    Everything is computed on the page, with the tables of `huggingface` and the formulas of
    `ModelConfig.parameter_count`; pasted text is not sent anywhere.

    Derived in chapter 13.

    Traits:
        text: what is read: a config.json, or anything else, up to 20,000 characters.
        part: the part of the model that the last sentence is about, such as "attention".

    Raises:
        TraitError: the text is too long, or there is no such part.
    """

    text = Text(longest=LONGEST).tag(sync=True)
    part = Enum(tuple(DEPENDS), "feed-forward").tag(sync=True)
    _tables = Made(lambda _: tables()).tag(sync=True)
    _examples = Made(lambda _: examples()).tag(sync=True)
    _formulas = Made(lambda _: formulas()).tag(sync=True)
    _letters = Dict(LETTERS).tag(sync=True)
    _chapters = Chapters().tag(sync=True)

    @property
    def config(self) -> ModelConfig:
        """Returns the configuration that the text describes; keys that are not known here are passed over.

        Raises:
            ValueError: the text is not JSON, or does not describe a model that our code supports; the message
                says why.
            TypeError: a field holds the wrong kind of thing.
        """
        given = json.loads(self.text)
        if not isinstance(given, dict):
            raise ValueError(f"a config.json is a JSON object, not {given!r:.40}")
        return config_from_hf(given, ignore=unknown_keys(given))

    @default("text")
    def _default_text(self) -> str:
        return next(text for _, name, text in examples() if name == "llama-3-8b")
