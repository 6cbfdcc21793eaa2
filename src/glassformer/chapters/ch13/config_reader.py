"""Says what any config.json describes: layers, numbers, keys, and whether our code runs the model."""

import json
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields
from typing import Any

from traitlets import Int, default

from glassformer import anatomy
from glassformer.anatomy.reading import MOST_LAYERS
from glassformer.config import OF_A_LAYER, ModelConfig
from glassformer.huggingface import config_from_hf, unknown_keys
from glassformer.huggingface.configs import COMMON
from glassformer.huggingface.families import FORMATS
from glassformer.huggingface.families.format import Format, Kinds
from glassformer.huggingface.families.rope import SCALINGS
from glassformer.huggingface.keys import ROPE_KEYS, RULES, SCALES, WITHOUT_TYPE, Key
from glassformer.huggingface.tables import FLOATS, without_effect
from glassformer.layers import PARTS
from glassformer.widgets.engine.counting import LIMITS
from glassformer.widgets.kit.view import Chapters, Made, Text, UpTo, View

LONGEST = 1_000_000  # characters; lists of matrices that are not stored in fewer bits can take 100,000
LENGTHS = (100, 1_000, 4_096, 10_000, 32_768, 100_000, 131_072, 262_144, 500_000, 1_000_000)
MOST_POSITIONS = 100_000_000
FIRST = "Qwen3.5 27B"
"""The file that is read at first."""


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


def shelf() -> list[dict[str, Any]]:
    """Returns the shelf with each file as text: a stored notebook sorts the keys of objects."""
    return [
        one | {"config": json.dumps(one["config"], separators=(",", ":"), ensure_ascii=False)}
        for one in anatomy.shelf()
    ]


def half(table: Mapping[str, Any], which: int) -> dict[str, Any]:
    """Returns the first half (0) or the second (1) of a table that would be too heavy for one trait."""
    rows = list(table.items())
    return dict(rows[: len(rows) // 2] if which == 0 else rows[len(rows) // 2 :])


class ConfigReader(View, module="config_reader"):
    """Says what a config.json describes, or what differs between two: layers, parameters, cache, and each key.

    Everything is computed on the page, with the tables of `anatomy` and of `huggingface`; a file is not sent anywhere.

    Derived in chapter 13.

    Traits:
        text: what is read: a config.json, or anything else, up to a million characters.
        other: a second file, of which only what differs is shown; "" is none.
        positions: the number of positions that have been read, from 1 to 100,000,000.
        kind: the number, from 0, of the kind of layer whose steps are shown.

    Raises:
        TraitError: a text is too long, or a number is outside of its range.
    """

    text = Text(longest=LONGEST).tag(sync=True)
    other = Text(longest=LONGEST).tag(sync=True)
    positions = UpTo(lambda _: MOST_POSITIONS, first=100_000, least=1).tag(sync=True)
    kind = UpTo(lambda _: MOST_LAYERS, first=0).tag(sync=True)
    _ours = Made(lambda _: tables()).tag(sync=True)
    _families = Made(lambda _: half(anatomy.families(), 0)).tag(sync=True)
    _more_families = Made(lambda _: half(anatomy.families(), 1)).tag(sync=True)
    _parts = Made(lambda _: anatomy.tables()["parts"]).tag(sync=True)
    _classes = Made(lambda _: anatomy.classes()).tag(sync=True)
    _words = Made(lambda _: {name: table for name, table in anatomy.words().items() if name != "keys"}).tag(
        sync=True
    )
    _keys = Made(lambda _: half(anatomy.words()["keys"], 0)).tag(sync=True)
    _more_keys = Made(lambda _: half(anatomy.words()["keys"], 1)).tag(sync=True)
    _shelf = Made(lambda _: shelf()).tag(sync=True)
    _lengths = Made(lambda view: sorted({*LENGTHS, view.positions})).tag(sync=True)
    _longest = Int(LONGEST).tag(sync=True)
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
        (file,) = (one["config"] for one in anatomy.shelf() if one["name"] == FIRST)
        return json.dumps(file, indent=2, ensure_ascii=False)
